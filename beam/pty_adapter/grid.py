"""One buffer of a terminal: rows of cells, a cursor and a scroll region. Its size is bounded, whatever is written into
it.

It behaves like the VT220 and xterm; where these two differ, it behaves like tmux. Rows that scroll out at the top are
kept. If half of a wide character is overwritten, the other half becomes a blank. Does not depend on bytes, escape
sequences or modes of the whole terminal.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from msgspec import Struct
from wcwidth import wcwidth

from beam.pty_adapter.attributes import PLAIN, Attributes, changes

_RIGHT_HALF = ""  # the right half of a wide character
_CACHED_CHARACTERS = 4096
_CACHED_STYLES = 512
_CACHED_FOLLOWERS = 32  # of each style
_CELL_CHARACTERS = 16  # of one cell; further combining characters are left out
_KEPT_CLIMBS = 32
_TAB_COLUMNS = 8
_LINE_DRAWING = "\xa0◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"  # DEC Special Graphics, from `_` to `~`
_GRAPHICS = {ord("_") + n: char for n, char in enumerate(_LINE_DRAWING)}
_CHARSETS: dict[str, dict[int, str] | None] = {"0": _GRAPHICS, "B": None}  # by their final character; None: as written


class Margins(NamedTuple):
    """The scroll region: its first and last row, from 0."""

    top: int
    bottom: int


class Cursor:
    """The position of the next character, from 0, and its attributes. `x` may be one past the last column: then the
    next character is written in the next row."""

    __slots__ = ("attributes", "hidden", "x", "y")

    def __init__(self) -> None:
        self.x = 0
        self.y = 0
        self.attributes = PLAIN
        self.hidden = False


class _SavedState(NamedTuple):
    """The state that the escape sequence DECSC saves."""

    x: int
    y: int
    attributes: Attributes
    charset: int
    charsets: tuple[dict[int, str] | None, ...]
    origin: bool
    wraps: bool


Climb = tuple[int, int, int]  # its number, how many rows were begun by then, and the line where it ended


class Line(Struct, frozen=True):
    """The text of a row, without trailing blanks. `wrapped`: the terminal broke the line at the end of this row, and
    the line continues in the next row."""

    text: str
    wrapped: bool = False


class Row:
    """The cells of one row: the character in each cell ("" in the right half of a wide character), and its attributes.

    `line` caches the text of the row. It is None after a change.
    """

    __slots__ = ("attributes", "cells", "line", "wrapped")

    def __init__(self, columns: int) -> None:
        self.cells = [" "] * columns
        self.attributes = [PLAIN] * columns
        self.line: Line | None = None
        self.wrapped = False

    def read(self) -> Line:
        """Return the text of the row."""
        if self.line is None:
            self.line = Line("".join(self.cells).rstrip(), self.wrapped)
        return self.line

    def put(self, start: int, cells: str | list[str], attributes: Attributes) -> None:
        """Write these characters into the cells from `start` on, one in each cell, with these attributes."""
        end = start + len(cells)
        self.cells[start:end] = cells
        self.attributes[start:end] = [attributes] * len(cells)
        self.line = None

    def blank_cells(self, start: int, end: int) -> None:
        """Blank the cells from `start` up to, but not including, `end`."""
        self.blank_split_characters(start, end)
        self.put(start, " " * (end - start), PLAIN)

    def blank_split_characters(self, start: int, end: int) -> None:
        """Blank each wide character of which only one half is in the cells from `start` up to, but not including,
        `end`."""
        for x in (start, end):
            if 0 < x < len(self.cells) and self.cells[x] == _RIGHT_HALF:
                self.put(x - 1, "  ", PLAIN)


class Style:
    """One set of attributes. `after` caches the style that follows it, by the parameters of an SGR sequence."""

    __slots__ = ("after", "attributes")

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.after: dict[str, Style] = {}  # by the parameters of a SGR


class Grid:
    """One buffer of a terminal. `history` has the lines that scrolled out at the top, at most `scrollback` of them."""

    def __init__(self, columns: int, lines: int, *, scrollback: int) -> None:
        self.columns = columns
        self.lines = lines
        self.history: deque[Line] = deque(maxlen=scrollback)
        self.scrolled = 0  # how many lines ever left at the top
        self.rows_begun = 0  # by line feeds
        self.climbs = deque[Climb](maxlen=_KEPT_CLIMBS)
        self._climbs = 0
        self._narrow: set[str] = set()  # characters that were seen to take one cell
        self._wide = False  # whether there ever was a wide character
        self.reset()

    def reset(self) -> None:
        """Restore the initial state of everything except the history."""
        self.grid = self._blank_rows(self.lines)
        self.cursor = Cursor()
        self.margins: Margins | None = None
        self.origin = False  # DECOM: rows are counted from the top of the region
        self.wraps = True  # DECAWM: text that reaches the end of a row goes on in the next
        self.inserts = False  # IRM: a character moves those right of it
        self._charset = 0
        self._charsets: list[dict[int, str] | None] = [None, None]  # G0 and G1
        self._tab_stops = set(range(_TAB_COLUMNS, self.columns, _TAB_COLUMNS))
        self._saved: _SavedState | None = None
        self._style = Style(PLAIN)
        self._styles = {PLAIN: self._style}
        self._record_climb()

    def read(self) -> list[Line]:
        """Return the lines of all rows, from top to bottom."""
        return [row.line or row.read() for row in self.grid]

    def _blank_rows(self, count: int) -> list[Row]:
        return [Row(self.columns) for _ in range(count)]

    # -- text ----------------------------------------------------------------------------------------------------------

    def draw(self, data: str) -> None:
        """Write text at the cursor."""
        if not self._is_one_cell_per_character(data):
            self._draw_slowly(data)
            return
        while len(data) > (room := self.columns - self.cursor.x):
            self._put(data[:room])
            self._wrap()
            data = data[room:]
        self._put(data)

    def _is_one_cell_per_character(self, data: str) -> bool:
        """Return whether each character of the text goes into one cell, the next one, without any further effect."""
        return (
            (data.isascii() or self._narrow.issuperset(data))
            and self._charsets[self._charset] is None
            and not self.inserts
            and (self.cursor.x + len(data) <= self.columns or self.wraps)
        )

    def _put(self, text: str) -> None:
        """Write text that fits into the rest of this row, one character in each cell."""
        cursor = self.cursor
        row, start = self.grid[cursor.y], cursor.x
        cursor.x = end = start + len(text)
        if self._wide:
            row.blank_split_characters(start, end)
        row.put(start, text, cursor.attributes)

    def _wrap(self) -> None:
        """Mark the row as wrapped and move to the beginning of the next row, where the text continues."""
        row = self.grid[self.cursor.y]
        row.wrapped, row.line = True, None
        self.cursor_next_row()

    def _draw_slowly(self, data: str) -> None:
        cursor, columns = self.cursor, self.columns
        charset = self._charsets[self._charset]
        if charset is not None:
            data = data.translate(charset)
        for char in data:
            width = wcwidth(char)
            if width <= 0:
                if width == 0:
                    self._combine(char)
                continue
            if cursor.x + width > columns:
                if self.wraps:
                    self._wrap()
                else:
                    cursor.x = max(0, columns - width)
            if self.inserts:
                self.insert_characters(width)
            row = self.grid[cursor.y]
            row.blank_split_characters(cursor.x, cursor.x + width)
            row.put(cursor.x, [char], cursor.attributes)
            if width == 2:
                self._wide = True
                if cursor.x + 1 < columns:
                    row.put(cursor.x + 1, [_RIGHT_HALF], PLAIN)
            else:
                if len(self._narrow) >= _CACHED_CHARACTERS:
                    self._narrow.clear()
                self._narrow.add(char)
            cursor.x = min(cursor.x + width, columns)

    def _combine(self, char: str) -> None:
        row, x = self.grid[self.cursor.y], self.cursor.x - 1
        if x > 0 and row.cells[x] == _RIGHT_HALF:
            x -= 1
        if x >= 0 and len(row.cells[x]) < _CELL_CHARACTERS:
            row.cells[x] += char
            row.line = None

    # -- movement ------------------------------------------------------------------------------------------------------

    def _region(self) -> tuple[int, int]:
        return self.margins or (0, self.lines - 1)

    def index(self) -> None:
        """Move the cursor down one row. At the bottom of the scroll region, scroll the region up instead."""
        self.rows_begun += 1
        top, bottom = self.margins or (0, self.lines - 1)
        y = self.cursor.y
        if y == bottom:
            self._keep_in_history(self.grid.pop(top), top)
            self.grid.insert(bottom, Row(self.columns))
        elif y < self.lines - 1:
            self.cursor.y = y + 1

    def cursor_next_row(self) -> None:
        """Move the cursor to the beginning of the next row (NEL)."""
        self.cursor.x = 0
        self.index()

    def reverse_index(self) -> None:
        """Move the cursor up one row. At the top of the scroll region, scroll the region down instead."""
        top, bottom = self._region()
        if self.cursor.y == top:
            del self.grid[bottom]
            self.grid.insert(top, Row(self.columns))
        elif self.cursor.y > 0:
            self.cursor.y -= 1
        self._record_climb()

    def _keep_in_history(self, row: Row, top: int) -> None:
        if top == 0:
            self.history.append(row.line or row.read())
            self.scrolled += 1

    def cursor_up(self, count: int | None = None) -> None:
        """Move the cursor up. From inside the scroll region, it does not go beyond the top of the region."""
        top, _ = self._region()
        self.cursor.y = max(self.cursor.y - (count or 1), top if self.cursor.y >= top else 0)
        self._record_climb()

    def cursor_down(self, count: int | None = None) -> None:
        """Move the cursor down. From inside the scroll region, it does not go beyond the bottom of the region."""
        _, bottom = self._region()
        self.cursor.y = min(self.cursor.y + (count or 1), bottom if self.cursor.y <= bottom else self.lines - 1)

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        """Move the cursor to a row and a column, both counted from 1."""
        top, bottom = self._region() if self.origin else (0, self.lines - 1)
        self.cursor.x = min(column or 1, self.columns) - 1
        self.cursor.y = min(top + (line or 1) - 1, bottom)
        self._record_climb()

    def _record_climb(self) -> None:
        self._climbs += 1
        self.climbs.append((self._climbs, self.rows_begun, self.scrolled + self.cursor.y))

    def cursor_to_column(self, column: int | None = None) -> None:
        """Move the cursor to a column, counted from 1, in the same row."""
        self.cursor.x = min(column or 1, self.columns) - 1

    def cursor_to_line(self, line: int | None = None) -> None:
        """Move the cursor to a row, counted from 1, in the same column."""
        self.cursor_position(line, min(self.cursor.x, self.columns - 1) + 1)

    def tab(self) -> None:
        """Move the cursor to the next tab stop, or to the last column if there is none."""
        self.cursor.x = min((stop for stop in self._tab_stops if stop > self.cursor.x), default=self.columns - 1)

    def tab_back(self, count: int) -> None:
        """Move the cursor back by `count` tab stops, at most to the first column."""
        stops = sorted((stop for stop in self._tab_stops if stop < self.cursor.x), reverse=True)
        self.cursor.x = stops[count - 1] if count <= len(stops) else 0

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        """Set the scroll region (rows are counted from 1), and move the cursor to its home position."""
        first, last = max(1, top or 1) - 1, min(bottom or self.lines, self.lines) - 1
        if first < last:
            self.margins = None if (first, last) == (0, self.lines - 1) else Margins(first, last)
            self.cursor_position()

    def save_cursor(self) -> None:
        """Save the cursor with its attributes, character sets and modes. Only the state saved last is kept."""
        cursor = self.cursor
        self._saved = _SavedState(
            cursor.x, cursor.y, cursor.attributes, self._charset, tuple(self._charsets), self.origin, self.wraps
        )

    def restore_cursor(self) -> None:
        """Restore the saved state, which stays saved. If no state was saved, move the cursor to its home position."""
        saved = self._saved
        if saved is None:
            self.set_origin(False)
            return
        self._charset, self._charsets = saved.charset, list(saved.charsets)
        self.origin, self.wraps = saved.origin, saved.wraps
        self.cursor.x, self.cursor.y = saved.x, saved.y
        self.cursor.attributes = saved.attributes
        self._restyle()
        self._record_climb()

    def cursor_forward(self, count: int = 1) -> None:
        """Move the cursor right, at most to the last column."""
        self.cursor.x = min(self.cursor.x + count, self.columns - 1)

    def cursor_back(self, count: int = 1) -> None:
        """Move the cursor left, at most to the first column. A cursor past the last column counts as being in the last
        column."""
        self.cursor.x = max(min(self.cursor.x, self.columns - 1) - count, 0)

    def cursor_up_to_start(self, count: int = 1) -> None:
        """Move the cursor up by `count` rows, to the beginning of the row."""
        self.cursor_up(count)
        self.cursor.x = 0

    def cursor_down_to_start(self, count: int = 1) -> None:
        """Move the cursor down by `count` rows, to the beginning of the row."""
        self.cursor_down(count)
        self.cursor.x = 0

    def backspace(self) -> None:
        """Move the cursor one column left."""
        self.cursor_back()

    def carriage_return(self) -> None:
        """Move the cursor to the beginning of its row."""
        self.cursor.x = 0

    def set_tab_stop(self) -> None:
        """Set a tab stop at the cursor."""
        self._tab_stops.add(self.cursor.x)

    def clear_tab_stop(self, how: int = 0) -> None:
        """Remove the tab stop at the cursor (`how` 0), or all tab stops (3)."""
        if how == 0:
            self._tab_stops.discard(self.cursor.x)
        elif how == 3:
            self._tab_stops.clear()

    def soft_reset(self) -> None:
        """Reset modes, character sets, attributes and the state saved by DECSC. The rows and the cursor's position stay
        unchanged (DECSTR)."""
        self.margins, self._saved = None, None
        self.origin, self.wraps, self.inserts = False, True, False
        self._charset, self._charsets = 0, [None, None]
        self.cursor.hidden = False
        self.style("0")

    def take_cursor(self, other: Cursor) -> None:
        """Move the cursor to the position of another buffer's cursor."""
        self.cursor.x, self.cursor.y = other.x, other.y
        self._record_climb()

    # -- modes and character sets --------------------------------------------------------------------------------------

    def set_origin(self, on: bool) -> None:
        """Set whether rows are counted from the top of the scroll region (DECOM) or of the screen. The cursor goes to
        its home position."""
        self.origin = on
        self.cursor_position()

    def define_charset(self, code: str, which: str) -> None:
        """Set G0 (`which` is "(") or G1 (")") to the character set with the final character `code`, if that is a known
        one."""
        if code in _CHARSETS:
            self._charsets[which == ")"] = _CHARSETS[code]

    def shift_in(self) -> None:
        """Use the character set G0."""
        self._charset = 0

    def shift_out(self) -> None:
        """Use the character set G1."""
        self._charset = 1

    # -- rows and cells ------------------------------------------------------------------------------------------------

    def scroll_up(self, count: int) -> None:
        """Move everything in the scroll region up by `count` rows."""
        top, bottom = self._region()
        for _ in range(min(count, bottom - top + 1)):
            self._keep_in_history(self.grid.pop(top), top)
            self.grid.insert(bottom, Row(self.columns))

    def scroll_down(self, count: int) -> None:
        """Move everything in the scroll region down by `count` rows."""
        top, bottom = self._region()
        for _ in range(min(count, bottom - top + 1)):
            del self.grid[bottom]
            self.grid.insert(top, Row(self.columns))

    def insert_lines(self, count: int | None = None) -> None:
        """Insert blank rows at the cursor's row, inside the scroll region."""
        top, bottom = self._region()
        if top <= self.cursor.y <= bottom:
            for _ in range(min(count or 1, bottom - self.cursor.y + 1)):
                del self.grid[bottom]
                self.grid.insert(self.cursor.y, Row(self.columns))

    def delete_lines(self, count: int | None = None) -> None:
        """Remove rows, beginning with the cursor's row, inside the scroll region."""
        top, bottom = self._region()
        if top <= self.cursor.y <= bottom:
            for _ in range(min(count or 1, bottom - self.cursor.y + 1)):
                del self.grid[self.cursor.y]
                self.grid.insert(bottom, Row(self.columns))

    def insert_characters(self, count: int | None = None) -> None:
        """Insert blanks at the cursor, and move the rest of the row right."""
        row, x = self.grid[self.cursor.y], self.cursor.x
        count = min(count or 1, self.columns - x)
        row.blank_split_characters(x, x)
        row.blank_split_characters(self.columns - count, self.columns)
        del row.cells[self.columns - count :], row.attributes[self.columns - count :]
        row.cells[x:x] = [" "] * count
        row.attributes[x:x] = [PLAIN] * count
        row.line = None

    def delete_characters(self, count: int | None = None) -> None:
        """Remove cells at the cursor, and move the rest of the row left."""
        row, x = self.grid[self.cursor.y], self.cursor.x
        count = min(count or 1, self.columns - x)
        row.blank_split_characters(x, x + count)
        del row.cells[x : x + count], row.attributes[x : x + count]
        row.put(self.columns - count, " " * count, PLAIN)

    def erase_characters(self, count: int | None = None) -> None:
        """Blank cells from the cursor on."""
        self.grid[self.cursor.y].blank_cells(self.cursor.x, min(self.cursor.x + (count or 1), self.columns))

    def erase_in_line(self, how: int = 0) -> None:
        """Blank the row: from the cursor on (`how` 0), up to the cursor (1), or all of it (2)."""
        row, x = self.grid[self.cursor.y], self.cursor.x
        if how == 0:
            row.blank_cells(x, self.columns)
            row.wrapped = False
        elif how == 1:
            row.blank_cells(0, min(x + 1, self.columns))
        elif how == 2:
            row.blank_cells(0, self.columns)
            row.wrapped = False

    def erase_in_display(self, how: int = 0) -> None:
        """Blank the screen: from the cursor on (`how` 0), up to the cursor (1), or all of it (2). With 3, clear only
        the history."""
        y = self.cursor.y
        if how == 3:
            self.history.clear()
            return
        first, last = {0: (y + 1, self.lines), 1: (0, y), 2: (0, self.lines)}.get(how, (0, 0))
        self.grid[first:last] = self._blank_rows(last - first)
        if how in (0, 1):
            self.erase_in_line(how)

    def alignment_display(self) -> None:
        """Fill the screen with the letter E and remove the scroll region (DECALN). The cursor goes to its home
        position."""
        self.margins = None
        for row in self.grid:
            row.put(0, "E" * self.columns, PLAIN)
        self.cursor_position()

    # -- attributes ----------------------------------------------------------------------------------------------------

    def style(self, parameters: str) -> None:
        """Apply an SGR sequence with these parameters to the cursor's attributes."""
        style = self._style.after.get(parameters)
        if style is None:
            before = self._style
            self.cursor.attributes = before.attributes._replace(**changes(parameters))
            self._restyle()
            style = before.after[parameters] = self._style
            if len(before.after) > _CACHED_FOLLOWERS:
                before.after.clear()
        self._style = style
        self.cursor.attributes = style.attributes

    def _restyle(self) -> None:
        """Set the current style to the one with the cursor's attributes."""
        attributes = self.cursor.attributes
        if len(self._styles) > _CACHED_STYLES:
            for style in self._styles.values():
                style.after.clear()
            self._styles.clear()
        self._style = self._styles.setdefault(attributes, Style(attributes))
