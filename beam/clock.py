"""Time and randomness, as one value that logic is given; and the one way that times are written."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Where a process gets time and randomness from."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch; may jump, backwards too."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes backwards."""

    def random(self, count: int) -> bytes:
        """That many random bytes."""


class SystemClock:
    """The machine's own."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    def random(self, count: int) -> bytes:
        return os.urandom(count)


def rfc3339(now_ns: int) -> str:
    """The time as beam writes it: UTC, microseconds, `Z`. Such texts sort as the times do."""
    seconds, rest = divmod(now_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest // 1000:06d}Z"


def parse_rfc3339(text: str) -> int:
    """Nanoseconds since the epoch of any RFC 3339 time; one without an offset is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND * 1000
