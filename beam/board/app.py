"""The board: its keys and mouse clicks, and what each does."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from beam.board import bars
from beam.board.dialogs import InputDialog, TextDialog
from beam.board.help import HELP, TASK_KEYS, keys_of
from beam.board.lines import FixedLines, Lines
from beam.board.panes import PANES, TEAM_PANE
from beam.board.picture_actions import PictureWithActions
from beam.board.spans import SCALES_S
from beam.board.stream import detail_lines, parse_filter
from beam.board.words import Piece, as_text, safe_line


class Board(PictureWithActions):
    """The application of `beam board`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", show=False),
        Binding("tab,shift+tab", "other_half", show=False, priority=True),
        *(Binding(str(at + 1), f"pane({at})", show=False) for at in range(len(PANES))),
        Binding("a", "asks", show=False),
        Binding("m", "send", show=False),
        Binding("s", "steer", show=False),
        Binding("i", "interrupt", show=False),
        Binding("p", "pause", show=False),
        Binding("f", "diff", show=False),
        Binding("slash", "filter", show=False),
        Binding("escape", "no_filter", show=False),
        Binding("o", "only", show=False),
        Binding("t", "next_team", show=False),
        *(Binding(key, f"task('{does}')", show=False) for key, does in TASK_KEYS.items()),
        Binding("plus,equals_sign", "scale(1)", show=False),
        Binding("minus", "scale(-1)", show=False),
        Binding("question_mark,f1", "help", show=False),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether the action may run now. While a dialog is open, an action of `_BOARD_ACTIONS` may not."""
        return len(self.screen_stack) == 1 or action not in _BOARD_ACTIONS

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Show the chosen line of the pane in full. If a row of the table was chosen, show only the events of that
        row."""
        if event.lines.id == "table":
            self.action_only()
        elif event.lines.id != "pane" or event.at >= len(event.lines.source):  # the line may be gone by now
            return
        elif self._at == 0:
            shown = self.stream[event.at]
            if not isinstance(shown, str):
                self.push_screen(
                    TextDialog(f"{shown.name}: {shown.event.__struct_config__.tag}", "\n".join(detail_lines(shown)))
                )
        else:
            line = event.lines.source.line(event.at, 2_000)
            self.push_screen(TextDialog(PANES[self._at], as_text(line)))

    def on_click(self, event: events.Click) -> None:
        """Run the action of the clicked key, or show the pane whose name was clicked."""
        if len(self.screen_stack) > 1 or event.widget is None:
            return
        if event.widget.id == "tabs":
            at = bars.tab_at(event.x)
            if at is not None:
                self.action_pane(at)
        elif event.widget.id == "keys":
            action = bars.action_at(keys_of(PANES[self._at]), event.x)
            if action:
                self.run_worker(self.run_action(action))

    def action_other_half(self) -> None:
        """Move the focus to the other half of the board; in a dialog, to the dialog's next widget."""
        if len(self.screen_stack) > 1:
            self.screen.focus_next()
            return
        self._lines_widget("pane" if self.focused is self._lines_widget("table") else "table").focus()

    def action_pane(self, at: int) -> None:
        """Show the pane with the number `at` (from 0)."""
        self._at = at
        self.feed.wanted_team = (self.feed.wanted_team or "") if at == TEAM_PANE else None
        if at == TEAM_PANE:
            self.feed.refresh_soon()
        pane = self._lines_widget("pane")
        pane.follows, pane.has_cursor = at == 0, True
        pane.show({0: self._stream_lines, TEAM_PANE: self._team_lines, 2: self._times}.get(at, FixedLines([])))
        self.tick()

    def action_scale(self, by: int) -> None:
        """Show a longer period if `by` is 1, a shorter one if `by` is -1."""
        self._times.scale = max(0, min(len(SCALES_S) - 1, self._times.scale + by))
        self.tick()

    def action_next_team(self) -> None:
        """Show the next team."""
        names = [line.team for line in self.feed.teams]
        now = self._team.shown.team.team if self._team is not None else ""
        wanted = names[(names.index(now) + 1) % len(names)] if now in names else ""
        self.action_pane(TEAM_PANE)
        self.feed.wanted_team = wanted

    def action_only(self) -> None:
        """Show only the events of the selected row in the stream. If the stream shows only these already, show all
        events again."""
        row = self._selected_row()
        if row is None:
            return
        self._filter_text = ""
        self.stream.set_filter(parse_filter("", key="" if self.stream.filter.key == row.key else row.key))
        self.action_pane(0)

    def action_no_filter(self) -> None:
        """Show all events again."""
        self._filter_text, self._note = "", Piece("")
        self.stream.set_filter(parse_filter(""))
        self.tick()

    def action_filter(self) -> None:
        """Ask the person for a filter, and apply the filter to the stream."""

        def use(text: str | None) -> None:
            if text is not None:
                self._filter_text = safe_line(text)
                self.stream.set_filter(parse_filter(text))
                self.action_pane(0)

        title = "Show only events with these words, agent:NAME, team:PART or type:task.*"
        self.push_screen(InputDialog(title, self._filter_text), use)

    def action_help(self) -> None:
        """Show all keys."""
        self.push_screen(TextDialog("Keys of beam board", HELP))


_BOARD_ACTIONS = frozenset(
    {
        "quit", "pane", "asks", "send", "steer", "interrupt", "pause", "diff", "filter", "no_filter", "only",
        "next_team", "scale", "help", "task",
    }
)  # fmt: skip
