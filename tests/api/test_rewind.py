"""Which turns are taken back, and what the agent's process is asked to restore."""

from __future__ import annotations

from typing import Any

import pytest

from beam.api import live, rewind
from beam.api.rewind import RewindResult, last_message_id
from beam.base.clock import Steps
from beam.base.errors import NotFoundError, UnsupportedError, UsageError
from beam.broker.asking import requests
from beam.model import events
from beam.model.outcome import Point
from tests.support.context import Root
from tests.support.journals import record, result, turn
from tests.support.refused import refused

ANSWER = {"files": ["a.py", "b.py"], "lines_added": 3, "lines_removed": 4}


class Asked:
    """What was asked of the holder and of the agent's process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[Any] = []
        self.answer: object = ANSWER

        def act(context: object, paths: Any, name: str, given: Any, *, by: str) -> Steps[object]:
            yield 0.0
            self.calls.append((paths.agent, name, dict(given), by))
            return self.answer

        def request(context: object, paths: Any, verb: str, target: str, *, by: str, text: str) -> Steps[str]:
            yield 0.0
            self.calls.append((paths.agent, verb, target, text, by))
            return "done"

        monkeypatch.setattr(live, "run_action", act)
        monkeypatch.setattr(requests, "request", request)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def point(number: int) -> Point:
    return Point(begins=f"b{number}", ends=f"e{number}")


@pytest.fixture
def root(root: Root) -> Root:
    """`worker` had four turns in one session of Claude Code."""
    record(root, "worker", *(body for number in (1, 2, 3, 4) for body in turn(number, "s1", point=point(number))))
    return root


def back(root: Root, to: str | None, what: str = "conversation", *, dry_run: bool = False) -> RewindResult:
    paths = root.place("worker")
    found: RewindResult = result(rewind.rewind(root.context, paths, to, what, dry_run=dry_run, by="ann"))
    return found


@pytest.mark.parametrize(
    ("to", "kept", "dropped"),
    [(None, 3, (4,)), ("1", 1, (2, 3, 4)), ("m-2", 2, (3, 4)), ("4", 4, ())],
)
def test_a_conversation_goes_back_to_a_turn_or_to_the_one_before_the_last(
    to: str | None, kept: int, dropped: tuple[int, ...], root: Root, asked: Asked
) -> None:
    expected = RewindResult(agent="worker", session_id="s1", to=kept, turns=dropped, conversation=True)
    assert back(root, to) == expected
    assert asked.calls == [("worker", "rewind", "s1", f'{{"upto":"e{kept}","to":{kept}}}', "ann")]


def test_files_go_back_to_what_they_were_before_the_first_turn_that_is_dropped(root: Root, asked: Asked) -> None:
    found = back(root, "2", "files")
    files = {"files": ("a.py", "b.py"), "lines_added": 3, "lines_removed": 4}
    assert found == RewindResult(agent="worker", session_id="s1", to=2, turns=(3, 4), conversation=False, **files)
    assert asked.calls == [
        ("worker", "rewind.files", {"to": "b3", "dry_run": True}, "ann"),
        ("worker", "rewind.files", {"to": "b3", "dry_run": False}, "ann"),
    ]


def test_both_go_back_the_files_first(root: Root, asked: Asked) -> None:
    assert back(root, "3", "both").conversation
    assert [call[1] for call in asked.calls] == ["rewind.files", "rewind.files", "rewind"]


@pytest.mark.parametrize(("what", "calls"), [("conversation", 0), ("files", 1), ("both", 1)])
def test_a_dry_run_changes_nothing(what: str, calls: int, root: Root, asked: Asked) -> None:
    found = back(root, "3", what, dry_run=True)
    assert found.dry_run and found.turns == (4,)
    assert asked.calls == [("worker", "rewind.files", {"to": "b4", "dry_run": True}, "ann")] * calls


@pytest.mark.parametrize("answer", [None, [], {}, {"files": None}])
def test_a_process_that_does_not_say_which_files_has_restored_none_that_is_known(
    answer: object, root: Root, asked: Asked
) -> None:
    asked.answer = answer
    found = back(root, "3", "files")
    assert (found.files, found.lines_added, found.lines_removed) == ((), None, None)


def test_where_no_turn_is_dropped_no_file_goes_back(root: Root, asked: Asked) -> None:
    assert back(root, "4", "files").files == () and asked.calls == []


def test_what_can_not_be_taken_back_is_reported(root: Root, asked: Asked) -> None:
    with refused(UsageError, "'all' can't be taken back", "one of: conversation, files, both", subject="all"):
        back(root, None, "all")
    with refused(NotFoundError, "'9' is no turn of worker's session", "its last turns are: 1, 2, 3, 4", subject="9"):
        back(root, "9")
    with pytest.raises(NotFoundError) as long:
        back(root, "9" * 121)
    assert long.value.subject == "9" * 120
    assert asked.calls == []


@pytest.mark.slow
def test_an_agent_without_a_session_or_with_one_turn_has_nothing_to_go_back_to(root: Root, asked: Asked) -> None:
    with refused(NotFoundError, "other has no session", "beam send other … starts one"):
        result(rewind.rewind(root.context, root.place("other"), None, "both", dry_run=False, by="ann"))
    record(root, "other", *turn(1, "s1"))
    said = "other has no turn to go back to in its session"
    with refused(NotFoundError, said, "beam agent reset other starts a new one"):
        result(rewind.rewind(root.context, root.place("other"), None, "both", dry_run=False, by="ann"))
    record(root, "other", events.SessionSelected(session_id="s2", adapter="claude"))
    with refused(NotFoundError, "'1' is no turn of other's session", "its last turns are: none", subject="1"):
        result(rewind.rewind(root.context, root.place("other"), "1", "both", dry_run=False, by="ann"))


@pytest.mark.slow
def test_only_the_last_ten_turns_are_named(root: Root) -> None:
    record(root, "worker", *(body for number in range(5, 13) for body in turn(number, "s1", point=point(number))))
    last = "its last turns are: 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"
    with refused(NotFoundError, "'99' is no turn of worker's session", last, subject="99"):
        back(root, "99")


@pytest.mark.slow
def test_turns_that_were_taken_back_do_not_count_and_others_sessions_neither(root: Root, asked: Asked) -> None:
    taken_back = events.SessionRewound(session_id="s1", upto="e1", to=1)
    record(root, "worker", taken_back, events.SessionRewound(session_id="s2", upto="e1", to=0))
    record(root, "worker", *turn(5, "s1", point=point(5)))
    assert (back(root, None).to, back(root, "1").turns) == (1, (5,))
    record(root, "worker", events.SessionRewound(session_id="s1", upto="x"))
    with pytest.raises(NotFoundError, match="no turn to go back to"):
        back(root, None)


@pytest.mark.slow
def test_a_cli_that_does_not_tell_where_a_turn_ends_can_not_go_back_to_it(root: Root, asked: Asked) -> None:
    record(root, "worker", *turn(5, "s1", point=Point(ends="e5")), *turn(6, "s1"), *turn(7, "s1"))
    said = "claude did not report where that turn ends, so nothing changes"
    with refused(
        UnsupportedError, said, "turns in dialogue mode report this: beam send --via dialogue", subject="worker"
    ):
        back(root, "6")
    said = "nobody knows which files turn 6 of worker began with"
    with refused(
        UnsupportedError, said, "turns in dialogue mode report this: beam send --via dialogue", subject="worker"
    ):
        back(root, "5", "both")
    assert asked.calls == []


@pytest.mark.slow
def test_a_cli_that_can_not_go_back_is_said_to(root: Root) -> None:
    record(root, "other", *(body for n in (1, 2) for body in turn(n, "s1", adapter="gemini", point=point(n))))
    said = "gemini can't go back to an earlier turn, so nothing changes"
    with refused(UnsupportedError, said, "beam agent list --matrix", subject="other"):
        result(rewind.rewind(root.context, root.place("other"), "1", "both", dry_run=False, by="ann"))


def test_the_end_of_a_turn_is_known_by_its_number_or_its_message(root: Root) -> None:
    paths = root.place("worker")
    assert [last_message_id(paths, "s1", at, "claude") for at in ("2", "m-3")] == ["e2", "e3"]
    with pytest.raises(NotFoundError):
        last_message_id(paths, "s2", "2", "claude")
