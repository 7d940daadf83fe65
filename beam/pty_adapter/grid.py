"""One buffer of a terminal: rows of cells, a cursor, a scroll region. pyte's screen, made fast, exact and bounded.

What pyte 0.8.2 does otherwise than terminals do is put right here, always towards what tmux shows: rows that leave at
the top are kept, cursor movement beside the scroll region, wide characters that are cut in half. Must not know bytes,
sequences or modes of the terminal as a whole.
"""

from __future__ import annotations

from collections import deque
from typing import Any, cast

from msgspec import Struct
from pyte import modes
from pyte.graphics import FG_BG_256
from pyte.screens import Char, Margins, Savepoint, StaticDefaultDict, wcwidth
from pyte.screens import Screen as PyteScreen

_BLANK = Char(" ")
_STUB = ""  # the right half of a wide character
_CACHED_CHARACTERS = 4096
_CACHED_STYLES = 512
_CELL_CHARACTERS = 16  # of one cell: combining characters beyond are left out


class Line(Struct, frozen=True):
    """A row of text without trailing blanks. `wrapped`: the terminal itself broke it, and it goes on in the next."""

    text: str
    wrapped: bool = False


class Row(StaticDefaultDict[int, Char]):
    """The cells of one row that were written. `line` is its text, None after a change."""

    __slots__ = ("line", "wrapped")

    def __init__(self) -> None:
        super().__init__(_BLANK)
        self.line: Line | None = None
        self.wrapped = False

    def read(self) -> Line:
        """The row as text."""
        if self.line is None:
            text = "".join([self[x].data for x in range(max(self) + 1)]).rstrip() if self else ""
            self.line = Line(text, self.wrapped)
        return self.line

    def cut(self, start: int, end: int) -> None:
        """Blanks the cells from `start` to before `end`."""
        if start <= 0 and end > max(self, default=0):
            self.clear()
        else:
            self.part(start, end)
            for x in range(start, end):
                self.pop(x, None)
        self.line = None

    def part(self, start: int, end: int) -> None:
        """Blanks the other halves of wide characters that lie half inside."""
        if start > 0 and start in self and self[start].data == _STUB:
            self.pop(start - 1, None)
            self.pop(start, None)
        if end in self and self[end].data == _STUB:
            self.pop(end, None)
            self.pop(end - 1, None)


class Style(dict[str, Char]):
    """The cells of one set of attributes, by their character; only characters that are one cell wide."""

    def __init__(self, attributes: Char) -> None:
        super().__init__()
        self.attributes = attributes
        self.after: dict[str, Style] = {}  # by the parameters of a SGR

    def __missing__(self, char: str) -> Char:
        if wcwidth(char) != 1:
            raise KeyError(char)
        if len(self) > _CACHED_CHARACTERS:
            self.clear()
        cell = self[char] = self.attributes._replace(data=char)
        return cell


