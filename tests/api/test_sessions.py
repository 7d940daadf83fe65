"""Sessions as they are listed, chosen and begun."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from beam.api import lock_wait, sessions
from beam.api.sessions import SessionLine, begin_in_session, parse_session, resume, session_lines
from beam.base.clock import Steps
from beam.base.errors import NotFoundError, UnfinishedError, UnsupportedError, UsageError
from beam.broker.asking import requests
from beam.model import events
from beam.store.lock import try_lock
from tests.support.context import Root
from tests.support.journals import closed, finished, record, result, started, turn
from tests.support.refused import refused

TS = "2023-11-14T22:13:20.000000Z"


def line(session_id: str | None, **fields: Any) -> SessionLine:
    given = {"agent": "worker", "adapter": "claude", "state": "earlier", **fields}
    return SessionLine(session_id=session_id, **given)


def queued(message_id: str, text: str) -> events.MessageQueued:
    return events.MessageQueued(message_id=message_id, sender="human", text=text, digest="d")


@pytest.mark.slow
def test_the_sessions_of_an_agent_are_listed_oldest_first_with_their_first_prompts(root: Root) -> None:
    record(root, "worker", queued("m-1", "x" * 201), *turn(1, "s1"))
    record(root, "worker", queued("m-2", "and then"), *turn(2, "s1"))
    record(root, "worker", events.SessionArchived(session_id="s1"), queued("m-3", "anew"))
    root.clock.sleep(1)
    record(root, "worker", started(3, "m-3", adapter="codex"))
    record(root, "worker", events.SessionStarted(session_id="s2", turn=3, message_id="m-3"))
    later = "2023-11-14T22:13:21.000000Z"
    assert session_lines(root.place("worker")) == [
        line("s1", turns=2, started_at=TS, last_at=TS, first="x" * 200),
        line("s2", adapter="codex", state="current", started_at=later, first="anew"),
    ]


def test_a_session_that_its_cli_renumbers_or_loses_is_told_so(root: Root) -> None:
    record(root, "worker", *turn(1, "s1"), *turn(2, "s1-again"))
    (only,) = session_lines(root.place("worker"))
    assert only == line("s1-again", turns=2, started_at=TS, last_at=TS, state="current")
    record(root, "worker", events.SessionLost(session_id="s1-again"), events.SessionLost(session_id="s0"))
    (only,) = session_lines(root.place("worker"))
    assert (only.session_id, only.state) == ("s1-again", "lost")


def test_a_session_that_a_person_chose_is_the_current_one(root: Root) -> None:
    record(root, "worker", *turn(1, "s1"), events.SessionLost(session_id="s1"))
    record(root, "worker", events.SessionSelected(session_id="s1", adapter="claude"))
    record(root, "worker", events.SessionSelected(session_id="s0", adapter="claude"))
    assert [(each.session_id, each.state) for each in session_lines(root.place("worker"))] == [
        ("s1", "earlier"),
        ("s0", "current"),
    ]


def test_a_fork_that_has_not_begun_is_listed_with_the_session_that_it_copies(root: Root) -> None:
    record(root, "worker", events.SessionForked(session_id="s1", of="other", adapter="codex"))
    assert session_lines(root.place("worker")) == [line("s1", adapter="codex", state="current")]


def test_sessions_of_a_journal_whose_beginning_is_gone_are_listed_by_their_ids(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(root, "worker", *turn(1, "s1"), events.SessionArchived(session_id="s1"), *turn(1, "s2"))
    monkeypatch.setattr(sessions, "Reader", lambda _: SimpleNamespace(poll=list))
    found = session_lines(root.place("worker"))
    assert found == [line("s2", state="current"), line("s1", adapter="")]


def test_a_damaged_journal_and_an_archived_agent_are_reported_in_each_line(root: Root) -> None:
    record(root, "worker", *turn(1, "s1"))
    place = root.place("worker")
    place.archived.touch()
    assert session_lines(place) == [line("s1", turns=1, started_at=TS, last_at=TS, state="current", archived=True)]
    (segment,) = place.journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n")
    (only,) = session_lines(place)
    assert (only.session_id, only.state, only.adapter, only.archived) == (None, "none", "", True)
    assert only.error and "damaged" in only.error


def test_all_agents_or_some_with_their_named_sessions_are_listed(root: Root) -> None:
    for name in ("box", "worker", "worker@a"):
        root.place(name)
    listed = [[each.agent for each in sessions.sessions(root.context, names)] for names in ([], ["worker"], ["box"])]
    assert listed == [["box", "worker", "worker@a"], ["worker", "worker@a"], ["box"]]
    assert [each.agent for each in sessions.sessions(root.context, ["worker@a"])] == ["worker@a"]


# -- choosing ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the holder was asked for."""
    found: list[Any] = []

    def request(context: object, paths: Any, verb: str, target: str, **given: Any) -> Steps[str]:
        yield 0.0
        found.append((paths.agent, verb, target, given))
        return target

    monkeypatch.setattr(requests, "request", request)
    return found


@pytest.fixture
def coder(root: Root) -> Root:
    """`coder` is Claude Code, and had three sessions."""
    (root.base / "beam.yaml").write_text("agents:\n  coder: {adapter: claude}\n  tool: {adapter: aider}\n")
    root.reload()
    for session_id in ("abcd-1", "abcd-2", "xyz"):
        record(root, "coder", *turn(1, session_id))
    return root


