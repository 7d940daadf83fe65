"""One buffer of a terminal: rows of cells, a cursor, a scroll region. pyte's screen, made fast, exact and bounded.

What pyte 0.8.2 does otherwise than terminals do is put right here, always towards what tmux shows: rows that leave at
the top are kept, cursor movement beside the scroll region, wide characters that are cut in half. Must not know bytes,
sequences or modes of the terminal as a whole.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import Any

from msgspec import Struct
from pyte import modes
from pyte.graphics import BG_AIXTERM, BG_ANSI, FG_AIXTERM, FG_ANSI, FG_BG_256, TEXT
from pyte.screens import Char, Margins, Savepoint, wcwidth
from pyte.screens import Screen as PyteScreen

_BLANK = Char(" ")
_STUB = ""  # the right half of a wide character
_CACHED_CHARACTERS = 4096
_CACHED_STYLES = 512
_CACHED_FOLLOWERS = 32  # of each style
_CACHED_SEQUENCES = 2048
_CELL_CHARACTERS = 16  # of one cell: combining characters beyond are left out
_CLIMBS = 32

Climb = tuple[int, int, int]  # its number, how many rows were begun by then, and the line where it ended


class Line(Struct, frozen=True):
    """A row of text without trailing blanks. `wrapped`: the terminal itself broke it, and it goes on in the next."""

    text: str
    wrapped: bool = False


class Row:
    """The cells of one row: what stands in each ("" in the right half of a wide character), and its attributes, whose
    `data` says nothing. `line` is its text, None after a change."""

    __slots__ = ("attributes", "cells", "line", "wrapped")

    def __init__(self, columns: int) -> None:
        self.cells = [" "] * columns
        self.attributes = [_BLANK] * columns
        self.line: Line | None = None
        self.wrapped = False

    def read(self) -> Line:
        """The row as text."""
        if self.line is None:
            self.line = Line("".join(self.cells).rstrip(), self.wrapped)
        return self.line

    def put(self, start: int, cells: str | list[str], attributes: Char) -> None:
        """Fills the cells from `start` on."""
        end = start + len(cells)
        self.cells[start:end] = cells
        self.attributes[start:end] = [attributes] * len(cells)
        self.line = None

    def cut(self, start: int, end: int) -> None:
        """Blanks the cells from `start` to before `end`."""
        self.part(start, end)
        self.put(start, " " * (end - start), _BLANK)

    def part(self, start: int, end: int) -> None:
        """Blanks the other halves of wide characters that lie half inside."""
        for x in (start, end):
            if 0 < x < len(self.cells) and self.cells[x] == _STUB:
                self.put(x - 1, "  ", _BLANK)


class Style:
    """One set of attributes."""

    __slots__ = ("after", "attributes")

    def __init__(self, attributes: Char) -> None:
        self.attributes = attributes
        self.after: dict[str, Style] = {}  # by the parameters of a SGR


class Grid(PyteScreen):
    """The buffer. `history` has the lines that left it at the top; without `scrollback` none are kept."""

    def __init__(self, columns: int, lines: int, *, scrollback: int) -> None:
        self.history: deque[Line] = deque(maxlen=scrollback)
        self.scrolled = 0  # how many lines ever left at the top
        self._style = Style(_BLANK)
        self._styles = {_BLANK: self._style}
        self._narrow: set[str] = set()  # characters that were seen to take one cell
        self._wide = False  # whether there ever was a wide character
        self._saved: Savepoint | None = None
        self.grid: list[Row] = []
        self.rows_begun = 0  # by line feeds
        self.climbs = deque[Climb](maxlen=_CLIMBS)
        self._climbs = 0
        super().__init__(columns, lines)

    def reset(self) -> None:
        """As it was at the beginning, but for the history."""
        super().reset()
        self.grid = self._blank(self.lines)
        self._saved = None
        self._restyle()

    def read(self) -> list[Line]:
        """All rows, from the top."""
        return [row.line or row.read() for row in self.grid]

    def _blank(self, count: int) -> list[Row]:
        return [Row(self.columns) for _ in range(count)]

    # -- text ----------------------------------------------------------------------------------------------------------

    def draw(self, data: str) -> None:
        """Writes text at the cursor."""
        if not self._is_simple(data):
            self._draw_slowly(data)
            return
        while len(data) > (room := self.columns - self.cursor.x):
            self._put(data[:room])
            self._wrap()
            data = data[room:]
        self._put(data)

    def _is_simple(self, data: str) -> bool:
        """Whether each character just takes the next cell."""
        return (
            (data.isascii() or self._narrow.issuperset(data))
            and not self.charset
            and self.g0_charset is _LATIN
            and modes.IRM not in self.mode
            and (self.cursor.x + len(data) <= self.columns or modes.DECAWM in self.mode)
        )

    def _put(self, text: str) -> None:
        """Writes text that has room in this row, a character a cell."""
        cursor = self.cursor
        row, start = self.grid[cursor.y], cursor.x
        cursor.x = end = start + len(text)
        if self._wide:
            row.part(start, end)
        row.put(start, text, cursor.attrs)

    def _wrap(self) -> None:
        """To the beginning of the next row, where the text goes on."""
        row = self.grid[self.cursor.y]
        row.wrapped, row.line = True, None
        self.cursor_next_row()

    def _draw_slowly(self, data: str) -> None:
        cursor, columns = self.cursor, self.columns
        charset = self.g1_charset if self.charset else self.g0_charset
        if charset is not _LATIN:
            data = data.translate(charset)
        wraps = modes.DECAWM in self.mode
        for char in data:
            width = wcwidth(char)
            if width <= 0:
                if width == 0:
                    self._combine(char)
                continue
            if cursor.x + width > columns:
                if wraps:
                    self._wrap()
                else:
                    cursor.x = max(0, columns - width)
            if modes.IRM in self.mode:
                self.insert_characters(width)
            row = self.grid[cursor.y]
            row.part(cursor.x, cursor.x + width)
            row.put(cursor.x, [char], cursor.attrs)
            if width == 2:
                self._wide = True
                if cursor.x + 1 < columns:
                    row.put(cursor.x + 1, [_STUB], _BLANK)
            else:
                if len(self._narrow) >= _CACHED_CHARACTERS:
                    self._narrow.clear()
                self._narrow.add(char)
            cursor.x = min(cursor.x + width, columns)

    def _combine(self, char: str) -> None:
        row, x = self.grid[self.cursor.y], self.cursor.x - 1
        if x > 0 and row.cells[x] == _STUB:
            x -= 1
        if x >= 0 and len(row.cells[x]) < _CELL_CHARACTERS:
            row.cells[x] += char
            row.line = None

    # -- movement ------------------------------------------------------------------------------------------------------

    def _region(self) -> tuple[int, int]:
        return self.margins or (0, self.lines - 1)

    def index(self) -> None:
        """Down one row; at the bottom of the region everything in it moves up."""
        self.rows_begun += 1
        top, bottom = self.margins or (0, self.lines - 1)
        y = self.cursor.y
        if y == bottom:
            self._leave(self.grid.pop(top), top)
            self.grid.insert(bottom, Row(self.columns))
        elif y < self.lines - 1:
            self.cursor.y = y + 1

    def cursor_next_row(self) -> None:
        """NEL: to the beginning of the next row."""
        self.cursor.x = 0
        self.index()

    def reverse_index(self) -> None:
        """Up one row; at the top of the region everything in it moves down."""
        top, bottom = self._region()
        if self.cursor.y == top:
            del self.grid[bottom]
            self.grid.insert(top, Row(self.columns))
        elif self.cursor.y > 0:
            self.cursor.y -= 1
        self._climb()

    def _leave(self, row: Row, top: int) -> None:
        if top == 0:
            self.history.append(row.line or row.read())
            self.scrolled += 1

    def cursor_up(self, count: int | None = None) -> None:
        """Up, not beyond the region's top from inside."""
        top, _ = self._region()
        self.cursor.y = max(self.cursor.y - (count or 1), top if self.cursor.y >= top else 0)
        self._climb()

    def cursor_down(self, count: int | None = None) -> None:
        """Down, not beyond the region's bottom from inside."""
        _, bottom = self._region()
        self.cursor.y = min(self.cursor.y + (count or 1), bottom if self.cursor.y <= bottom else self.lines - 1)

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        """To a row and a column, both from 1."""
        if self.margins is not None and modes.DECOM in self.mode:
            super().cursor_position(line, column)
            return
        self.cursor.x = min(column or 1, self.columns) - 1
        self.cursor.y = min(line or 1, self.lines) - 1
        self._climb()

    def _climb(self) -> None:
        self._climbs += 1
        self.climbs.append((self._climbs, self.rows_begun, self.scrolled + self.cursor.y))

    def cursor_to_column(self, column: int | None = None) -> None:
        """To a column from 1, in the same row."""
        self.cursor.x = min(column or 1, self.columns) - 1

    def cursor_to_line(self, line: int | None = None) -> None:
        """To a row, in the same column."""
        self.cursor_position(line, min(self.cursor.x, self.columns - 1) + 1)

    def tab(self) -> None:
        """To the next tab stop."""
        self.cursor.x = min((stop for stop in self.tabstops if stop > self.cursor.x), default=self.columns - 1)

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        """The scroll region, rows from 1; the cursor goes home."""
        first, last = max(1, top or 1) - 1, min(bottom or self.lines, self.lines) - 1
        if first < last:
            self.margins = None if (first, last) == (0, self.lines - 1) else Margins(first, last)
            self.cursor_position()

    def save_cursor(self) -> None:
        """Remembers the cursor, one of it."""
        super().save_cursor()
        self._saved = self.savepoints.pop()

    def restore_cursor(self) -> None:
        """The remembered cursor; it may be restored again."""
        if self._saved is not None:
            self.savepoints.append(self._saved)
        super().restore_cursor()
        self.savepoints.clear()
        if self._saved is not None:
            self.save_cursor()
        self._restyle()
        self._climb()

    # -- rows and cells ------------------------------------------------------------------------------------------------

    def scroll_up(self, count: int) -> None:
        """Everything in the region moves up."""
        top, bottom = self._region()
        for _ in range(min(count, bottom - top + 1)):
            self._leave(self.grid.pop(top), top)
            self.grid.insert(bottom, Row(self.columns))

    def scroll_down(self, count: int) -> None:
        """Everything in the region moves down."""
        top, bottom = self._region()
        for _ in range(min(count, bottom - top + 1)):
            del self.grid[bottom]
            self.grid.insert(top, Row(self.columns))

    def insert_lines(self, count: int | None = None) -> None:
        """Blank rows at the cursor's."""
        top, bottom = self._region()
        if top <= self.cursor.y <= bottom:
            for _ in range(min(count or 1, bottom - self.cursor.y + 1)):
                del self.grid[bottom]
                self.grid.insert(self.cursor.y, Row(self.columns))

    def delete_lines(self, count: int | None = None) -> None:
        """Takes rows out, from the cursor's on."""
        top, bottom = self._region()
        if top <= self.cursor.y <= bottom:
            for _ in range(min(count or 1, bottom - self.cursor.y + 1)):
                del self.grid[self.cursor.y]
                self.grid.insert(bottom, Row(self.columns))

    def insert_characters(self, count: int | None = None) -> None:
        """Blanks at the cursor; what is right of it moves."""
        row, x = self.grid[self.cursor.y], self.cursor.x
        count = min(count or 1, self.columns - x)
        row.part(x, x)
        row.part(self.columns - count, self.columns)
        del row.cells[self.columns - count :], row.attributes[self.columns - count :]
        row.cells[x:x] = [" "] * count
        row.attributes[x:x] = [_BLANK] * count
        row.line = None

    def delete_characters(self, count: int | None = None) -> None:
        """Takes cells out at the cursor."""
        row, x = self.grid[self.cursor.y], self.cursor.x
        count = min(count or 1, self.columns - x)
        row.part(x, x + count)
        del row.cells[x : x + count], row.attributes[x : x + count]
        row.put(self.columns - count, " " * count, _BLANK)

    def erase_characters(self, count: int | None = None) -> None:
        """Blanks from the cursor on."""
        self.grid[self.cursor.y].cut(self.cursor.x, min(self.cursor.x + (count or 1), self.columns))

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Blanks the row: from the cursor on (0), up to it (1), all (2)."""
        row, x = self.grid[self.cursor.y], self.cursor.x
        if how == 0:
            row.cut(x, self.columns)
            row.wrapped = False
        elif how == 1:
            row.cut(0, min(x + 1, self.columns))
        elif how == 2:
            row.cut(0, self.columns)
            row.wrapped = False

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """Blanks the screen: from the cursor on (0), up to it (1), all (2), the history alone (3)."""
        y = self.cursor.y
        if how == 3:
            self.history.clear()
            return
        first, last = {0: (y + 1, self.lines), 1: (0, y), 2: (0, self.lines)}.get(how, (0, 0))
        self.grid[first:last] = self._blank(last - first)
        if how in (0, 1):
            self.erase_in_line(how)

    def alignment_display(self) -> None:
        """Fills it with E."""
        for row in self.grid:
            row.put(0, "E" * self.columns, _BLANK)

    # -- attributes ----------------------------------------------------------------------------------------------------

    def style(self, parameters: str) -> None:
        """Obeys a SGR sequence with these parameters."""
        style = self._style.after.get(parameters)
        if style is None:
            before = self._style
            self.cursor.attrs = before.attributes._replace(**_changes(parameters))
            self._restyle()
            style = before.after[parameters] = self._style
            if len(before.after) > _CACHED_FOLLOWERS:
                before.after.clear()
        self._style = style
        self.cursor.attrs = style.attributes

    def _restyle(self) -> None:
        """Finds the style of the cursor's attributes."""
        attributes = self.cursor.attrs
        if len(self._styles) > _CACHED_STYLES:
            for style in self._styles.values():
                style.after.clear()
            self._styles.clear()
        self._style = self._styles.setdefault(attributes, Style(attributes))


