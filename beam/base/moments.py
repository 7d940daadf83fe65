"""Points in time as people write them: `10m` (ago), `14:30`, `2026-11-23`, `2026-11-23T14:30`, `…+02:00`."""

from __future__ import annotations

from datetime import datetime, time

from beam.base import durations
from beam.base.clock import rfc3339
from beam.base.errors import UsageError

_HINT = "write it like 10m (that long ago), 14:30, 2026-11-23 or 2026-11-23T14:30"


def parse(text: str, now_ns: int) -> str:
    """Return the time in the form that events use (RFC 3339, UTC).

    A time without an offset is local. A time of day alone is today's. A duration alone means that long before now.
    Raises UsageError for anything else.
    """
    plain = text.strip()
    moment = _moment(plain, datetime.fromtimestamp(now_ns / 1e9).astimezone())
    if moment is not None:
        return rfc3339(int(moment.timestamp() * 1e6) * 1000)
    try:
        return rfc3339(now_ns - int(durations.parse(plain) * 1e9))
    except UsageError as error:
        raise UsageError(f"{text[:80]!r} is no point in time", _HINT, subject=text[:80]) from error


def _moment(text: str, now: datetime) -> datetime | None:
    if not any(sign in text for sign in ":-"):
        return None  # `2026` is a number of seconds
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            moment = datetime.combine(now.date(), time.fromisoformat(text))
        except ValueError:
            return None
    try:
        return moment.astimezone()
    except (OverflowError, OSError, ValueError):
        return None  # for example in the year 1
