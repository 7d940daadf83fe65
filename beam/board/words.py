"""Words of others on their way to the board: on one line, harmless, and as wide as they are drawn."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from beam.cli.render.text import collapse_to_line, display_width, escape_controls, truncate

_LONGEST = 4_000  # characters of a text that a line looks at
_INVISIBLE = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Me"})
_MOST_MARKS = 2  # on one letter


class Piece(NamedTuple):
    """A part of a line and the name of its style (see `styles`)."""

    text: str
    style: str = ""


Drawn = tuple[Piece, ...]


def plain(text: str) -> str:
    """Return the text on one line, without what a terminal or the eye would take for something else."""
    text = text[:_LONGEST]
    return collapse_to_line(text if text.isascii() else _visible(text))


def plain_lines(text: str) -> list[str]:
    """Return the text's own lines, each as harmless as `plain` makes one; their spaces stay."""
    whole = text if text.isascii() else _visible(text)
    return [escape_controls(line).expandtabs(4) for line in whole.replace("\r\n", "\n").split("\n")]


def _visible(text: str) -> str:
    """Return the text with a picture for each invisible character, and at most two marks on each letter."""
    found: list[str] = []
    marks = 0
    for char in unicodedata.normalize("NFC", text):
        kind = "" if char.isascii() else unicodedata.category(char)
        marks = marks + 1 if kind in _MARKS else 0
        if kind in _INVISIBLE and not "\x80" <= char <= "\x9f":
            found.append(f"<U+{ord(char):04X}>")
        elif marks <= _MOST_MARKS:
            found.append(char)
    return "".join(found)


def cell(text: str, width: int, *, right: bool = False) -> str:
    """Return the text, cut or filled to exactly that many columns."""
    if width <= 0:
        return ""
    shown = truncate(text, width)
    space = " " * max(0, width - display_width(shown))
    return space + shown if right else shown + space


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, each cut into parts of at most that many columns; nothing is left out."""
    found = []
    for line in plain_lines(text):
        rest = line
        while display_width(rest) > width:
            end, used = 0, 0
            while end < len(rest) and used + display_width(rest[end]) <= width:
                used += display_width(rest[end])
                end += 1
            end = max(1, end)
            found.append(rest[:end])
            rest = rest[end:]
        found.append(rest)
    return found


def as_text(line: Drawn) -> str:
    """Return the line without its styles."""
    return "".join(piece.text for piece in line).rstrip()


def elapsed(seconds: float) -> str:
    """Return a length of time in one unit, for a narrow column: `12s`, `3m`, `5h`, `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def money(usd: float | None, *, is_estimate: bool = False) -> str:
    """Return an amount as four characters or more, "" for an unknown one; `~` marks an estimate."""
    if usd is None:
        return ""
    return f"{'~' if is_estimate else ''}${usd:.2f}" if usd >= 1 else f"{'~' if is_estimate else ''}${usd:.4f}"


def count(number: int | None) -> str:
    """Return a number of tokens for a narrow column: `940`, `12.3k`, `4.5M`."""
    if number is None:
        return ""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)
