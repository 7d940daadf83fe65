"""The picture of the board: a table of everyone, and a pane below it.

Each tick applies the new events and snapshots, and draws once. The keys are in other modules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events
from textual.app import App, ComposeResult

from beam import clock
from beam.board import bars
from beam.board.actions import seconds_of
from beam.board.help import keys_of
from beam.board.lines import FixedLines, Lines
from beam.board.names import Names, labels
from beam.board.panes import PANES, TEAM_PANE, StreamLines, Table, TeamLines, TimeLines, cost_lines
from beam.board.rows import Everyone, Row, Snapshot
from beam.board.spans import Costs, Spans
from beam.board.stream import Stream, stream_event
from beam.board.words import Piece, safe_line
from beam.cli.render.days import time_of_day

if TYPE_CHECKING:
    from beam import AskLine
    from beam.board.feed import Feed, ReceivedEvent
    from beam.board.teams import TeamSnapshot

_TICK_S = 0.25
_NOTE_S = 15.0  # how long the last note is shown
_CSS = """
Screen { layout: vertical; }
Lines { height: 1; }
#table { height: 4; }
#pane { height: 1fr; min-height: 4; }
ModalScreen { align: center middle; }
.box { width: 96%; height: 84%; border: round ansi_default; padding: 0 1; }
.box #text { height: 1fr; }
.box #keys { height: auto; min-height: 1; max-height: 3; }
.low { height: auto; max-height: 12; max-width: 90; }
.low #text { height: 5; }
.low Input { height: 3; }
"""


class Picture(App[None]):
    """The table and the panes, fed by a `Feed`. `now` returns seconds since 1970."""

    CSS = _CSS
    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE = False

    def __init__(self, feed: Feed, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(ansi_color=True)
        self.feed = feed
        self._now = now
        self.everyone = Everyone()
        self.stream = Stream(now=now)
        self.spans, self.costs = Spans(), Costs()
        self.table = Table()
        self._names = Names()
        self._times = TimeLines(self.spans, self._names)
        self._stream_lines = StreamLines(self.stream, self._names)
        self._team_lines = TeamLines()
        self._team: TeamSnapshot | None = None
        self._asks: Sequence[tuple[Path, AskLine]] = ()
        self._at = 0
        self._note: Piece = Piece("looking …", "dim")
        self._note_and_since = (self._note, now())
        self._selected = ""
        self._is_replaced = False  # the selected row went, and the row in its place is selected, which nobody chose
        self._filter_text = ""

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Lines(FixedLines([]), id="title", has_cursor=False)
        yield Lines(self.table, id="table", on_move=self.select_row)
        yield Lines(FixedLines([]), id="tabs", has_cursor=False)
        yield Lines(self._stream_lines, id="pane", follows=True, on_move=self.select_line)
        yield Lines(FixedLines([]), id="note", has_cursor=False)
        yield Lines(FixedLines([]), id="keys", has_cursor=False)

    def on_mount(self) -> None:
        """Start the feed once the first picture is drawn."""
        for name in ("title", "tabs", "note", "keys"):
            self._lines_widget(name).can_focus = False
        self._lines_widget("table").focus()
        if not self.is_headless:
            import asyncio
            import signal

            ended = 128 + signal.SIGTERM
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: self.exit(return_code=ended))
        self.call_after_refresh(self.feed.start)
        self.set_interval(_TICK_S, self.tick)
        self.call_after_refresh(self.tick)

    def on_unmount(self) -> None:
        """Stop the feed."""
        self.feed.close()

    def on_resize(self, event: events.Resize) -> None:
        """Draw the picture at the new size."""
        self.call_after_refresh(self.tick)

    def _lines_widget(self, name: str) -> Lines:
        return self.screen_stack[0].query_one(f"#{name}", Lines)

    def select_row(self, at: int) -> None:
        """Select the row at that line of the table."""
        if self.table.rows:
            self._selected = self.table.rows[at].key
            self._is_replaced = False
            self._note = Piece("")

    def select_line(self, at: int) -> None:
        """Select the member or task at that line of the team pane."""
        if self._at == TEAM_PANE:
            self._team_lines.select(at)
            self._note = Piece("")

    # -- the tick ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Apply the new events and snapshots, and draw once. Do nothing while the widgets do not exist."""
        if not self.screen_stack or not self.screen_stack[0].query("#keys"):
            return
        snapshot = self.feed.take_snapshot()
        if snapshot is not None:
            self._apply_snapshot(snapshot)
        received = self.feed.drain()
        for each in received:
            self._apply_event(each)
        team = self.feed.take_team()
        if team is not None:
            self._team = team
        if self.feed.trouble:
            self._note = Piece(safe_line(self.feed.trouble), "bad")
            self.feed.trouble = ""
        self._draw()

    def _apply_snapshot(self, snapshot: Snapshot) -> None:
        self.everyone.replace(snapshot)
        self._asks = snapshot.asks
        now = self._now()
        rows = self.everyone.rows()
        self._names.learn(labels(rows, self.feed.here))
        for row in rows:
            if row.is_busy:
                since = seconds_of(row.since)
                kind = "asking" if row.state == "asking" else "working"
                self.spans.mark_busy(row.key, kind, now if since is None else since)
            else:
                self.spans.mark_idle(row.key, now)
        if self._note.text == "looking …":
            self._note = Piece("")

    def _apply_event(self, received: ReceivedEvent) -> None:
        at_s = seconds_of(received.event.ts) or self._now()
        if not received.is_past:
            self.everyone.apply(received.key, received.event)
            self.spans.apply(received.key, received.event, at_s)
            self.costs.apply(received.key, received.event, at_s)
        if received.key not in self._names:
            self._names.learn({received.key: safe_line(received.name)})
        shown = stream_event(received.event, received.key, received.name)
        if shown is not None:
            gone = self.stream.dropped
            self.stream.add(shown)
            gone = self.stream.dropped - gone
            if gone and self._at == 0:
                pane = self._lines_widget("pane")
                pane.cursor, pane.top = max(0, pane.cursor - gone), max(0, pane.top - gone)

    def _draw(self) -> None:
        now = self._now()
        table, pane = self._lines_widget("table"), self._lines_widget("pane")
        rows = self.everyone.rows()
        known = {row.key: seconds_of(row.since) if row.since else None for row in rows}
        self.table.rows, self.table.since_s, self.table.now_s = rows, known, now
        at = next((at for at, row in enumerate(rows) if row.key == self._selected), None)
        if at is None and rows:
            at = min(table.cursor, len(rows) - 1)
            if self._selected:
                self._note = Piece(
                    f"{self._names.whole(self._selected)} is gone; this is {self._names.whole(rows[at].key)}", "bad"
                )
                self._is_replaced = True
            self._selected = rows[at].key
        height = max(4, min(len(rows) + 2, self.size.height * 2 // 5))
        if table.styles.height is None or table.styles.height.value != height:
            table.styles.height = height
        table.move_cursor(at or 0)
        table.refresh()
        width = max(1, pane.size.width)
        if self._note_and_since[0] is not self._note:
            self._note_and_since = (self._note, now)
        elif now - self._note_and_since[1] > _NOTE_S:
            self._note = Piece("")
            self._is_replaced = False
        ts = time_of_day(clock.rfc3339(int(now * 1e9)))
        if self._at == TEAM_PANE:
            self._team_lines.show(self._team, width)
            pane.cursor = self._team_lines.index_of_selected(pane.cursor)
        elif self._at == 2:
            self._times.tick(now, ts)
        elif self._at == 3:
            since = time_of_day(clock.rfc3339(int((now - self._times.scale_s) * 1e9)))[:5]
            pane.source = cost_lines(
                self.costs, rows, self._names, now_s=now, scale_s=self._times.scale_s, width=width, since=since
            )
        pane.show()
        for name, line in (
            ("title", bars.title(rows, ts, self.size.width)),
            ("tabs", bars.tabs(self._at, self._filter_description())),
            ("note", bars.note(self._note, self._asks, self._names)),
            ("keys", bars.keys(keys_of(PANES[self._at]), self.size.width)),
        ):
            source = self._lines_widget(name).source
            if not isinstance(source, FixedLines) or list(source.lines) != [line]:
                self._lines_widget(name).show(FixedLines([line]))

    def _filter_description(self) -> str:
        active = self.stream.filter
        return "" if active.is_empty else self._filter_text or self._names.whole(active.key)

    def _selected_row(self) -> Row | None:
        """Return the selected row. If there is none, show a note that says so, and return None.

        Return None once, too, after the selected row went: the key was perhaps pressed before the person saw that.
        """
        row = self.everyone.get(self._selected)
        if row is None:
            self._set_note("nobody is selected", "bad")
        elif self._is_replaced:
            row = None
        self._is_replaced = False
        return row

    def _set_note(self, text: str, style: str = "") -> None:
        self._note = Piece(safe_line(text), style)
        self.tick()