class Grid(PyteScreen):
    """The buffer. `history` has the lines that left it at the top; without `scrollback` none are kept."""

    def __init__(self, columns: int, lines: int, *, scrollback: int) -> None:
        self.history: deque[Line] = deque(maxlen=scrollback)
        self.scrolled = 0  # how many lines ever left at the top
        self._style = Style(_BLANK)
        self._styles = {_BLANK: self._style}
        self._wide = False  # whether there ever was a wide character
        self._saved: Savepoint | None = None
        self.grid: list[Row] = []
        super().__init__(columns, lines)

    def reset(self) -> None:
        """As it was at the beginning, but for the history."""
        super().reset()
        self.grid = [Row() for _ in range(self.lines)]
        self.buffer = cast("dict[int, StaticDefaultDict[int, Char]]", self.grid)
        self._saved = None
        self._restyle()

    def read(self) -> list[Line]:
        """All rows, from the top."""
        return [row.line or row.read() for row in self.grid]

    # -- text ----------------------------------------------------------------------------------------------------------

    def draw(self, data: str) -> None:
        """Writes text at the cursor."""
        cursor = self.cursor
        start = cursor.x
        end = start + len(data)
        if end <= self.columns and not self.charset and modes.IRM not in self.mode and self.g0_charset is _LATIN:
            try:
                cells = list(map(self._style.__getitem__, data))
            except KeyError:
                self._draw_slowly(data)
                return
            row = self.grid[cursor.y]
            if self._wide:
                row.part(start, end)
            row.update(zip(range(start, end), cells, strict=True))
            row.line = None
            cursor.x = end
        else:
            self._draw_slowly(data)

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
                    self.grid[cursor.y].wrapped = True
                    self.grid[cursor.y].line = None
                    cursor.x = 0
                    self.index()
                else:
                    cursor.x = max(0, columns - width)
            if modes.IRM in self.mode:
                self.insert_characters(width)
            row = self.grid[cursor.y]
            row.part(cursor.x, cursor.x + width)
            row[cursor.x] = self._style[char] if width == 1 else self._style.attributes._replace(data=char)
            if width == 2:
                self._wide = True
                if cursor.x + 1 < columns:
                    row[cursor.x + 1] = _BLANK._replace(data=_STUB)
            row.line = None
            cursor.x = min(cursor.x + width, columns)

    def _combine(self, char: str) -> None:
        row, x = self.grid[self.cursor.y], self.cursor.x - 1
        if x > 0 and row[x].data == _STUB:
            x -= 1
        if x < 0 or len(row[x].data) >= _CELL_CHARACTERS:
            return
        row[x] = row[x]._replace(data=row[x].data + char)
        row.line = None

    # -- movement ------------------------------------------------------------------------------------------------------

    def _region(self) -> tuple[int, int]:
        return self.margins or (0, self.lines - 1)

    def index(self) -> None:
        """Down one row; at the bottom of the region everything in it moves up."""
        top, bottom = self._region()
        y = self.cursor.y
        if y == bottom:
            self._leave(self.grid.pop(top), top)
            self.grid.insert(bottom, Row())
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
            self.grid.insert(top, Row())
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    def _leave(self, row: Row, top: int) -> None:
        if top == 0:
            self.history.append(row.line or row.read())
            self.scrolled += 1

    def cursor_up(self, count: int | None = None) -> None:
        """Up, not beyond the region's top from inside."""
        top, _ = self._region()
        self.cursor.y = max(self.cursor.y - (count or 1), top if self.cursor.y >= top else 0)

    def cursor_down(self, count: int | None = None) -> None:
        """Down, not beyond the region's bottom from inside."""
        _, bottom = self._region()
        self.cursor.y = min(self.cursor.y + (count or 1), bottom if self.cursor.y <= bottom else self.lines - 1)

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

    # -- rows and cells ------------------------------------------------------------------------------------------------

    def scroll_up(self, count: int) -> None:
        """Everything in the region moves up."""
        top, bottom = self._region()
        for _ in range(min(count, bottom - top + 1)):
            self._leave(self.grid.pop(top), top)
            self.grid.insert(bottom, Row())

    def scroll_down(self, count: int) -> None:
        """Everything in the region moves down."""
        top, bottom = self._region()
        for _ in range(min(count, bottom - top + 1)):
            del self.grid[bottom]
            self.grid.insert(top, Row())

    def insert_lines(self, count: int | None = None) -> None:
        """Blank rows at the cursor's."""
        top, bottom = self._region()
        if top <= self.cursor.y <= bottom:
            for _ in range(min(count or 1, bottom - self.cursor.y + 1)):
                del self.grid[bottom]
                self.grid.insert(self.cursor.y, Row())

    def delete_lines(self, count: int | None = None) -> None:
        """Takes rows out, from the cursor's on."""
        top, bottom = self._region()
        if top <= self.cursor.y <= bottom:
            for _ in range(min(count or 1, bottom - self.cursor.y + 1)):
                del self.grid[self.cursor.y]
                self.grid.insert(bottom, Row())

    def insert_characters(self, count: int | None = None) -> None:
        """Blanks at the cursor; what is right of it moves."""
        self._shift(min(count or 1, self.columns))

    def delete_characters(self, count: int | None = None) -> None:
        """Takes cells out at the cursor."""
        row, x = self.grid[self.cursor.y], self.cursor.x
        row.part(x, x + min(count or 1, self.columns))
        self._shift(-min(count or 1, self.columns))

    def _shift(self, by: int) -> None:
        row, start = self.grid[self.cursor.y], self.cursor.x
        row.part(start, start)
        moved = {x + by: row.pop(x) for x in list(row) if x >= start}
        row.update({x: cell for x, cell in moved.items() if start <= x < self.columns})
        if row[self.columns - 1].data and wcwidth(row[self.columns - 1].data[0]) == 2:
            row.pop(self.columns - 1)
        row.line = None

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
        self.grid[first:last] = [Row() for _ in range(last - first)]
        if how in (0, 1):
            self.erase_in_line(how)

    def alignment_display(self) -> None:
        """Fills it with E."""
        for row in self.grid:
            row.update(dict.fromkeys(range(self.columns), _BLANK._replace(data="E")))
            row.line = None

    # -- attributes ----------------------------------------------------------------------------------------------------

    def style(self, parameters: str) -> None:
        """Obeys a SGR sequence with these parameters."""
        style = self._style.after.get(parameters)
        if style is None:
            super().select_graphic_rendition(*_attributes(parameters))
            before = self._style
            self._restyle()
            style = before.after[parameters] = self._style
            if len(before.after) > _CACHED_STYLES:
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


def _attributes(parameters: str) -> list[int]:
    """The numbers of a SGR in the form that pyte reads: `38:2::r:g:b` becomes `38;2;r;g;b`, `4:3` becomes `4`."""
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
    return _checked(found)


def _checked(numbers: list[int]) -> list[int]:
    """Without colours that do not exist, and without the underline's colour (58), which pyte would read as blinking."""
    found: list[int] = []
    rest = list(reversed(numbers))
    while rest:
        number = rest.pop()
        if number not in (38, 48, 58):
            found.append(number)
            continue
        kind = rest.pop() if rest else 0
        size = {5: 1, 2: 3}.get(kind, 0)
        values = [rest.pop() for _ in range(min(size, len(rest)))]
        valid = len(values) == size and size > 0 and all(value < len(FG_BG_256) for value in values)
        if valid and number != 58:
            found += [number, kind, *values]
    return found


def _number(text: str) -> int:
    return min(int(text), 9999) if text.isascii() and text.isdigit() else 0
