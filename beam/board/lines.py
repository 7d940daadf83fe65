"""`Lines`: a list widget with a cursor. It draws only the lines that are visible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from beam.board.words import StyledLine, as_text

STYLES = {
    "": Style(),
    "head": Style(bold=True, underline=True),
    "name": Style(bold=True),
    "dim": Style(dim=True),
    "good": Style(color="green"),
    "bad": Style(color="red", bold=True),
    "ask": Style(color="yellow", bold=True),
    "tool": Style(color="cyan"),
    "bar": Style(reverse=True),
    "key": Style(bold=True, color="cyan"),
}
CURSOR = Style(reverse=True)


def _do_nothing(_: int) -> None:
    return None


class LineSource:
    """Lines to show. A subclass returns how many there are, and draws each of them."""

    def __len__(self) -> int:
        return 0

    def line(self, at: int, width: int) -> StyledLine:
        """Return the line with the index `at`, drawn for this width."""
        raise NotImplementedError

    def header_lines(self, width: int) -> Sequence[StyledLine]:
        """Return the lines that stay at the top while others scroll."""
        return ()


class FixedLines(LineSource):
    """Lines that are given as a list."""

    def __init__(self, lines: Sequence[StyledLine]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def line(self, at: int, width: int) -> StyledLine:
        """Return the line."""
        return self.lines[at]


class Lines(Widget, can_focus=True):
    """A list of lines with a cursor. While `follows` is true, `show` moves the cursor to the last line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "edge(-1)", show=False),
        Binding("end", "edge(1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Chosen(Message):
        """The message that the line under the cursor was chosen, by enter or a double click."""

        def __init__(self, lines: Lines, at: int) -> None:
            super().__init__()
            self.lines = lines
            self.at = at

        @property
        def control(self) -> Lines:
            """Return the widget."""
            return self.lines

    def __init__(
        self,
        source: LineSource,
        *,
        id: str,
        follows: bool = False,
        has_cursor: bool = True,
        on_move: Callable[[int], None] = _do_nothing,
    ) -> None:
        """Make the list.

        `on_move` is called with the number of the cursor's line as soon as a key or the mouse has moved the cursor. A
        Textual message would arrive too late, because the board would be drawn once before the message is handled.
        """
        super().__init__(id=id)
        self.source = source
        self.cursor = 0
        self.top = 0
        self.follows = follows
        self.has_cursor = has_cursor
        self.on_move = on_move

    def show(self, source: LineSource | None = None) -> None:
        """Draw the lines anew. A new `source` replaces the old one. The cursor moves to the last line if `follows` is
        true, else to the first line of a new source."""
        if source is not None:
            self.source, self.cursor, self.top = source, 0, 0
        self.move_cursor(len(self.source) - 1 if self.follows else self.cursor)
        self.refresh()

    def move_cursor(self, at: int) -> None:
        """Move the cursor to that line, and scroll until it is visible."""
        visible_count = self.visible_count
        self.cursor = max(0, min(at, len(self.source) - 1))
        if self.has_cursor:
            self.top = min(self.top, self.cursor)
            self.top = max(self.top, self.cursor - visible_count + 1)
        else:
            self.top = self.cursor
        self.top = max(0, min(self.top, len(self.source) - visible_count))
        if not self.has_cursor:
            self.cursor = self.top

    @property
    def visible_count(self) -> int:
        """Return how many lines are visible below the header."""
        return max(1, self.size.height - len(self.source.header_lines(self.size.width)))

    @property
    def is_at_end(self) -> bool:
        """Return whether the last line is visible."""
        return self.top + self.visible_count >= len(self.source)

    def render_line(self, y: int) -> Strip:
        """Return one line of the widget."""
        width = self.size.width
        header_lines = self.source.header_lines(width)
        if y < len(header_lines):
            return self._strip(header_lines[y], width, is_cursor=False)
        at = self.top + y - len(header_lines)
        if at >= len(self.source):
            return Strip.blank(width)
        return self._strip(self.source.line(at, width), width, is_cursor=self.has_cursor and at == self.cursor)

    def _strip(self, line: StyledLine, width: int, *, is_cursor: bool) -> Strip:
        if is_cursor:
            style = CURSOR if self.has_focus else STYLES["name"]
            return Strip([Segment(as_text(line), style)]).adjust_cell_length(width, style)
        return Strip([Segment(piece.text, STYLES[piece.style]) for piece in line]).adjust_cell_length(width)

    def action_move(self, by: int) -> None:
        """Move the cursor by `by` lines, down if `by` is positive."""
        self._move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by `by` pages, down if `by` is positive."""
        self._move_to(self.cursor + by * self.visible_count)

    def action_edge(self, way: int) -> None:
        """Move the cursor to the first or the last line."""
        self._move_to(0 if way < 0 else len(self.source))

    def action_choose(self) -> None:
        """Open the line under the cursor."""
        if len(self.source):
            self.post_message(self.Chosen(self, self.cursor))

    def _move_to(self, at: int) -> None:
        self.move_cursor(at)
        if self.id == "pane":
            self.follows = self.cursor >= len(self.source) - 1
        self.refresh()
        self.on_move(self.cursor)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked line; a double click chooses the line."""
        at = self.top + event.y - len(self.source.header_lines(self.size.width))
        if not 0 <= at < len(self.source):
            return
        if self.has_cursor:
            self._move_to(at)
        if event.chain > 1:
            self.action_choose()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move the cursor down by three lines."""
        event.stop()
        self._move_to(self.cursor + 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move the cursor up by three lines."""
        event.stop()
        self._move_to(self.cursor - 3)

    def on_resize(self) -> None:
        """Scroll until the cursor is visible."""
        self.move_cursor(self.cursor)

    def on_focus(self) -> None:
        """Draw the cursor as active."""
        self.refresh()

    def on_blur(self) -> None:
        """Draw the cursor as inactive."""
        self.refresh()
