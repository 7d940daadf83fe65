"""What the keys of the board do with the selected row, without a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

pytest.importorskip("textual")

from beam.board.dialogs import AskDialog, ConfirmDialog, InputDialog
from beam.board.names import Names, labels
from beam.board.panes import TeamLines
from beam.board.picture_actions import PictureWithActions
from beam.board.rows import Everyone, Row
from beam.board.words import Piece
from tests.board.made import ASK, PROJECT, FakeActions, snapshot, team


class Keys:
    """Stands in for the board: `told` are its notes, `begun` the actions with the words shown meanwhile."""

    action_send = PictureWithActions.action_send
    action_steer = PictureWithActions.action_steer
    action_interrupt = PictureWithActions.action_interrupt
    action_pause = PictureWithActions.action_pause
    action_diff = PictureWithActions.action_diff
    action_asks = PictureWithActions.action_asks
    action_task = PictureWithActions.action_task
    _input_for_row = PictureWithActions._input_for_row
    _input = PictureWithActions._input
    _confirm = PictureWithActions._confirm
    _selected_row = PictureWithActions._selected_row

    def __init__(self, selected: str = "", *, in_team: str = "") -> None:
        self.everyone = Everyone()
        self.everyone.replace(snapshot())
        found = [row.key for row in self.everyone.rows() if row.name == selected]
        self._names = Names()
        self._names.learn(labels(self.everyone.rows(), PROJECT))
        self._selected, self._is_replaced = found[0] if found else "", False
        self._asks: Any = snapshot().asks
        self._actions: Any = FakeActions()
        self._team, self._at = (team(), 1) if in_team else (None, 0)
        self._team_lines = TeamLines()
        self._team_lines.show(team(), 100)
        places = [at for at, each in enumerate(self._team_lines._entries) if each.id == in_team]
        if places:
            self._team_lines.select(places[0])
        self.is_focused = True
        self.told: list[tuple[str, str]] = []
        self.begun: list[tuple[str, str]] = []
        self.screens: list[tuple[Any, Callable[[Any], None]]] = []
        self._note = Piece("")

    def _lines_widget(self, name: str) -> Any:
        return type("Pane", (), {"has_focus": self.is_focused})

    def _set_note(self, text: str, style: str = "") -> None:
        self.told.append((text, style))

    def _start_action(self, words: str, action: Callable[[], str]) -> None:
        self.begun.append((words, action()))

    def _run_and_show(self, title: str, action: Callable[[], str]) -> None:
        self.begun.append((title, action()))

    def push_screen(self, screen: Any, answered: Callable[[Any], None]) -> None:
        self.screens.append((screen, answered))

    @property
    def did(self) -> list[tuple[object, ...]]:
        return cast(list[tuple[object, ...]], self._actions.did)

    def answer(self, value: Any) -> tuple[str, str]:
        """Answers the dialog; its title and the value that stood in it."""
        screen, answered = self.screens.pop()
        answered(value)
        return getattr(screen, "_title", "") or getattr(screen, "_text", ""), getattr(screen, "_value", "")


ALL = ("send", "steer", "interrupt", "pause", "diff")


@pytest.mark.parametrize("key", ALL)
def test_a_key_acts_on_nothing_where_nobody_is_selected(key: str) -> None:
    keys = Keys()
    getattr(keys, f"action_{key}")()
    assert (keys.told, keys.begun, keys.screens) == ([("nobody is selected", "bad")], [], [])


@pytest.mark.parametrize(
    ("key", "selected", "title", "did"),
    [
        ("send", "builder", "Send to builder", [("send", "builder", "hello")]),
        ("send", "alice", "Send to alice of team docs", [("send", "alice", "hello")]),
        ("steer", "builder", "Tell the running turn of builder", [("steer", "builder", "hello")]),
    ],
)
def test_a_text_is_typed_and_sent(key: str, selected: str, title: str, did: list[tuple[object, ...]]) -> None:
    keys = Keys(selected)
    getattr(keys, f"action_{key}")()
    assert isinstance(keys.screens[0][0], InputDialog)
    assert keys.answer("hello") == (title, "")
    assert (keys.did, keys.begun) == (did, [("sending …", f"{key} done")])


@pytest.mark.parametrize("text", [None, ""])
def test_what_was_not_typed_is_not_sent(text: str | None) -> None:
    keys = Keys("builder")
    keys.action_send()
    keys.answer(text)
    assert keys.did == []


@pytest.mark.parametrize("key", ["send", "steer"])
def test_a_session_that_beam_did_not_start_says_at_once_that_it_takes_nothing(key: str) -> None:
    keys = Keys("codex~c0de")
    getattr(keys, f"action_{key}")()
    assert (keys.screens, keys.did) == ([], [(key, "codex~c0de", "")])


@pytest.mark.parametrize(("is_focused", "title"), [(True, "Send to bob of team docs"), (False, "Send to builder")])
def test_a_member_of_the_team_in_the_pane_gets_the_text_where_the_pane_has_the_keys(
    is_focused: bool, title: str
) -> None:
    keys = Keys("builder", in_team="bob")
    keys.is_focused = is_focused
    keys.action_send()
    assert keys.answer("hello")[0] == title
    assert keys.did == ([("mail", "docs", "bob", "hello")] if is_focused else [("send", "builder", "hello")])


@pytest.mark.parametrize("is_yes", [True, False, None])
def test_a_turn_is_ended_only_once_that_was_confirmed(is_yes: bool | None) -> None:
    keys = Keys("builder")
    keys.action_interrupt()
    assert isinstance(keys.screens[0][0], ConfirmDialog)
    assert keys.answer(is_yes)[0] == "End the turn of builder (builder-1m88)?"
    assert keys.begun == ([("doing it …", "interrupt done")] if is_yes else [])
    assert keys.did == ([("interrupt", "builder", "builder-1m88")] if is_yes else [])


def test_a_turn_that_does_not_run_is_not_ended_and_a_session_says_so_itself() -> None:
    keys = Keys("writer")
    keys.action_interrupt()
    assert (keys.told, keys.screens) == ([("no turn of writer runs", "bad")], [])
    keys = Keys("codex~c0de")
    keys.action_interrupt()
    assert (keys.did, keys.begun) == ([("interrupt", "codex~c0de", "")], [("", "interrupt done")])


def test_a_queue_is_paused_and_a_folder_compared_at_once() -> None:
    keys = Keys("builder")
    keys.action_pause()
    keys.action_diff()
    assert keys.begun == [
        ("asking its holder …", "pause done"),
        ("What changed in the folder of builder", "diff done"),
    ]
    assert keys._note == Piece("comparing …", "dim")


@pytest.mark.parametrize("answer", ["approve", "deny", "", None])
def test_an_ask_is_decided_as_its_dialog_says_and_then_no_longer_shown(answer: str | None) -> None:
    keys = Keys("asker")
    keys.action_asks()
    screen = keys.screens[0][0]
    assert isinstance(screen, AskDialog) and screen.ask == ASK
    keys.answer(answer)
    assert keys.did == ([("decide", PROJECT.name, ASK.id, answer)] if answer else [])
    assert len(keys._asks) == (0 if answer else 1)
    if answer:
        assert keys.begun == [("answering …", "decide done")]
        keys.action_asks()
        assert keys.told == [("nobody asks for anything", "dim")]


def test_an_ask_of_the_selected_row_comes_first() -> None:
    from msgspec import structs

    other = structs.replace(ASK, id="ask-other")
    for selected, first in (("asker", ASK), ("builder", other), ("", other)):
        keys = Keys(selected)
        keys._asks = [(PROJECT, other), (PROJECT, ASK)]
        keys.action_asks()
        assert keys.screens[0][0].ask == (first if selected == "asker" else other)


TASKS = [
    ("add", "A new task of docs", "", "Write more", [("add_task", "docs", "Write more")]),
    (
        "claim",
        "Whose is #2 Test the parser? A member, or human",
        "human",
        " bob ",
        [("claim_task", "docs", "2", "bob")],
    ),
    ("start", "Begin #2 Test the parser?", "", True, [("start_task", "docs", "2")]),
    ("done", "Is #2 Test the parser done?", "", True, [("finish_task", "docs", "2")]),
    ("block", "#2 Test the parser waits for which task? Its number", "", " #1", [("block_task", "docs", "2", "1")]),
]


@pytest.mark.parametrize(("verb", "title", "value", "answer", "did"), TASKS, ids=[task[0] for task in TASKS])
def test_a_task_of_the_team_is_changed(
    verb: str, title: str, value: str, answer: Any, did: list[tuple[object, ...]]
) -> None:
    keys = Keys("builder", in_team="2")
    keys.action_task(verb)
    assert keys.answer(answer) == (title, value)
    assert keys.did == did


def test_a_key_for_tasks_needs_the_pane_of_the_team_and_a_task() -> None:
    keys = Keys("builder")
    keys.action_task("add")
    keys = Keys("builder", in_team="bob")
    keys.action_task("done")
    keys.action_task("add")
    assert keys.told == [("no task is selected: tab gives the pane the keys, up and down select", "bad")]
    assert keys.answer("x")[0] == "A new task of docs"
    other = Keys("builder")
    other.action_task("done")
    assert other.told == [("tasks are those of the team in the pane Team: 2", "bad")]


def test_a_row_is_found_by_its_key() -> None:
    row = cast(Row, Keys("builder")._selected_row())
    assert row.name == "builder"