_LATIN = PyteScreen(1, 1).g0_charset


_CHANGES: dict[int, dict[str, str | bool]] = {
    0: {name: value for name, value in _BLANK._asdict().items() if name != "data"},
    **{number: {"fg": name} for number, name in (FG_ANSI | FG_AIXTERM).items()},
    **{number: {"bg": name} for number, name in (BG_ANSI | BG_AIXTERM).items()},
    **{number: {word[1:]: word[0] == "+"} for number, word in TEXT.items()},
}


@lru_cache(maxsize=_CACHED_SEQUENCES)
def _changes(parameters: str) -> dict[str, Any]:
    """What a SGR sequence with these parameters changes. Colours that do not exist change nothing, nor does that of
    the underline (58)."""
    found: dict[str, Any] = {}
    rest = list(reversed(_attributes(parameters)))
    while rest:
        number = rest.pop()
        if number not in (38, 48, 58):
            found.update(_CHANGES.get(number, {}))
            continue
        kind = rest.pop() if rest else 0
        size = {5: 1, 2: 3}.get(kind, 0)
        values = [rest.pop() for _ in range(min(size, len(rest)))]
        valid = len(values) == size and size > 0 and all(value < len(FG_BG_256) for value in values)
        if valid and number != 58:
            found["fg" if number == 38 else "bg"] = FG_BG_256[values[0]] if kind == 5 else bytes(values).hex()
    return found


def _attributes(parameters: str) -> list[int]:
    """The numbers of a SGR in one form: `38:2::r:g:b` becomes `38;2;r;g;b`, `4:3` becomes `4`."""
    found: list[int] = []
    for part in parameters.split(";"):
        number, *sub = part.split(":")
        if number in ("38", "48", "58") and sub:
            values = [_number(value) for value in sub if value]
            values = [values[0], *values[-3:]] if values and values[0] == 2 else values
            colour = [int(number), *values]
        else:
            colour = [0 if sub[:1] == ["0"] and number == "4" else _number(number)]
            if colour == [0] and number == "4":
                colour = [24]
        found += colour
    return found


def _number(text: str) -> int:
    return min(int(text), 9999) if text.isascii() and text.isdigit() else 0
