"""`Lines`: a widget that draws only the lines that are seen, with a cursor. Keys, mouse and resizing work on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from beam.board.styles import CURSOR, STYLES
from beam.board.words import Drawn, as_text


class Source:
    """Lines to show. Subclasses say how many there are and draw one."""

    def __len__(self) -> int:
        return 0

    def line(self, at: int, width: int) -> Drawn:
        """Return the line as it is drawn."""
        raise NotImplementedError

    def heads(self, width: int) -> Sequence[Drawn]:
        """Return the lines that stay at the top."""
        return ()


class Fixed(Source):
    """Lines that are known at once."""

    def __init__(self, lines: Sequence[Drawn]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def line(self, at: int, width: int) -> Drawn:
        """Return the line."""
        return self.lines[at]


class Lines(Widget, can_focus=True):
    """Lines of a source with a cursor. With `follows`, the cursor stays at the end while it is there."""

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
        """The line under the cursor was chosen, by enter or a second click."""

        def __init__(self, lines: Lines, at: int) -> None:
            super().__init__()
            self.lines = lines
            self.at = at

        @property
        def control(self) -> Lines:
            """Return the widget."""
            return self.lines

    class Moved(Chosen):
        """The cursor is on another line."""

    def __init__(self, source: Source, *, id: str, follows: bool = False, has_cursor: bool = True) -> None:
        super().__init__(id=id)
        self.source = source
        self.cursor = 0
        self.top = 0
        self.follows = follows
        self.has_cursor = has_cursor

    def show(self, source: Source | None = None) -> None:
        """Show the lines as they are now; another `source` is shown from its beginning."""
        if source is not None:
            self.source, self.cursor, self.top = source, 0, 0
        self.place(len(self.source) - 1 if self.follows else self.cursor)
        self.refresh()

    def place(self, at: int) -> None:
        """Put the cursor on that line, and into sight."""
        room = self.room
        self.cursor = max(0, min(at, len(self.source) - 1))
        if self.has_cursor:
            self.top = min(self.top, self.cursor)
            self.top = max(self.top, self.cursor - room + 1)
        else:
            self.top = self.cursor
        self.top = max(0, min(self.top, len(self.source) - room))
        if not self.has_cursor:
            self.cursor = self.top

    @property
    def room(self) -> int:
        """Return how many lines are seen below the head."""
        return max(1, self.size.height - len(self.source.heads(self.size.width)))

    @property
    def is_at_end(self) -> bool:
        """Return whether the last line is seen."""
        return self.top + self.room >= len(self.source)

    def render_line(self, y: int) -> Strip:
        """Return one line of the widget."""
        width = self.size.width
        heads = self.source.heads(width)
        if y < len(heads):
            return self._strip(heads[y], width, is_cursor=False)
        at = self.top + y - len(heads)
        if at >= len(self.source):
            return Strip.blank(width)
        return self._strip(self.source.line(at, width), width, is_cursor=self.has_cursor and at == self.cursor)

    def _strip(self, line: Drawn, width: int, *, is_cursor: bool) -> Strip:
        if is_cursor:
            style = CURSOR if self.has_focus else STYLES["name"]
            return Strip([Segment(as_text(line), style)]).adjust_cell_length(width, style)
        return Strip([Segment(piece.text, STYLES[piece.style]) for piece in line]).adjust_cell_length(width)

    def action_move(self, by: int) -> None:
        """Move the cursor by lines."""
        self._go(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by as many lines as are seen."""
        self._go(self.cursor + by * self.room)

    def action_edge(self, way: int) -> None:
        """Move the cursor to the first or the last line."""
        self._go(0 if way < 0 else len(self.source))

    def action_choose(self) -> None:
        """Open the line under the cursor."""
        if len(self.source):
            self.post_message(self.Chosen(self, self.cursor))

    def _go(self, at: int) -> None:
        self.place(at)
        if self.id == "pane":
            self.follows = self.cursor >= len(self.source) - 1
        self.refresh()
        self.post_message(self.Moved(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor under the mouse; a second click chooses."""
        at = self.top + event.y - len(self.source.heads(self.size.width))
        if not 0 <= at < len(self.source):
            return
        if self.has_cursor:
            self._go(at)
        if event.chain > 1:
            self.action_choose()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move down."""
        event.stop()
        self._go(self.cursor + 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move up."""
        event.stop()
        self._go(self.cursor - 3)

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self.place(self.cursor)

    def on_focus(self) -> None:
        """Show the cursor as the one that moves."""
        self.refresh()

    def on_blur(self) -> None:
        """Show the cursor as one that rests."""
        self.refresh()
