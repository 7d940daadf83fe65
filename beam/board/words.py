"""Makes text from other programs safe to draw: on one line, without control characters, with a known width."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from beam.cli.render.text import collapse_to_line, display_width, escape_controls, truncate

_MAX_CHARACTERS = 4_000  # how many characters of a text are shown on a line at most
_INVISIBLE = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Me"})
_MAX_MARKS = 2  # combining marks on one letter


class Piece(NamedTuple):
    """A part of a line and the name of its style (see `styles`)."""

    text: str
    style: str = ""


StyledLine = tuple[Piece, ...]


def safe_line(text: str) -> str:
    """Return the first 4,000 characters of the text on one line. Control and invisible characters are replaced by
    visible signs."""
    text = text[:_MAX_CHARACTERS]
    return collapse_to_line(text if text.isascii() else _show_invisible(text))


def safe_lines(text: str) -> list[str]:
    """Return the lines of the text. Control and invisible characters are replaced as in `safe_line`, and all spaces are
    kept."""
    whole = text if text.isascii() else _show_invisible(text)
    return [escape_controls(line).expandtabs(4) for line in whole.replace("\r\n", "\n").split("\n")]


def _show_invisible(text: str) -> str:
    """Return the text with each invisible character replaced by `<U+XXXX>`, and with at most two combining marks on
    each letter. Control characters stay."""
    found: list[str] = []
    marks = 0
    for char in unicodedata.normalize("NFC", text):
        kind = "" if char.isascii() else unicodedata.category(char)
        marks = marks + 1 if kind in _MARKS else 0
        if kind in _INVISIBLE and not "\x80" <= char <= "\x9f":
            found.append(f"<U+{ord(char):04X}>")
        elif marks <= _MAX_MARKS:
            found.append(char)
    return "".join(found)


def cell(text: str, width: int, *, right: bool = False) -> str:
    """Return the text, cut or padded to exactly `width` columns."""
    if width <= 0:
        return ""
    shown = truncate(text, width)
    space = " " * max(0, width - display_width(shown))
    return space + shown if right else shown + space


def cut_middle(text: str, width: int) -> str:
    """Return the text in at most `width` columns. If it is longer, its beginning and its end stay, with `…` between
    them."""
    if display_width(text) <= width:
        return text
    begin = truncate(text, (width + 1) // 2).rstrip("…") + "…"
    end, rest = "", width - display_width(begin)
    for char in reversed(text):
        rest -= display_width(char)
        if rest < 0:
            break
        end = char + end
    return begin + end


def wrap(text: str, width: int) -> list[str]:
    """Return the text wrapped into lines of at most `width` columns; nothing is left out."""
    found = []
    for line in safe_lines(text):
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


def as_text(line: StyledLine) -> str:
    """Return the line without its styles."""
    return "".join(piece.text for piece in line).rstrip()


def elapsed(seconds: float) -> str:
    """Return a duration in one unit, for a narrow column: `12s`, `3m`, `5h`, `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def money(usd: float | None, *, is_estimate: bool = False) -> str:
    """Return an amount of dollars, "" if it is unknown; `~` marks an estimate."""
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
