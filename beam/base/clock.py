"""The interface of a clock and random source, which code gets as an argument, the type of a computation that waits, and
the only format in which beam writes times.

`Steps` is a generator that yields how long to sleep (seconds) and returns the result. The code that runs the generator
decides whether to sleep in a thread, to sleep in an event loop, or to come back later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from beam.base import own_program
from beam.base.errors import CorruptError

ASLEEP_S = 2.0  # between two readings; gaps on a busy machine are shorter
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_NS, _LAST_NS = -62_135_596_800_000_000_000, 253_402_300_799_999_999_999  # the years 1 to 9999


class Clock(Protocol):
    """The source of time and randomness of a process."""

    def now_ns(self) -> int:
        """Return the nanoseconds since the epoch. The value may jump, also backwards."""

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes backwards."""

    def random(self, count: int) -> bytes:
        """Return `count` random bytes."""


class SystemClock:
    """The machine's own clock."""

    now_ns = staticmethod(time.time_ns)
    monotonic = staticmethod(time.monotonic)
    random = staticmethod(os.urandom)


class Awake:
    """A clock whose `monotonic` stands still while this process is stopped or the machine sleeps.

    A gap of more than ASLEEP_S between two readings counts as such a pause, so the clock must be read several times a
    second. Output that arrived in the pause is read only after the pause, so the pause must not count as silence.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_read = clock.monotonic()
        self._paused_s = 0.0

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def monotonic(self) -> float:
        now = self._clock.monotonic()
        if now - self._last_read > ASLEEP_S:
            self._paused_s += now - self._last_read
        self._last_read = now
        return now - self._paused_s

    def random(self, count: int) -> bytes:
        return self._clock.random(count)


def rfc3339(now_ns: int) -> str:
    """Return the time as beam writes it: UTC, microseconds, `Z`.

    The order of such texts is the order of their times. A time before the year 1 becomes the first moment of that year,
    and a time after the year 9999 becomes the last moment of that year.
    """
    seconds, rest = divmod(min(max(now_ns, _FIRST_NS), _LAST_NS), 1_000_000_000)
    at = time.gmtime(seconds)
    day = f"{at.tm_year:04d}-{at.tm_mon:02d}-{at.tm_mday:02d}"
    return f"{day}T{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}.{rest // 1000:06d}Z"


def parse_rfc3339(text: str) -> int:
    """Return an RFC 3339 time in nanoseconds since the epoch. A time without an offset is UTC. Raises ValueError for
    any other text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND * 1000


def local_time(text: str) -> str:
    """Return the local time of day of an RFC 3339 time (`14:30:05`). Raises ValueError."""
    return time.strftime("%H:%M:%S", time.localtime(parse_rfc3339(text) // 1_000_000_000))


def local_moment(text: str, since: str) -> str:
    """Return the local time of day of an RFC 3339 time, behind its date unless that is the date of the time `since`.
    Raises ValueError."""
    days = [time.strftime("%Y-%m-%d ", time.localtime(parse_rfc3339(each) // 1_000_000_000)) for each in (text, since)]
    return (days[0] if days[0] != days[1] else "") + local_time(text)


def recorded_ns(text: str) -> int:
    """Return a time that beam wrote into a file, in nanoseconds since the epoch.

    Raises CorruptError for anything else.
    """
    try:
        return parse_rfc3339(text)
    except ValueError as error:
        raise CorruptError(f"{text[:80]!r} is not a time that beam wrote") from error


R = TypeVar("R")
Steps = Generator[float, None, R]


def run_blocking(steps: Steps[R]) -> R:
    """Run the generator to its end in this thread, with blocking sleeps, and return its result."""
    while True:
        try:
            pause = next(steps)
        except StopIteration as done:
            result: R = done.value
            return result
        own_program.wait_until_held()
        time.sleep(pause)


async def run_async(steps: Steps[R]) -> R:
    """Run the generator to its end in an event loop and return its result."""
    import asyncio

    while True:
        try:
            pause = next(steps)
        except StopIteration as done:
            result: R = done.value
            return result
        own_program.wait_until_held()
        await asyncio.sleep(pause)
