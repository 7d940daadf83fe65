"""The board's dialogs: a text to read, a line to type, a question, and an ask to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from beam.board.decision import Answer, Decision, always_offer, ask_lines
from beam.board.lines import FixedLines, Lines
from beam.board.words import Piece, cell, safe_line, wrap

if TYPE_CHECKING:
    from pathlib import Path

    from textual import events

    from beam import AskLine


def _fixed_lines(lines: list[str], style: str = "") -> FixedLines:
    return FixedLines([(Piece(line, style),) for line in lines])


def _label(text: str, style: str, id: str) -> Lines:
    """Return a widget with one line, which never has the focus. So Textual gives it to the widget below or above."""
    found = Lines(_fixed_lines([text], style), id=id, has_cursor=False)
    found.can_focus = False
    return found


_PATCH_STYLES = {"+": "good", "-": "bad", "@": "tool"}  # by the first sign of a line


class TextDialog(ModalScreen[None]):
    """A text to read. In a patch, added and removed lines have colours."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss_it", show=False)]

    def __init__(self, title: str, text: str, *, is_patch: bool = False) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._is_patch = is_patch

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Vertical(classes="box"):
            yield _label(safe_line(self._title), "head", "title")
            yield Lines(_fixed_lines([]), id="text", has_cursor=False)
            yield _label("↑↓ page up page down  esc back", "dim", "keys")

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the lines to the new width."""
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        text = self.query_one("#text", Lines)
        width = max(1, text.size.width)
        if not self._is_patch:
            text.show(_fixed_lines(wrap(self._text, width)))
            return
        lines = [(line, _PATCH_STYLES.get(line[:1], "")) for line in self._text.splitlines()]
        text.show(FixedLines([(Piece(part, style),) for line, style in lines for part in wrap(line, width)]))

    def action_dismiss_it(self) -> None:
        """Close the dialog."""
        self.dismiss()


class InputDialog(ModalScreen[str | None]):
    """A line to type. The result is the text, or None if the person cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self, title: str, value: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Vertical(classes="box low"):
            yield _label(safe_line(self._title), "head", "title")
            yield Input(value=self._value, id="typed")
            yield _label("enter: do it  esc: back", "dim", "keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close the dialog; the result is the typed text."""
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Close the dialog; the result is None."""
        self.dismiss(None)


class ConfirmDialog(ModalScreen[bool]):
    """A question: `y` means yes, any other key no."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Vertical(classes="box low"):
            lines = [*wrap(safe_line(self._text), 70)[:3], "", "y does it, any other key goes back"]
            yield Lines(_fixed_lines(lines), id="text", has_cursor=False)

    def on_key(self, event: events.Key) -> None:
        """Close the dialog with the answer that the key means."""
        event.stop()
        self.dismiss(event.character == "y")


class AskDialog(ModalScreen[Answer]):
    """An ask to decide, of an agent of the folder `project`, with everything that would run. The result is the answer,
    or "" if the person leaves the ask open."""

    def __init__(self, ask: AskLine, project: Path) -> None:
        super().__init__()
        self.ask = ask
        self.project = project
        self.decision = Decision(always_offer(ask))

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Vertical(classes="box"):
            yield _label(f"DECIDE {self.ask.id}", "head", "title")
            yield Lines(_fixed_lines([]), id="text", has_cursor=False, on_move=self.on_scroll)
            yield _label("", "", "keys")

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the lines to the new width."""
        self.call_after_refresh(self._fill)

    def on_scroll(self, at: int) -> None:
        """Record whether the person has seen the end of the text, and draw the line of keys again."""
        self._draw()

    def _fill(self) -> None:
        text = self.query_one("#text", Lines)
        text.show(_fixed_lines(ask_lines(self.ask, self.project, max(1, text.size.width))))
        self._draw()

    def _draw(self) -> None:
        text = self.query_one("#text", Lines)
        self.decision.is_read = self.decision.is_read or (len(text.source) > 0 and text.is_at_end)
        keys = self.query_one("#keys", Lines)
        width = max(1, keys.size.width)
        more = "" if self.decision.is_read else " (more below)"
        parts = wrap(self.decision.line + more, width)[:3]
        keys.show(FixedLines([(Piece(cell(part, width), "ask" if self.decision.chosen else "key"),) for part in parts]))

    def on_key(self, event: events.Key) -> None:
        """Handle a key that answers the ask or confirms an answer; other keys scroll the text. Escape closes the dialog
        if no answer waits to be confirmed."""
        if event.key == "escape" and not self.decision.chosen:
            self.dismiss("")
            return
        was_chosen = bool(self.decision.chosen)
        if was_chosen or event.character in ("a", "A", "d"):
            event.stop()
            event.prevent_default()
            self.decision.press(event.character or event.key)
            if self.decision.answer:
                self.dismiss(self.decision.answer)
                return
            self._draw()
