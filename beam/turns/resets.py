"""Finds the time at which a usage limit ends, in what a CLI says: a time (with or without its date and zone), seconds
since 1970, or a duration from now. Pure: texts and the current time go in, a time comes out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

LONGEST_S = 8 * 86_400  # the longest limit of a vendor is a week; a later time is a mistake, or made up
_LATE_S = 86_400
_MAX_CHARS = 2000
# A time counts only behind words that say that the limit ends then.
_AFTER = r"(?:resets?|again|retry|retrying|limit reached|available|refreshes)"
_UNIT = r"(?:d(?:ays?)?|h(?:ours?|rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?|ms)\b"
_DURATION = (
    rf"{_AFTER}\s+(?:in|after)\s+((?:\d{{1,7}}(?:\.\d{{1,9}})?\s*(?:ms\b|{_UNIT}|[dhm](?=\d))[\s,]*(?:and\s+)?){{1,4}})"
)
_PART = rf"(\d+(?:\.\d+)?)\s*(ms\b|{_UNIT}|[dhm](?=\d))"
_HEADER = r"retry-after(?:[:=]|\s)\s*(\d{1,7}(?:\.\d{1,9})?)(?!\d)"
_UNIX = rf"{_AFTER}\W{{1,3}}(?:at\s+)?(1\d{{9}})(\d{{3}})?(?!\d)"
_RFC3339 = rf"{_AFTER}\s+(?:at\s+)?(\d{{4}}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = (
    rf"{_AFTER}\s+(?:(?:at|on)\s+)?"
    rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(?P<year>20\d\d))?"
    r"(?:,|\s+at)?\s+)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]\.?m\b)?\.?(?:\s*\((?P<zone>[A-Za-z_+\-/0-9]{1,40})\)|\s+(?P<utc>UTC|GMT)\b)?"
)
_SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def reset_ns(texts: Iterable[str], now_ns: int, local: tzinfo | None = None) -> int | None:
    """Return the time at which a usage limit ends (nanoseconds since 1970), from the first text that says one; None if
    none does. A time more than eight days away does not count, nor one that is over for more than a day: a turn may
    end a moment after its limit.

    `local` is the time zone of a time without one; None: this machine's.
    """
    for text in texts:
        for found in _times_in(text[:_MAX_CHARS], now_ns, local):
            if now_ns - _LATE_S * 10**9 < found <= now_ns + LONGEST_S * 10**9:
                return found
    return None


def _times_in(text: str, now_ns: int, local: tzinfo | None) -> Iterator[int]:
    """Yield the times that the text names, from the most exact form to the least."""
    for found in re.finditer(_RFC3339, text, re.IGNORECASE):
        try:
            since_epoch = datetime.fromisoformat(found[1].upper()) - datetime.fromtimestamp(0, UTC)
            yield since_epoch // timedelta(microseconds=1) * 1000
        except (ValueError, OverflowError):
            continue
    for found in re.finditer(_UNIX, text, re.IGNORECASE):
        yield int(found[1]) * 10**9
    for found in re.finditer(_HEADER, text, re.IGNORECASE):
        yield now_ns + int(float(found[1]) * 10**9)
    for found in re.finditer(_DURATION, text, re.IGNORECASE):
        parts = re.findall(_PART, found[1], re.IGNORECASE)
        seconds = sum(float(count) * _unit_s(unit.lower()) for count, unit in parts)
        yield now_ns + int(seconds * 1e9)
    for found in re.finditer(_CLOCK, text, re.IGNORECASE):
        yield from _clock_times(found, now_ns, local)


def _unit_s(unit: str) -> float:
    return 0.001 if unit == "ms" else _SECONDS[unit[0]]


def _clock_times(found: re.Match[str], now_ns: int, local: tzinfo | None) -> Iterator[int]:
    """Yield the end of the minute that a time of day names, because CLIs leave its seconds out: on the named date, or
    on the next day that has it."""
    hour, minute, half = int(found["hour"]), int(found["minute"] or 0), (found["half"] or "").lower()
    if (not half and found["minute"] is None) or hour > (12 if half else 23) or minute > 59 or (half and not hour):
        return
    if half:
        hour = hour % 12 + (12 if half[0] == "p" else 0)
    try:
        zone = UTC if found["utc"] else ZoneInfo(found["zone"]) if found["zone"] else local
        now = datetime.fromtimestamp(now_ns / 1e9, UTC).astimezone(zone)
        date = now.date()
        if found["month"]:
            month = _MONTHS.index(found["month"].lower()) + 1
            date = date.replace(year=int(found["year"] or now.year), month=month, day=int(found["day"]))
            dates = [date, date if found["year"] else date.replace(year=now.year + 1)]
        else:
            dates = [date, date + timedelta(days=1)]
        for each in dates:
            named = datetime(each.year, each.month, each.day, hour, minute)
            at = named.astimezone() if zone is None else named.replace(tzinfo=zone)
            ends_ns = int(at.timestamp() + 60) * 10**9
            if found["month"] or ends_ns > now_ns:
                yield ends_ns
    except (ValueError, OSError, OverflowError, KeyError):  # no such date or zone
        return
