"""The board without a terminal: what a tick takes and draws, what keys and clicks do, what dialogs answer."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("textual")

from textual.app import App
from textual.geometry import Size
from textual.screen import ModalScreen

from beam import events
from beam.board.app import Board
from beam.board.dialogs import AskDialog, ConfirmDialog, InputDialog, TextDialog
from beam.board.lines import FixedLines, Lines
from beam.board.rows import agent_key
from beam.board.spans import SCALES_S
from beam.board.stream import Filter
from beam.board.words import Piece, as_text
from beam.model.outcome import Status
from tests.board.made import ASK, NOW_S, PROJECT, FakeActions, FakeFeed, head, received, snapshot, story, team
from tests.board.test_board_lines import Made


class Wide(Made):
    """A widget of a hundred columns."""

    @property
    def size(self) -> Size:
        return Size(100, self._height)


class Drawn(Board):
    """The picture, with widgets that have a size of their own."""

    def __init__(self, feed: FakeFeed | None = None) -> None:
        self.feed_ = feed or FakeFeed()
        self.clock_s = NOW_S
        super().__init__(cast(Any, self.feed_), cast(Any, FakeActions()), now=lambda: self.clock_s)
        self.widgets = {name: Wide(0, 4, id=name) for name in ("title", "table", "tabs", "pane", "note", "keys")}
        self.widgets["table"].source = self.table
        self.widgets["pane"].source = self._stream_lines
        self.widgets["pane"].follows = True
        self.is_made = True
        self.pushed: list[tuple[Any, Any]] = []
        self.ran: list[Any] = []

    @property
    def screen_stack(self) -> Any:
        return [SimpleNamespace(query=lambda name: [name] if self.is_made else []), *self.pushed]

    def push_screen(self, screen: Any, answered: Any = None) -> Any:  # type: ignore[override]
        self.pushed.append((screen, answered))

    def run_action(self, action: Any) -> Any:  # type: ignore[override]
        return action

    def run_worker(self, work: Any) -> Any:  # type: ignore[override]
        self.ran.append(work)

    @property
    def size(self) -> Size:
        return Size(100, 30)

    def _lines_widget(self, name: str) -> Lines:
        return self.widgets[name]

    def text(self, name: str) -> list[str]:
        source = self.widgets[name].source
        return [as_text(source.line(at, 100)) for at in range(len(source))]

    def style(self, name: str) -> str:
        return cast(FixedLines, self.widgets[name].source).lines[0][0].style


def test_a_tick_draws_everyone_the_stream_and_the_bars() -> None:
    it = Drawn()
    it.tick()
    assert [line.split()[0] for line in it.text("table")] == [
        "asker",
        "builder",
        "alice",
        "codex~c0de",
        "writer",
        "bob",
    ]
    assert it.text("pane")[0] == "15:05:20 builder              ← human: fix the parser"
    assert it.text("title")[0].startswith(" beam board  6 in all folders, 4 at work, 1 waiting for you")
    assert it.text("title")[0].endswith("15:06:40")
    assert it.text("tabs") == [" 1 Stream  2 Team  3 Time  4 Cost"]
    assert it.text("note") == ["asker asks for Bash: a shows it"]
    assert it.text("keys")[0] != ""
    assert it.widgets["table"].styles.height is not None and it.widgets["table"].styles.height.value == 8
    assert (it._selected, it.widgets["pane"].cursor) == (agent_key(PROJECT, "asker"), len(it.stream) - 1)


@pytest.mark.parametrize(("is_headless", "codes"), [(False, [143]), (True, [])])
def test_a_signal_ends_a_board_on_a_terminal_as_a_shell_expects(
    monkeypatch: pytest.MonkeyPatch, is_headless: bool, codes: list[int]
) -> None:
    drawn, handlers, ended = Drawn(), dict[int, Any](), list[int]()
    monkeypatch.setattr(Drawn, "is_headless", is_headless)
    for name in ("call_after_refresh", "set_interval"):
        monkeypatch.setattr(drawn, name, lambda *given: None)
    monkeypatch.setattr(drawn, "exit", lambda return_code: ended.append(return_code))
    for widget in drawn.widgets.values():
        monkeypatch.setattr(widget, "focus", lambda: None)

    async def main() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", handlers.__setitem__)
        drawn.on_mount()

    asyncio.run(main())
    for number, handle in handlers.items():
        assert number == signal.SIGTERM
        handle()
    assert ended == codes


def test_nothing_is_drawn_while_there_are_no_widgets() -> None:
    it = Drawn()
    it.is_made = False
    it.tick()
    assert (it.text("title"), len(it.feed_.events)) == ([], 6)


def test_what_went_wrong_is_reported_once_and_for_fifteen_seconds() -> None:
    it = Drawn(FakeFeed())
    it.feed_.looks = [snapshot(asks=[])]
    it.feed_.trouble = "no such\ndisk"
    it.tick()
    assert (it.text("note"), it.style("note"), it.feed_.trouble) == (["no such disk"], "bad", "")
    it.clock_s += 15
    it.tick()
    assert it.text("note") == ["no such disk"]
    it.clock_s += 0.1
    it.tick()
    assert it.text("note") == [""]


def test_before_the_first_look_it_says_so() -> None:
    it = Drawn()
    it.feed_.looks, it.feed_.events = [], []
    it.tick()
    assert (it.text("note"), it.text("table"), it._selected_row()) == (["looking …"], [], None)
    assert it.text("note") == ["nobody is selected"]


def test_the_selection_stays_on_its_row_and_says_when_that_is_gone() -> None:
    it = Drawn()
    it._selected = agent_key(PROJECT, "builder")
    it.tick()
    assert (it.widgets["table"].cursor, cast(Any, it._selected_row()).name) == (1, "builder")
    lines = [line for line in snapshot().agents[0][1] if line.agent != "builder"]
    it.feed_.looks = [snapshot(agents=[(PROJECT, lines)], asks=[])]
    it.tick()
    assert it.text("note") == ["builder is gone; this is alice@docs"]
    assert it._selected_row() is None, "the key may have been meant for builder"
    assert cast(Any, it._selected_row()).name == "alice"


def test_one_that_a_person_selects_or_knows_for_a_while_gets_the_first_key() -> None:
    def replaced() -> Drawn:
        it = Drawn()
        it._selected = agent_key(PROJECT, "builder")
        it.tick()
        lines = [line for line in snapshot().agents[0][1] if line.agent != "builder"]
        it.feed_.looks = [snapshot(agents=[(PROJECT, lines)], asks=[])]
        it.tick()
        return it

    chosen = replaced()
    chosen.select_row(0)
    assert chosen._selected_row() is not None
    later = replaced()
    later._now = lambda: NOW_S + 60
    later.tick()
    assert cast(Any, later._selected_row()).name == "alice"


def test_events_change_the_rows_the_time_line_and_the_costs() -> None:
    it = Drawn()
    it.tick()
    key = agent_key(PROJECT, "builder")
    it.feed_.events = [
        received(events.TurnFinished(**head("builder", 10), status=Status.COMPLETED, cost_usd=0.5)),
        received(events.TurnFinished(**{**head("builder", 5), "ts": ""}, status=Status.COMPLETED, cost_usd=0.25)),
    ]
    it.tick()
    assert cast(Any, it.everyone.get(key)).state == "idle"
    assert it.costs.by_key(0)[key][0] == 0.75
    assert it.spans.by_key[key][-1].end_s == NOW_S - 10
    assert (it._names.whole(key), it._names.whole(agent_key(PROJECT, "writer"))) == ("builder", "writer")


def test_rows_are_at_work_on_the_time_line_from_when_their_state_began() -> None:
    it = Drawn()
    it.feed_.events = []
    it.tick()
    found = {it._names.whole(key): (spans[0].kind, NOW_S - spans[0].begin_s) for key, spans in it.spans.by_key.items()}
    assert found == {
        "builder": ("working", 75.0),
        "asker": ("asking", 75.0),
        "site/codex~c0de": ("working", 8.0),
        "alice@docs": ("working", 30.0),
    }


@pytest.mark.parametrize(
    ("pane", "first"),
    [(1, "docs"), (2, "+/- other scale"), (3, "turns that ended since 15:01: $0.0000")],
)
def test_each_pane_has_lines_of_its_own(pane: int, first: str) -> None:
    it = Drawn()
    it._at = pane
    if pane == 1:
        it.widgets["pane"].source = it._team_lines
    if pane == 2:
        it.widgets["pane"].source = it._times
    it.tick()
    source = it.widgets["pane"].source
    lines = [as_text(line) for line in source.header_lines(100)] + it.text("pane")
    assert first in lines[0] or first in lines[1]
    assert it.style("tabs") == "dim"


def test_the_bar_of_panes_names_the_filter() -> None:
    it = Drawn()
    it.tick()
    assert it._filter_description() == ""
    it.stream.filter = Filter(key=agent_key(PROJECT, "builder"))
    assert it._filter_description() == "builder"
    it.stream.filter = Filter(key="gone")
    assert it._filter_description() == "gone"
    it._filter_text = "words"
    assert it._filter_description() == "words"


def test_a_line_is_drawn_anew_only_where_it_changed() -> None:
    it = Drawn()
    it.tick()
    before = {name: it.widgets[name].source for name in ("title", "tabs", "keys")}
    it.tick()
    assert all(it.widgets[name].source is source for name, source in before.items())
    it.clock_s += 1
    it.tick()
    assert it.widgets["title"].source is not before["title"] and it.widgets["tabs"].source is before["tabs"]


def test_a_team_is_kept_until_a_newer_one_comes() -> None:
    it = Drawn()
    it.tick()
    it.tick()
    assert it._team == team()
    assert len(story()) == 6


def test_a_note_is_plain_text_of_its_style() -> None:
    it = Drawn()
    it._set_note("a\x1b[2Jb", "good")
    assert (it._note.style, "\x1b" in it._note.text) == ("good", False)
    assert it.style("note") == "good"


# -- keys and clicks ---------------------------------------------------------------------------------------------------


def moved(it: Drawn, name: str, at: int) -> Any:
    return SimpleNamespace(lines=it.widgets[name], at=at)


@pytest.mark.parametrize(("at", "wanted", "did"), [(0, None, []), (1, "", ["look"]), (2, None, []), (3, None, [])])
def test_a_pane_is_shown_and_only_that_of_the_team_has_one_read(at: int, wanted: str | None, did: list[str]) -> None:
    it = Drawn()
    it.widgets["pane"].has_cursor = False
    it.action_pane(at)
    pane = it.widgets["pane"]
    sources = {0: it._stream_lines, 1: it._team_lines, 2: it._times}
    assert pane.source is sources[at] if at in sources else as_text(pane.source.line(0, 9)).startswith("turns that")
    assert (it._at, it.feed_.wanted_team, it.feed_.did, pane.follows, pane.has_cursor) == (
        at,
        wanted,
        did,
        at == 0,
        True,
    )
    it.feed_.wanted_team = "docs"
    it.action_pane(1)
    assert it.feed_.wanted_team == "docs"


def test_the_time_that_is_shown_has_bounds() -> None:
    it = Drawn()
    found = []
    for by in (1, 1, 1, 1, 1, 1, -1, -9, 1):
        it.action_scale(by)
        found.append(it._times.scale)
    most = len(SCALES_S) - 1
    assert found == [*(min(most, 1 + n) for n in range(1, 7)), most - 1, 0, 1]


def test_the_next_team_is_shown_after_the_last_the_first() -> None:
    it = Drawn()
    it.feed_.teams = [SimpleNamespace(team="docs"), SimpleNamespace(team="other")]  # type: ignore[list-item]
    it.action_next_team()
    assert (it.feed_.wanted_team, it._at) == ("", 1)
    it.action_next_team()
    assert it.feed_.wanted_team == "other"
    it.feed_.teams.reverse()
    it.action_next_team()
    assert it.feed_.wanted_team == "other"


def test_only_the_events_of_the_selected_row_are_shown_and_then_all_again() -> None:
    it = Drawn()
    it.tick()
    it._at, it._filter_text = 2, "words"
    it.action_only()
    assert (it.stream.filter.key, it._filter_text, it._at) == (agent_key(PROJECT, "asker"), "", 0)
    assert it.text("tabs") == [" 1 Stream  2 Team  3 Time  4 Cost   only asker, esc shows all"]
    it.action_only()
    assert it.stream.filter.is_empty
    it.on_lines_chosen(moved(it, "table", 0))
    assert it.stream.filter.key == agent_key(PROJECT, "asker")
    it._note, it._filter_text = Piece("x"), "y"
    it.action_no_filter()
    assert (it.stream.filter.is_empty, it._note.text, it._filter_text) == (True, "", "")


def test_a_filter_is_typed_or_left_as_it_was() -> None:
    it = Drawn()
    it.tick()
    it._at = 2
    it.action_filter()
    screen, use = it.pushed.pop()
    assert screen._title == "Show only events with these words, agent:NAME, team:PART or type:task.*"
    use(None)
    assert (it.stream.filter.is_empty, it._at) == (True, 2)
    use("parser\n")
    assert (it.stream.filter.is_empty, it._at, it._filter_text) == (False, 0, "parser")
    it.action_filter()
    assert it.pushed[0][0]._value == "parser"


def test_a_moved_cursor_selects_a_row_or_a_member_and_clears_the_note() -> None:
    it = Drawn()
    it.tick()
    it._note = Piece("x")
    it.select_row(1)
    assert (it._selected, it._note.text) == (agent_key(PROJECT, "builder"), "")
    it._note = Piece("x")
    it.select_line(1)
    assert it._note.text == "x"
    it.action_pane(1)
    place = next(at for at, each in enumerate(it._team_lines._entries) if each.id == "bob")
    it.select_line(place)
    assert (it._team_lines.member, it._note.text) == ("bob", "")


def test_a_chosen_event_is_shown_in_full_and_of_another_pane_its_line() -> None:
    it = Drawn()
    it.tick()
    it.on_lines_chosen(moved(it, "pane", 0))
    (screen, _) = it.pushed.pop()
    assert screen._title == "builder: message.queued" and "fix the parser" in screen._text
    it.on_lines_chosen(moved(it, "pane", 99))
    it.on_lines_chosen(moved(it, "note", 0))
    assert it.pushed == []
    it.action_pane(3)
    it.on_lines_chosen(moved(it, "pane", 4))
    (screen, _) = it.pushed.pop()
    assert (screen._title, screen._text) == ("Cost", "EVERYONE, from the beginning: cost, tokens")


def clicked(name: str | None, x: int) -> Any:
    return SimpleNamespace(widget=None if name is None else SimpleNamespace(id=name), x=x)


def test_a_click_shows_a_pane_or_does_what_a_key_does_and_nothing_below_a_dialog() -> None:
    it = Drawn()
    it.tick()
    for where in (
        clicked("tabs", 12),
        clicked("tabs", 99),
        clicked("title", 0),
        clicked(None, 0),
        clicked("keys", 999),
    ):
        it.on_click(where)
    assert (it._at, it.ran) == (1, [])
    it.on_click(clicked("keys", 0))
    it.action_pane(0)
    it.on_click(clicked("keys", 8))
    assert it.ran == ["send", "steer"]
    it.action_help()
    it.on_click(clicked("tabs", 20))
    assert (it._at, it.pushed[0][0]._title) == (0, "Keys of beam board")


@pytest.mark.parametrize(
    ("action", "acts"), [("quit", False), ("pane", False), ("task", False), ("other_half", True), ("dismiss_it", True)]
)
def test_the_keys_of_the_board_act_only_while_no_dialog_is_open(action: str, acts: bool) -> None:
    it = Drawn()
    assert it.check_action(action, ()) is True
    it.action_help()
    assert it.check_action(action, ()) is acts


# -- dialogs -----------------------------------------------------------------------------------------------------------


def opened(dialog: Any, height: int = 4) -> tuple[Any, dict[str, Made], list[Any]]:
    """The dialog with widgets of its own, and what it was closed with."""
    widgets = {f"#{name}": Wide(0, height, id=name) for name in ("title", "text", "keys")}
    closed: list[Any] = []
    dialog.query_one = lambda name, kind=None: widgets.get(name) if isinstance(name, str) else widgets["#text"]
    dialog.dismiss = lambda value=None: closed.append(value)
    return dialog, widgets, closed


def shown(widget: Made) -> list[str]:
    return [as_text(widget.source.line(at, 100)) for at in range(len(widget.source))]


def key(name: str, character: str | None = None) -> Any:
    done: list[str] = []
    return SimpleNamespace(
        key=name,
        character=character,
        did=done,
        stop=lambda: done.append("stop"),
        prevent_default=lambda: done.append("prevent"),
    )


def test_a_text_is_wrapped_and_a_patch_has_colours() -> None:
    dialog, widgets, closed = opened(TextDialog("title", "one two three four"))
    dialog._fill()
    assert shown(widgets["#text"]) == ["one two three four"]
    patch, widgets, _ = opened(TextDialog("title", "@@ 1\n+new\n-old\nsame", is_patch=True))
    patch._fill()
    lines = cast(FixedLines, widgets["#text"].source).lines
    assert [line[0] for line in lines] == [
        Piece("@@ 1", "tool"), Piece("+new", "good"), Piece("-old", "bad"), Piece("same", ""),
    ]  # fmt: skip
    dialog.action_dismiss_it()
    assert closed == [None]


def test_what_was_typed_is_returned_or_nothing() -> None:
    dialog, _, closed = opened(InputDialog("title", "v"))
    dialog.on_input_submitted(SimpleNamespace(value="typed"))
    dialog.action_leave()
    assert closed == ["typed", None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dialog", "id"),
    [
        (lambda: TextDialog("title", "text"), "text"),
        (lambda: InputDialog("title", "v"), "typed"),
        (lambda: AskDialog(ASK, PROJECT), "text"),
    ],
)
def test_the_keys_go_to_the_text_of_a_dialog(dialog: Callable[[], ModalScreen[Any]], id: str) -> None:
    async def focused() -> str | None:
        app: App[None] = App()
        async with app.run_test() as pilot:
            app.push_screen(dialog())
            await pilot.pause()
            return app.focused.id if app.focused is not None else None

    assert asyncio.run(focused()) == id


@pytest.mark.parametrize(("character", "is_yes"), [("y", True), ("n", False), (None, False), ("Y", False)])
def test_only_y_is_a_yes(character: str | None, is_yes: bool) -> None:
    dialog, _, closed = opened(ConfirmDialog("sure?"))
    event = key("x", character)
    dialog.on_key(event)
    assert (closed, event.did) == ([is_yes], ["stop"])


def test_an_ask_is_read_to_its_end_chosen_and_confirmed() -> None:
    dialog, widgets, closed = opened(AskDialog(ASK, PROJECT), height=2)
    dialog._fill()
    text, keys = widgets["#text"], widgets["#keys"]
    assert dialog.decision.is_read is False
    assert "(more below)" in " ".join(shown(keys))
    text.move_cursor(999)
    dialog.on_scroll(0)
    assert dialog.decision.is_read and "(more below)" not in " ".join(shown(keys))
    scroll = key("down")
    dialog.on_key(scroll)
    assert (scroll.did, closed) == ([], [])
    chosen = key("a", "a")
    dialog.on_key(chosen)
    assert (chosen.did, closed, bool(dialog.decision.chosen)) == (["stop", "prevent"], [], True)
    assert cast(FixedLines, keys.source).lines[0][0].style == "ask"
    dialog.on_key(key("y", "y"))
    assert closed == ["approve"]


def test_an_ask_is_left_open_by_escape_and_a_choice_is_taken_back_by_it() -> None:
    dialog, _, closed = opened(AskDialog(ASK, PROJECT), height=99)
    dialog._fill()
    dialog.on_key(key("a", "a"))
    dialog.on_key(key("escape"))
    assert (closed, dialog.decision.chosen) == ([], "")
    dialog.on_key(key("escape"))
    assert closed == [""]
