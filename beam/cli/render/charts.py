"""Bars and sparklines of block characters, for a terminal that can show them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_WIDTH = 10


def bar(value: float, most: float, *, width: int = _WIDTH) -> str:
    """Return a bar that fills the share `value / most` of `width` columns, padded with spaces. A bar for a value above
    0 is never empty."""
    if most <= 0 or value <= 0:
        return " " * width
    eighths = max(1, round(min(value / most, 1.0) * width * 8))
    if _is_ascii():
        return ("#" * max(1, eighths // 8)).ljust(width)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def sparkline(values: Sequence[float]) -> str:
    """Return one block character per value, with a space for 0. Return "" if no value is above 0."""
    most = max(values, default=0)
    if most <= 0:
        return ""
    heights = "._-=^" if _is_ascii() else _HEIGHTS
    return "".join(
        " " if value <= 0 else heights[min(len(heights) - 1, int(value / most * len(heights)))] for value in values
    )


def _is_ascii() -> bool:
    return "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
