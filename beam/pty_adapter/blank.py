"""Finds secrets that are visible on a screen, even if they were drawn in pieces, backwards, or over two rows.

`SecretDetector` plays a recording on a screen. `blank_secrets` replaces the characters of a recording that drew a
secret, and leaves everything else unchanged. Does not depend on files, or on whose screen it is.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from wcwidth import wcwidth

from beam.pty_adapter.grid import Grid, Line
from beam.pty_adapter.screen import Screen
from beam.pty_adapter.tokenizer import is_unfinished
from beam.secrets.redact import find_secrets

_MARK = "*"
_CANCEL = "\x18"  # CAN ends an unfinished escape sequence, so that a mark behind it is drawn
_MAX_ROUNDS = 3
_EDGE_COLUMNS = 4  # columns: programs that break their lines themselves leave no more at the right
_WORD_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+/=.~")

CellPosition = tuple[int, int]  # row and column, from 0


class SecretDetector:
    """Plays a recording on a screen and detects secrets that become visible."""

    def __init__(self, columns: int, rows: int) -> None:
        self._looking = SecretSearch(Screen(columns, rows, scrollback=0))

    def shows_secret(self, text: str) -> bool:
        """Return whether a secret is visible after this text is drawn, too. Return False if the text does not change
        the screen."""
        self._looking.screen.feed(text.encode("utf-8", "replace"))
        return any(True for _ in self._looking.secrets())


def blank_secrets(texts: Sequence[str], columns: int, rows: int) -> list[str] | None:
    """Return the texts of a recording with the characters of secrets replaced by marks; None if a secret would still be
    visible."""
    written = [*texts]
    for _ in range(_MAX_ROUNDS):
        written = _Tracer(columns, rows).blank_secrets(written)
        player = SecretDetector(columns, rows)
        if not any(player.shows_secret(text) for text in written):
            return written
    return None


# -- where secrets stand -----------------------------------------------------------------------------------------------


class SecretSearch:
    """Searches a changing screen for secrets."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._seen: list[Line] = []

    def secrets(self) -> Iterator[list[CellPosition]]:
        """Yield the cells of each secret on the screen. Yield nothing if the screen has not changed since the last
        call."""
        lines = [*self.screen.shown()]
        if len(lines) == len(self._seen) and all(map(operator.is_, lines, self._seen)):
            return
        self._seen = lines
        ends = [self._row_end(y, line) for y, line in enumerate(lines)]
        broken = ["" if _is_broken(lines, y, self.screen.columns) else end for y, end in enumerate(ends)]
        for each in (ends, broken) if broken != ends else (ends,):
            indents = [_indent(lines, y) if y > 0 and each[y - 1] == "" else 0 for y in range(len(lines))]
            rows = [line.text[indent:] + end for line, indent, end in zip(lines, indents, each, strict=True)]
            if found := find_secrets("".join(rows)):
                places = [
                    place for y, row in enumerate(rows) for place in self._cell_positions(y, indents[y], len(row))
                ]
                yield from ([place for place in places[start:end] if place] for start, end, _ in found)

    def _row_end(self, y: int, line: Line) -> str:
        """Return the text that joins the row to the next one: a newline or, for a wrapped row, a blank or nothing."""
        return "\n" if not line.wrapped else " " if self.screen.grid()[y].cells[-1] == " " else ""

    def _cell_positions(self, y: int, indent: int, size: int) -> list[CellPosition | None]:
        """Return the cell of each character of a row's text; None for a character that is in no cell, such as a
        newline."""
        cells = [(y, x) for x, cell in enumerate(self.screen.grid()[y].cells) for _ in cell]
        inside = cells[indent : len(self._seen[y].text)]
        return [*inside, *[None] * (size - len(inside))]


def _indent(lines: list[Line], y: int) -> int:
    """Return the number of blanks that the program put before a word that continues in this row; 0 if the terminal
    wrapped the word."""
    return 0 if lines[y - 1].wrapped else len(lines[y].text) - len(lines[y].text.lstrip())


