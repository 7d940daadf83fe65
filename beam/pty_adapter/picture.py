"""A picture of a screen: rows of text with colours and attributes. It is a value that other processes and other
terminals can show. Pure; no text in a picture can be an escape sequence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from unicodedata import category

from msgspec import Struct
from wcwidth import wcwidth

from beam.pty_adapter.attributes import Attributes
from beam.pty_adapter.grid import Line, Row
from beam.pty_adapter.screen import Screen

_LOOKS = ("bold", "italics", "underscore", "strikethrough", "reverse", "blink")
_SGR = dict(zip(_LOOKS, ("1", "3", "4", "9", "7", "5"), strict=True))
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_UNSAFE_CATEGORIES = frozenset(("Cc", "Cs", "Zl", "Zp"))
_JOINER = "\u200d"  # of emoji; other format characters reverse the direction of text, or are invisible
_BRIGHT_OFFSET = 60  # added to a colour's number for its bright variant
_CUBE_LEVELS = (0, 95, 135, 175, 215, 255)  # of the 6 x 6 x 6 cube of the 256 colours


class Run(Struct, frozen=True, array_like=True):
    """Adjacent characters of a row with the same appearance. A colour is "" (the terminal's default), a name (`red`,
    `bright red`) or `#rrggbb`; `ground` is the background colour. `looks` are words of `bold italics underscore
    strikethrough reverse blink`."""

    text: str
    colour: str = ""
    ground: str = ""
    looks: tuple[str, ...] = ()


Runs = tuple[Run, ...]


class Picture(Struct, frozen=True, kw_only=True):
    """A screen at one moment. `row` and `column` are the position of the cursor, from 0, and `cursor` says whether it
    is visible. `pastes`: the program has enabled bracketed paste. `keypad`: the program has enabled the application
    form of the cursor keys."""

    columns: int
    rows: tuple[Runs, ...]
    row: int = 0
    column: int = 0
    cursor: bool = True
    title: str = ""
    pastes: bool = False
    keypad: bool = False

    @property
    def text(self) -> str:
        """Return the rows as text without trailing blanks, down to the last row that is not blank."""
        rows = ["".join(run.text for run in runs).rstrip() for runs in self.rows]
        return "\n".join(rows).rstrip("\n")


class Painter:
    """Makes pictures of one screen. Rows that did not change since the last picture are reused."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._known: list[tuple[Line, Runs]] = []

    def picture(self) -> Picture:
        """Return a picture of the screen as it is now."""
        screen = self._screen
        before, self._known = self._known, []  # held, so that no new line gets the id of an old one
        known = {id(line): runs for line, runs in before}
        for row in screen.grid():
            line = row.read()  # a new object after every change
            self._known.append((line, known.get(id(line)) or _runs(row)))
        view = screen.cursor()
        return Picture(
            columns=screen.columns,
            rows=tuple(runs for _, runs in self._known),
            row=view.row,
            column=min(view.column, screen.columns - 1),
            cursor=view.shown,
            title="".join(char for char in screen.title if char.isprintable()),
            pastes=screen.bracketed_paste,
            keypad=1 in screen.modes,
        )


def _runs(row: Row) -> Runs:
    looks = zip(row.cells, map(_appearance, row.attributes), strict=True)
    found = [Run("".join(cell for cell, _ in alike), *look) for look, alike in groupby(looks, key=itemgetter(1))]
    while found and not (found[-1].text.strip() or found[-1].ground or found[-1].looks):
        found.pop()
    if found and not (found[-1].ground or found[-1].looks):
        found[-1] = Run(found[-1].text.rstrip(), found[-1].colour)
    return tuple(found)


@lru_cache(maxsize=512)
def _appearance(cell: Attributes) -> tuple[str, str, tuple[str, ...]]:
    return cell.colour, cell.ground, tuple(word for word in _LOOKS if getattr(cell, word))


# -- for a terminal ----------------------------------------------------------------------------------------------------


def cut(runs: Sequence[Run], first: int, width: int) -> Runs:
    """Return the `width` cells from cell `first` on. A wide character that is cut in half becomes a blank."""
    found: list[Run] = []
    at = 0
    for run in runs:
        text = ""
        for char in run.text:
            cells = max(0, wcwidth(char))
            if at + cells <= first or (cells == 0 and at <= first):
                at += cells
                continue
            if at + cells > first + width:
                text += " " * max(0, first + width - max(at, first)) if at < first + width else ""
                at += cells
                break
            text += " " * (at + cells - first) if at < first else char
            at += cells
        if text:
            found.append(Run(text, run.colour, run.ground, run.looks))
        if at >= first + width:
            break
    return tuple(found)


def paint(runs: Sequence[Run], *, true_colour: bool = True) -> str:
    """Return the text of the runs with escape sequences for their appearance. After each sequence and its text, the
    appearance is reset."""
    return "".join(
        f"\x1b[{codes}m{_safe_text(run.text)}\x1b[m" if (codes := _codes(run, true_colour)) else _safe_text(run.text)
        for run in runs
    )


def repaint(picture: Picture) -> str:
    """Return the text that draws the whole picture on an empty terminal of the same size and moves the cursor to its
    position."""
    rows = [f"\x1b[{number};1H{paint(runs)}" for number, runs in enumerate(picture.rows, 1) if runs]
    shown = "\x1b[?25h" if picture.cursor else "\x1b[?25l"
    return f"\x1b[H\x1b[2J{''.join(rows)}\x1b[{picture.row + 1};{picture.column + 1}H{shown}"


def _safe_text(text: str) -> str:
    """Return the text without control characters. Every kind of blank becomes a space."""
    return text if text.isascii() and text.isprintable() else "".join(map(_safe_character, text))


def _safe_character(char: str) -> str:
    kind = category(char)
    if kind == "Zs":
        return " " * max(0, wcwidth(char))
    if kind == "Cf":
        return char if char == _JOINER else ""
    return "\ufffd" if kind in _UNSAFE_CATEGORIES else char


def _codes(run: Run, true_colour: bool) -> str:
    codes = [_SGR[word] for word in run.looks if word in _SGR]
    for colour, base in ((run.colour, 30), (run.ground, 40)):
        if colour.startswith("#"):
            red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
            kind = f"2;{red};{green};{blue}" if true_colour else f"5;{_nearest_of_256(red, green, blue)}"
            codes.append(f"{base + 8};{kind}")
        elif colour:
            bright, _, name = colour.rpartition(" ")
            codes.append(str(base + _COLOURS.index(name) + (_BRIGHT_OFFSET if bright else 0)))
    return ";".join(codes)


def _nearest_of_256(*parts: int) -> int:
    """Return the number of the nearest colour in the 6 x 6 x 6 cube of the 256 colours."""
    number = 16
    for part, weight in zip(parts, (36, 6, 1), strict=True):
        number += weight * min(range(6), key=lambda level: abs(_CUBE_LEVELS[level] - part))
    return number