@pytest.mark.slow
@pytest.mark.parametrize(("given", "whole"), [("abcd-1", "abcd-1"), ("abcd-", None), ("xyz", "xyz")])
def test_an_earlier_session_is_chosen_by_its_id_or_a_beginning(
    given: str, whole: str | None, coder: Root, asked: list[Any]
) -> None:
    if whole is None:
        said = "abcd- names 2 sessions of coder"
        with refused(UsageError, said, "beam agent sessions coder", subject="abcd-"):
            result(resume(coder.context, "coder", given, by="ann"))
        return
    assert result(resume(coder.context, "coder", given, by="ann")) == whole
    assert asked == [("coder", "select", whole, {"by": "ann", "text": "claude"})]


@pytest.mark.slow
def test_four_characters_are_enough_and_three_are_not(coder: Root, asked: list[Any]) -> None:
    record(coder, "coder", *turn(1, "efghij"))
    assert result(resume(coder.context, "coder", "efgh", by="ann")) == "efghij"
    with refused(NotFoundError, "coder was never in a session efg", "beam agent sessions coder", subject="efg"):
        result(resume(coder.context, "coder", "efg", by="ann"))
    with pytest.raises(NotFoundError) as long:
        result(resume(coder.context, "coder", "z" * 81, by="ann"))
    assert long.value.subject == "z" * 80


@pytest.mark.slow
def test_a_session_of_another_adapter_is_another_agents(coder: Root, asked: list[Any]) -> None:
    record(coder, "coder", *turn(1, "other-1", adapter="codex"))
    with refused(
        UsageError,
        "session other-1 is one of codex, and coder is claude now",
        "beam agent add NEW --session codex:other-1",
        subject="other-1",
    ):
        result(resume(coder.context, "coder", "other-1", by="ann"))
    assert asked == []


@pytest.mark.slow
def test_a_cli_that_resumes_none_is_said_to(coder: Root, asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    (coder.base / "beam.yaml").write_text("agents:\n  coder: {adapter: mailbox}\n")
    coder.reload()
    record(coder, "coder", *turn(1, "pipe-1", adapter="mailbox"))
    said = "coder can't continue in an earlier session: mailbox can't resume one"
    hint = "beam agent list --matrix shows which agents can"
    with refused(UnsupportedError, said, hint, subject="coder"):
        result(resume(coder.context, "coder", "pipe-1", by="ann"))
    with refused(UnsupportedError, said.replace("coder", "new"), hint, subject="new"):
        begin_in_session(coder.context, "new", "mailbox", "s1", by="ann", env={}, declare=list)


# -- beginning in one --------------------------------------------------------------------------------------------------


def test_a_session_is_named_by_its_adapter_and_its_id() -> None:
    assert parse_session("claude:abc-d") == ("claude", "abc-d")
    hint = "for example: claude:0b0e6f9c-…; beam agent list --all names adapters"
    for given in ("claude", "nothing:abc", ":abc", "claude-abc"):
        with refused(UsageError, f"{given!r} is not ADAPTER:ID", hint):
            parse_session(given)
    with pytest.raises(UsageError):
        parse_session("claude:")


def test_a_new_agent_begins_in_the_session(root: Root) -> None:
    done = begin_in_session(root.context, "new", "claude", "s1", by="ann", env={}, declare=list)
    assert (done.session_id, done.adapter, done.events, done.left_out) == ("s1", "claude", 0, None)
    imported, selected = root.events("new")
    assert isinstance(selected, events.SessionSelected)
    assert imported == done and (selected.session_id, selected.adapter, selected.by) == ("s1", "claude", "ann")


def test_the_past_is_looked_for_with_the_agents_own_variables(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr("beam.foreign.past.past_events", lambda *args, **kwargs: given.append((args, kwargs)))
    begin_in_session(root.context, "new", "claude", "s1", by="ann", env={"CLAUDE_CONFIG_DIR": "/c"}, declare=list)
    environ = {**root.environ, "CLAUDE_CONFIG_DIR": "/c"}
    assert given == [(("claude", "s1"), {"folder": str(root.base), "environ": environ})]


@pytest.mark.slow
def test_a_session_of_an_agent_is_one_of_its_adapter(coder: Root) -> None:
    with refused(
        UsageError,
        "coder@a is claude, and the session is one of codex",
        "give it a name of its own: beam agent add NAME --session …",
        subject="coder@a",
    ):
        begin_in_session(coder.context, "coder@a", "codex", "s1", by="ann", env={}, declare=list)
    assert begin_in_session(coder.context, "coder@a", "claude", "s1", by="ann", env={}, declare=list).session_id == "s1"


@pytest.mark.parametrize("used", ["turn", "session", "fork", "waiting", "claimed", "known"])
def test_an_agent_that_was_used_begins_in_no_other_session(used: str, root: Root) -> None:
    if used in ("waiting", "claimed"):
        root.put("new")
        if used == "claimed":
            (path,) = (root.place("new").queue / "new").iterdir()
            path.rename(path.parent.parent / "cur" / path.name)
    else:
        bodies: dict[str, list[events.Event]] = {
            "turn": [started(), finished(), closed()],
            "session": [events.SessionSelected(session_id="s0", adapter="claude")],
            "fork": [events.SessionForked(session_id="s1", of="other", adapter="claude")],
            "known": [queued("new-1", "x")],
        }
        record(root, "new", *bodies[used])
    before = root.events("new")
    with refused(UsageError, "there is already an agent new here", "give the agent another name", subject="new"):
        begin_in_session(root.context, "new", "claude", "s1", by="ann", env={}, declare=list)
    assert root.events("new") == before


def test_an_agent_that_somebody_uses_at_this_moment_is_left_to_them(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_wait, "_TIMEOUT_S", 0.0)
    lock = try_lock(root.place("new").lock)
    assert lock is not None
    with (
        lock,
        refused(
            UnfinishedError, "another process uses new at this moment", "give the agent another name", subject="new"
        ),
    ):
        begin_in_session(root.context, "new", "claude", "s1", by="ann", env={}, declare=list)