def _is_broken(lines: list[Line], y: int, columns: int) -> bool:
    """Return whether a word may continue in the next row, because this row is full and both rows have word characters
    at the break."""
    text, after = lines[y].text, lines[y + 1].text.lstrip() if y + 1 < len(lines) else ""
    return (
        len(text) >= columns - _EDGE_COLUMNS
        and text[-1:] in _WORD_CHARACTERS
        and after != ""
        and after[0] in _WORD_CHARACTERS
    )


# -- what it was drawn with --------------------------------------------------------------------------------------------


class _Cell(str):
    """A character with its position in the recorded output (`origin`)."""

    origin: int


class _TracedGrid(Grid):
    """A grid whose cells know the position of their characters in the output. `at` is the position of the next
    character of output. `step` is 0 while an escape sequence draws characters, because they all have the position of
    the sequence."""

    at = 0
    step = 1

    def __init__(self, columns: int, lines: int) -> None:
        self.repeated: dict[int, int] = {}  # how many characters the sequence there drew
        super().__init__(columns, lines, scrollback=0)

    def _put(self, text: str) -> None:
        row, start = self.grid[self.cursor.y], self.cursor.x
        super()._put(text)
        for n, char in enumerate(text):
            row.cells[start + n] = self._cell(char)

    def _draw_slowly(self, data: str) -> None:
        for char in data:
            super()._draw_slowly(char)
            width = wcwidth(char)
            if width > 0:
                row, x = self.grid[self.cursor.y], self.cursor.x - width
                row.cells[x] = self._cell(row.cells[x])
            else:
                self.at += self.step

    def _cell(self, char: str) -> _Cell:
        cell = _Cell(char)
        cell.origin = self.at
        self.at += self.step
        if not self.step:
            self.repeated[self.at] = self.repeated.get(self.at, 0) + 1
        return cell


class _Tracer(Screen):
    """Plays a recording and notes which of its characters drew a secret."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows, scrollback=0)
        self._traced = _TracedGrid(columns, rows), _TracedGrid(columns, rows)
        self._main, self._alternate = self._traced
        self._grid = self._main

    def blank_secrets(self, texts: Sequence[str]) -> list[str]:
        """Return the recorded texts with marks in place of the characters of secrets."""
        units: list[list[str]] = []
        origins = set[int]()
        looking = SecretSearch(self)
        at = 0
        for text in texts:
            units.append(self._tokens.feed(text.encode("utf-8", "replace")))
            for unit in units[-1]:
                for grid in self._traced:
                    grid.at, grid.step = at, int(unit >= " ")
                self.execute_token(unit)
                at += len(unit)
            origins.update(self._secret_origins(looking))
        repeated = {at: count for grid in self._traced for at, count in grid.repeated.items()}
        return list(_mask_origins(units, sorted(origins), repeated))

    def _secret_origins(self, looking: SecretSearch) -> Iterator[int]:
        rows = self.grid()
        for places in looking.secrets():
            for y, x in places:
                cell = rows[y].cells[x]
                if isinstance(cell, _Cell):
                    yield cell.origin


def _mask_origins(units: list[list[str]], origins: list[int], repeated: dict[int, int]) -> Iterator[str]:
    """Yield the pieces with a mark in place of each character that drew a secret. A sequence that repeats such a
    character is replaced by one mark for each character that it drew."""
    flat = [unit for piece in units for unit in piece]
    starts = list(accumulate(map(len, flat), initial=0))
    by_unit: dict[int, list[int]] = {}
    for origin in origins:
        number = bisect_right(starts, origin) - 1
        by_unit.setdefault(number, []).append(origin - starts[number])
    for number, offsets in by_unit.items():
        unit = flat[number]
        if unit[:1] < " ":
            chars = [_MARK * repeated.get(starts[number], 0)]
        else:
            chars = list(unit)
            for offset in offsets:
                chars[offset] = _MARK * max(1, wcwidth(chars[offset]))
        before = flat[number - 1] if number else ""
        flat[number] = (_CANCEL if is_unfinished(before) else "") + "".join(chars)
    rest = iter(flat)
    for piece in units:
        yield "".join(next(rest) for _ in piece)
