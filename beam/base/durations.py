"""Durations as people write them: `90s`, `1h30m`, `500ms`, `2.5h`, `45`. Does not depend on clocks."""

from __future__ import annotations

import re
from typing import overload

from beam.base.errors import UsageError

LONGEST = 366 * 86400.0
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"(\d{1,12}(?:\.\d{1,9})?)"
# Compiled when a duration is read: most commands read none.
_DURATION = r" ?".join(rf"(?:{_NUMBER} ?{unit})?" for unit in _SECONDS)
_HINT = "write it like 90s, 5m, 1h30m or 500ms; a number alone is seconds"


def parse(text: str) -> float:
    """Return the duration in seconds. A number without a unit means seconds.

    Raises UsageError for any other text, and for a duration of more than a year.
    """
    plain = text.strip().lower()
    alone = re.fullmatch(_NUMBER, plain) if plain.isascii() else None
    match = alone or (re.fullmatch(_DURATION, plain) if plain.isascii() else None)
    if not match or not any(match.groups()):
        raise UsageError(f"{text[:80]!r} is not a duration", _HINT, subject=text[:80])
    units = [1.0] if alone else _SECONDS.values()
    seconds = sum(float(number) * unit for number, unit in zip(match.groups(), units, strict=True) if number)
    if seconds > LONGEST:
        raise UsageError(f"{text[:80]!r} is longer than a year", _HINT, subject=text[:80])
    return seconds


@overload
def seconds(given: float | str) -> float: ...
@overload
def seconds(given: float | str | None) -> float | None: ...
def seconds(given: float | str | None) -> float | None:
    """Return a duration that a program gave in seconds: a text such as `10m` is read, anything else is returned
    unchanged. Raises UsageError."""
    return parse(given) if isinstance(given, str) else given


def show(seconds: float) -> str:
    """Return the duration for people, in at most two units: `850ms`, `9.5s`, `2m05s`, `1h30m`, `3d04h`."""
    if seconds < 0:
        return f"-{show(-seconds)}"
    if seconds < 0.9995:
        return f"{round(seconds * 1000)}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"
