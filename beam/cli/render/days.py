"""The local times of lines for people, and the date that is shown where the day changes."""

from __future__ import annotations

import time

from beam import clock
from beam.cli.render.text import collapse_to_line


def time_of_day(ts: str) -> str:
    """Return the local time of day of an RFC 3339 time (`14:30:05`). If the text is no such time, return the part of it
    that would be the time, on one line without control characters."""
    try:
        return clock.local_time(ts)
    except (ValueError, OverflowError, OSError):
        return collapse_to_line(ts[11:19])


def date_of(ts: str) -> str:
    """Return the local date of an RFC 3339 time (`2026-11-28`); "" if the text is no such time."""
    try:
        return time.strftime("%Y-%m-%d", time.localtime(clock.parse_rfc3339(ts) // 1_000_000_000))
    except (ValueError, OverflowError, OSError):
        return ""


class Days:
    """Decides where a date is shown among lines that show only the time of day. `now` (RFC 3339) is the present time:
    the first lines have no date if they are of today."""

    def __init__(self, now: str) -> None:
        self._date = date_of(now)

    def heading(self, ts: str) -> str:
        """Return the date to show above the next line, which is of the time `ts` (RFC 3339); "" if the line before it
        is of the same day."""
        date = date_of(ts)
        if not date or date == self._date:
            return ""
        self._date = date
        return f"── {date} ──"
