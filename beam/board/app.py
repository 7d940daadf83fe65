"""The board: the table of everyone, a pane below it, and keys that act on the row under the cursor.

One tick drains what came, folds it and draws once. What takes time runs in threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from beam import clock
from beam.board.actions import Actions, said, seconds_of
from beam.board.asking import Answer
from beam.board.dialogs import Deciding, Question, Reader, Typed
from beam.board.help import HELP, KEYS
from beam.board.lines import Fixed, Lines
from beam.board.panes import PANES, StreamLines, Table, TimeLines, cost_lines, team_lines
from beam.board.rows import Everyone, Look, Row
from beam.board.spans import SCALES_S, Costs, Spans
from beam.board.stream import Stream, parse_filter, shown_of, whole
from beam.board.words import Drawn, Piece, as_text, cell, money, plain

if TYPE_CHECKING:
    from beam import AskLine
    from beam.board.feed import Came, Feed
    from beam.board.teams import TeamLook

_TICK_S = 0.25
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


class Board(App[None]):
    """The board over a feed. `now` returns seconds since 1970."""

    CSS = _CSS
    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE = False
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
        Binding("plus,equals_sign", "scale(1)", show=False),
        Binding("minus", "scale(-1)", show=False),
        Binding("question_mark,f1", "help", show=False),
    ]

    def __init__(self, feed: Feed, actions: Actions, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(ansi_color=True)
        self.feed = feed
        self._actions = actions
        self._now = now
        self._began_s = now()
        self.everyone = Everyone()
        self.stream = Stream()
        self.spans, self.costs = Spans(), Costs()
        self.table = Table()
        self._names: dict[str, str] = {}
        self._times = TimeLines(self.spans, self._names)
        self._stream_lines = StreamLines(self.stream)
        self._team: TeamLook | None = None
        self._asks: Sequence[tuple[Path, AskLine]] = ()
        self._at = 0
        self._note: Piece = Piece("looking …", "dim")
        self._selected = ""
        self._typed_filter = ""
        self._is_looked = False

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Lines(Fixed([]), id="title", has_cursor=False)
        yield Lines(self.table, id="table")
        yield Lines(Fixed([]), id="tabs", has_cursor=False)
        yield Lines(self._stream_lines, id="pane", follows=True)
        yield Lines(Fixed([]), id="note", has_cursor=False)
        yield Lines(Fixed([]), id="keys", has_cursor=False)

    def on_mount(self) -> None:
        """Begin to read once the first picture is drawn."""
        for name in ("title", "tabs", "note", "keys"):
            self._lines(name).can_focus = False
        self._lines("table").focus()
        if not self.is_headless:
            import asyncio
            import signal

            ended = 128 + signal.SIGTERM
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: self.exit(return_code=ended))
        self.call_after_refresh(self.feed.start)
        self.set_interval(_TICK_S, self.tick)
        self.call_after_refresh(self.tick)

    def on_unmount(self) -> None:
        """Read no more."""
        self.feed.close()

    def on_resize(self, event: events.Resize) -> None:
        """Make the picture for the new size."""
        self.call_after_refresh(self.tick)

    def _lines(self, name: str) -> Lines:
        return self.screen_stack[0].query_one(f"#{name}", Lines)

    # -- the tick ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take what came, and draw once; before the widgets are there, and after, nothing."""
        if not self.screen_stack or not self.screen_stack[0].query("#keys"):
            return
        look = self.feed.take_look()
        if look is not None:
            self._take_look(look)
        came = self.feed.take()
        for each in came:
            self._take(each)
        team = self.feed.take_team()
        if team is not None:
            self._team = team
        if self.feed.trouble:
            self._note = Piece(plain(self.feed.trouble), "bad")
            self.feed.trouble = ""
        self._draw()

    def _take_look(self, look: Look) -> None:
        self.everyone.take_look(look)
        self._asks = look.asks
        self._is_looked = True
        now = self._now()
        for row in self.everyone.rows():
            self._names[row.key] = row.name
            if row.is_busy:
                since = seconds_of(row.since)
                kind = "asking" if row.state == "asking" else "working"
                self.spans.seen(row.key, kind, now if since is None else since)
            else:
                self.spans.rests(row.key, now)
        if self._note.text == "looking …":
            self._note = Piece("")

    def _take(self, came: Came) -> None:
        at_s = seconds_of(came.event.ts) or self._now()
        self.everyone.take(came.key, came.event)
        self.spans.take(came.key, came.event, at_s)
        self.costs.take(came.key, came.event, at_s)
        self._names.setdefault(came.key, plain(came.name))
        shown = shown_of(came.event, came.key, came.name)
        if shown is not None:
            gone = self.stream.gone
            self.stream.add(shown)
            if self.stream.gone != gone and self._at == 0:
                pane = self._lines("pane")
                pane.cursor, pane.top = max(0, pane.cursor - 1), max(0, pane.top - 1)

    def _draw(self) -> None:
        now = self._now()
        table, pane = self._lines("table"), self._lines("pane")
        rows = self.everyone.rows()
        known = {row.key: seconds_of(row.since) if row.since else None for row in rows}
        self.table.rows, self.table.since_s, self.table.now_s = rows, known, now
        at = next((at for at, row in enumerate(rows) if row.key == self._selected), None)
        if at is None and rows:
            at = min(table.cursor, len(rows) - 1)
            if self._selected:
                self._note = Piece(f"{self._names.get(self._selected, 'it')} is gone; this is {rows[at].name}", "bad")
            self._selected = rows[at].key
        height = max(4, min(len(rows) + 2, self.size.height * 2 // 5))
        if table.styles.height is None or table.styles.height.value != height:
            table.styles.height = height
        table.place(at or 0)
        table.refresh()
        width = max(1, pane.size.width)
        ts = clock.rfc3339(int(now * 1e9))[11:19]
        if self._at == 1:
            pane.source = team_lines(self._team, width)
        elif self._at == 2:
            self._times.tick(now, ts)
        elif self._at == 3:
            since = clock.rfc3339(int((now - self._times.scale_s) * 1e9))[11:16]
            pane.source = cost_lines(self.costs, rows, now_s=now, scale_s=self._times.scale_s, width=width, since=since)
        pane.show()
        for name, line in (
            ("title", self._title(rows, ts)),
            ("tabs", self._tabs()),
            ("note", self._note_line()),
            ("keys", self._keys_line()),
        ):
            source = self._lines(name).source
            if not isinstance(source, Fixed) or list(source.lines) != [line]:
                self._lines(name).show(Fixed([line]))

    def _title(self, rows: Sequence[Row], ts: str) -> Drawn:
        busy = sum(row.is_busy for row in rows)
        asks = sum(row.state == "asking" for row in rows)
        cost = sum(row.cost_usd or 0.0 for row in rows)
        mark = any(row.is_estimate and row.cost_usd for row in rows)
        text = f" beam board  {len(rows)} here, {busy} at work"
        asked = f", {asks} waiting for you" if asks else ""
        right = f"{money(cost, is_estimate=mark)}  {ts} UTC "
        width = self.size.width
        left = cell(text, max(0, width - len(right) - len(asked))) if not asked else text
        space = " " * max(0, width - len(left) - len(asked) - len(right))
        return (Piece(left, "bar"), Piece(asked, "bar"), Piece(space + right, "bar"))

    def _tabs(self) -> Drawn:
        pieces = []
        for at, name in enumerate(PANES):
            pieces.append(Piece(f" {at + 1} {name} ", "bar" if at == self._at else "dim"))
        active = self.stream.filter
        words = f"  only {self._typed_filter or self._names.get(active.key, active.key)}, esc shows all"
        pieces.append(Piece(words if not active.is_empty else "", "ask"))
        return tuple(pieces)

    def _note_line(self) -> Drawn:
        asks = self._asks
        if asks and not self._note.text:
            first = asks[0][1]
            more = f" and {len(asks) - 1} more" if len(asks) > 1 else ""
            return (Piece(plain(f"{first.agent} asks for {first.tool}{more}: a shows it"), "ask"),)
        return (self._note,)

    def _keys_line(self) -> Drawn:
        pieces: list[Piece] = []
        used = 0
        for key, name, _ in KEYS:
            if used + len(key) + len(name) + 3 > self.size.width:
                break
            pieces += [Piece(key, "key"), Piece(f" {name}  ")]
            used += len(key) + len(name) + 3
        return tuple(pieces)

    # -- keys and mouse ------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key acts now: in a dialog only those of the dialog do."""
        return len(self.screen_stack) == 1 or action not in _OF_THE_BOARD

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Remember which row is selected."""
        if event.lines.id == "table" and self.table.rows:
            self._selected = self.table.rows[event.at].key
            self._note = Piece("")

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Show an event in full, or only the events of a row."""
        if event.lines.id == "table":
            self.action_only()
        elif event.lines.id == "pane" and self._at == 0 and event.at < len(self.stream):
            shown = self.stream[event.at]
            self.push_screen(Reader(f"{shown.name}: {shown.event.__struct_config__.tag}", "\n".join(whole(shown))))
        elif event.lines.id == "pane":
            line = event.lines.source.line(event.at, 2_000)
            self.push_screen(Reader(PANES[self._at], as_text(line)))

    def on_click(self, event: events.Click) -> None:
        """Do what the key under the mouse does."""
        if len(self.screen_stack) > 1 or event.widget is None:
            return
        if event.widget.id == "tabs":
            used = 0
            for at, name in enumerate(PANES):
                used += len(name) + 4
                if event.x < used:
                    self.action_pane(at)
                    return
        if event.widget.id == "keys":
            used = 0
            for key, name, action in KEYS:
                used += len(key) + len(name) + 3
                if event.x < used:
                    self.run_worker(self.run_action(action))
                    return

    def action_other_half(self) -> None:
        """Move the keys to the other half."""
        if len(self.screen_stack) > 1:
            self.screen.focus_next()
            return
        self._lines("pane" if self.focused is self._lines("table") else "table").focus()

    def action_pane(self, at: int) -> None:
        """Show another pane."""
        self._at = at
        self.feed.wanted_team = (self.feed.wanted_team or "") if at == 1 else None
        if at == 1:
            self.feed.look_soon()
        pane = self._lines("pane")
        pane.follows, pane.has_cursor = at == 0, True
        pane.show({0: self._stream_lines, 2: self._times}.get(at, Fixed([])))
        self.tick()

    def action_scale(self, by: int) -> None:
        """Show more or less time."""
        self._times.scale = max(0, min(len(SCALES_S) - 1, self._times.scale + by))
        self.tick()

    def action_next_team(self) -> None:
        """Show the next team."""
        names = [line.team for line in self.feed.teams]
        now = self._team.shown.team.team if self._team is not None else ""
        wanted = names[(names.index(now) + 1) % len(names)] if now in names else ""
        self.action_pane(1)
        self.feed.wanted_team = wanted

    def action_only(self) -> None:
        """Show only the events of the selected row in the stream, or all again."""
        row = self._row()
        if row is None:
            return
        self._typed_filter = ""
        self.stream.use(parse_filter("", key="" if self.stream.filter.key == row.key else row.key))
        self.action_pane(0)

    def action_no_filter(self) -> None:
        """Show all events again."""
        self._typed_filter, self._note = "", Piece("")
        self.stream.use(parse_filter(""))
        self.tick()

    def action_filter(self) -> None:
        """Ask for a filter."""

        def use(text: str | None) -> None:
            if text is not None:
                self._typed_filter = plain(text)
                self.stream.use(parse_filter(text))
                self.action_pane(0)

        title = "Show only events with these words, agent:NAME, team:PART or type:task.*"
        self.push_screen(Typed(title, self._typed_filter), use)

    def action_help(self) -> None:
        """Show all keys."""
        self.push_screen(Reader("Keys of beam board", HELP))

    # -- acting --------------------------------------------------------------------------------------------------------

    def _row(self) -> Row | None:
        return self.everyone.get(self._selected)

    @work(thread=True)
    def _act(self, action: Callable[[], str]) -> None:
        is_done, text = said(action)
        self._note = Piece(plain(text), "" if is_done else "bad")
        self.feed.look_soon()

    @work(thread=True)
    def _read(self, title: str, action: Callable[[], str]) -> None:
        is_done, text = said(action)
        if is_done:
            self.call_from_thread(self.push_screen, Reader(title, text))
        else:
            self._note = Piece(plain(text), "bad")

    def _do(self, words: str, action: Callable[[], str]) -> None:
        self._note = Piece(words, "dim")
        self._act(action)
        self.tick()

    def action_send(self) -> None:
        """Ask for a message and send it."""
        row = self._row()
        if row is not None:
            where = f" of team {row.place}" if row.kind == "member" else ""
            self._type(row, f"Send to {row.name}{where}", lambda text: self._actions.send(row, text))

    def action_steer(self) -> None:
        """Ask for a text and pass it to the turn that runs."""
        row = self._row()
        if row is not None:
            self._type(row, f"Tell the running turn of {row.name}", lambda text: self._actions.steer(row, text))

    def _type(self, row: Row, title: str, action: Callable[[str], str]) -> None:
        if row.kind == "session":
            self._do("", lambda: action(""))
            return

        def typed(text: str | None) -> None:
            if text:
                self._do("sending …", lambda: action(text))

        self.push_screen(Typed(title), typed)

    def action_interrupt(self) -> None:
        """Ask, then end the turn that runs."""
        row = self._row()
        if row is None:
            return
        message_id = row.message_id
        if row.project is not None and message_id is None:
            self._note = Piece(f"no turn of {row.name} runs", "bad")
            self.tick()
            return
        if row.project is None or message_id is None:
            self._do("", lambda: self._actions.interrupt(row, ""))
            return

        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._do("interrupting …", lambda: self._actions.interrupt(row, message_id))

        self.push_screen(Question(f"End the turn of {row.name} ({message_id})?"), answered)

    def action_pause(self) -> None:
        """Stop the agent's queue, or resume it."""
        row = self._row()
        if row is not None:
            self._do("asking its holder …", lambda: self._actions.pause(row))

    def action_diff(self) -> None:
        """Show what changed since the agent's last turn began."""
        row = self._row()
        if row is not None:
            self._note = Piece("comparing …", "dim")
            self._read(f"What changed in the folder of {row.name}", lambda: self._actions.diff(row))

    def action_asks(self) -> None:
        """Show an open ask, that of the selected row first, and answer it as the person says."""
        row = self._row()
        asks = sorted(self._asks, key=lambda each: row is None or each[1].id not in row.asks)
        if not asks:
            self._note = Piece("nobody asks for anything", "dim")
            self.tick()
            return
        project, ask = asks[0]

        def answered(answer: Answer | None) -> None:
            if answer:
                self._asks = [each for each in self._asks if each[1].id != ask.id]
                self._do("answering …", lambda: self._actions.decide(project, ask, answer))

        self.push_screen(Deciding(ask), answered)


_OF_THE_BOARD = frozenset(
    {
        "quit", "pane", "asks", "send", "steer", "interrupt", "pause", "diff", "filter", "no_filter", "only",
        "next_team", "scale", "help",
    }
)  # fmt: skip
