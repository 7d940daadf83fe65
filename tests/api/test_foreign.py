"""Which sessions are beam's own: those in which a turn of beam's runs, while it does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from beam.agents.session_files import Session
from beam.api import foreign
from beam.api.foreign import ForeignSessions, OwnTurns, teams_by_lead_session
from beam.foreign import programs
from beam.foreign.standing import ForeignStatus
from beam.foreign.watch import ForeignEvent
from beam.model.events import (
    Owner,
    SessionStarted,
    Text,
    ToolCalled,
    TurnClosed,
    TurnFinished,
    TurnStarted,
)
from beam.model.outcome import Status
from tests.support.context import Root
from tests.support.journals import record, turn
from tests.support.journals import started as begun

BEGAN, DURING, ENDED, LATER = (f"2026-11-24T10:0{minute}:00.000000Z" for minute in (0, 1, 2, 3))
SESSION = Session(id="s-1", cwd="/p")


def started(adapter: str = "claude") -> TurnStarted:
    return TurnStarted(ts=BEGAN, owner=Owner(pid=1, start_ticks=1), turn_key="k", adapter=adapter, via="exec")


def test_a_session_is_beams_while_a_turn_runs_in_it_and_foreign_before_and_after() -> None:
    own = OwnTurns()
    own.record_events("a", [started(), SessionStarted(ts=DURING, session_id="s-1")])
    own.record_events("a", [TurnFinished(ts=ENDED, status=Status.COMPLETED)])
    assert own.is_own("claude", SESSION, DURING) is True
    assert own.is_own("claude", SESSION, "2026-11-24T09:00:00.000000Z") is False
    assert own.is_own("claude", SESSION, LATER) is False
    assert own.is_own("codex", SESSION, DURING) is False
    assert own.is_own("claude", Session(id="other"), DURING) is False


def test_a_subagent_of_beams_session_is_beams() -> None:
    own = OwnTurns()
    own.record_events("a", [started(), SessionStarted(ts=DURING, session_id="s-1")])
    assert own.is_own("claude", Session(id="agent-1", root_id="s-1"), DURING) is True


def test_while_a_turn_has_not_said_its_session_nobody_knows() -> None:
    own = OwnTurns()
    own.record_events("a", [started()])
    assert own.is_own("claude", SESSION, DURING) is None
    assert own.is_own("codex", SESSION, DURING) is False
    own.record_events("a", [SessionStarted(ts=DURING, session_id="s-2")])
    assert own.is_own("claude", SESSION, DURING) is False


def test_a_journal_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    own = OwnTurns()
    own.begin("a", tmp_path / "none")
    assert own.is_own("claude", SESSION, DURING) is False


def test_the_session_that_leads_a_team_is_known_by_its_configuration(tmp_path: Path) -> None:
    assert teams_by_lead_session({"HOME": str(tmp_path)}) == {}
    for name, session in (("crew", "s-1"), ("half", "")):
        folder = tmp_path / ".claude" / "teams" / name
        folder.mkdir(parents=True)
        lead = {"name": "team-lead", "agentId": f"team-lead@{name}"}
        team = {"name": name, "leadAgentId": lead["agentId"], "leadSessionId": session, "members": [lead]}
        (folder / "config.json").write_text(json.dumps(team))
    assert teams_by_lead_session({"HOME": str(tmp_path)}) == {"s-1": "crew"}


# -- the stream --------------------------------------------------------------------------------------------------------


class Watched:
    """Stands in for what is read of CLIs' own files, and for the teams."""

    wake = "wake"

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.batches: list[list[ForeignEvent]] = []
        self.of_teams: list[tuple[str, str]] = []
        self.is_closed = False

    def __call__(self, environ: Any, **given: Any) -> Watched:
        self.given = {"environ": environ, **given}
        return self

    def poll(self) -> list[ForeignEvent]:
        return self.batches.pop(0) if self.batches else []

    def close(self) -> None:
        self.is_closed = True

    def has_session(self, session_id: str, path: str) -> bool:
        return (session_id, path) in self.of_teams


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    made = Watched()
    monkeypatch.setattr(foreign, "ForeignWatcher", made)
    return made


def happened(at: str = DURING, session: Session = SESSION, event: Any = None, path: str = "/f") -> ForeignEvent:
    return ForeignEvent(event or Text(ts=at, agent="?", text="hi"), "claude", session, path)


def test_events_of_foreign_sessions_are_reported_with_their_session(watched: Watched) -> None:
    stream = ForeignSessions({"HOME": "/h"}, watched)  # type: ignore[arg-type]
    assert watched.given == {
        "environ": {"HOME": "/h"},
        "wake": "wake",
        "since_ns": None,
        "running": programs.working_folders,
    }
    child = Session(id="s-9", root_id="s-1")
    called = ToolCalled(ts=DURING, call_id="c", name="Bash", input=Raw(b"{}"))
    watched.batches = [[happened(), happened(session=child), happened(session=child, event=called)]]
    first, second, third = stream.poll(watched)  # type: ignore[arg-type]
    assert (first.event.agent, first.session) == ("claude~s-1", SESSION)
    assert (second.event.agent, second.session) == ("claude~s-1", child)
    assert (third.event.agent, getattr(third.event, "parent", "s-9")) == ("claude~s-1", "s-9")
    stream.close()
    assert watched.is_closed
    ForeignSessions({}, watched, since="1970-01-01T00:00:01Z")  # type: ignore[arg-type]
    assert watched.given["since_ns"] == 1_000_000_000


def test_members_of_teams_and_beams_own_turns_are_left_out(watched: Watched) -> None:
    stream = ForeignSessions({}, watched)  # type: ignore[arg-type]
    stream.record_own_events("a", [started(), SessionStarted(ts=DURING, session_id="own")])
    watched.of_teams = [("s-2", "/f"), ("s-3", "/g")]
    sessions = [
        Session(id="s-1", member_of="crew"),
        Session(id="s-2"),
        Session(id="s-9", root_id="s-2"),
        Session(id="s-3"),
        Session(id="own"),
        Session(id="s-4"),
    ]
    watched.batches = [[happened(session=each) for each in sessions]]
    assert [one.session.id for one in stream.poll(watched)] == ["s-3", "s-4"]  # type: ignore[arg-type]


def test_what_may_be_beams_own_waits_until_that_is_known_or_half_a_minute_passed(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(foreign.time, "monotonic", lambda: now[0])
    stream = ForeignSessions({}, watched)  # type: ignore[arg-type]
    stream.record_own_events("a", [started()])
    watched.batches = [[happened()], [happened(session=Session(id="s-2"))]]
    assert stream.poll(watched) == []  # type: ignore[arg-type]
    now[0] = 129.9
    assert stream.poll(watched) == []  # type: ignore[arg-type]
    now[0] = 130.0
    assert [one.session.id for one in stream.poll(watched)] == ["s-1"]  # type: ignore[arg-type]
    stream.record_own_events("a", [SessionStarted(ts=DURING, session_id="s-2")])
    assert stream.poll(watched) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("at", "is_own"),
    [
        ("2026-11-24T09:59:57.900000Z", False),
        ("2026-11-24T09:59:58.000000Z", True),
        ("2026-11-24T10:02:05.000000Z", True),
        ("2026-11-24T10:02:05.100000Z", False),
    ],
)
def test_a_turn_has_a_moment_before_and_after_it(at: str, is_own: bool) -> None:
    own = OwnTurns()
    own.record_events("a", [started(), SessionStarted(resumed=True, ts=DURING, session_id="s-1")])
    own.record_events("a", [TurnFinished(ts=ENDED, status=Status.COMPLETED), TurnClosed(ts=LATER)])
    assert own.is_own("claude", SESSION, at) is is_own


def test_a_turn_that_ended_without_a_session_opened_none() -> None:
    own = OwnTurns()
    own.record_events("a", [started(), TurnFinished(ts=ENDED, status=Status.FAILED)])
    assert own.is_own("claude", SESSION, DURING) is False


def test_a_turn_is_known_once_however_often_it_is_read_and_the_last_two_hundred_are_kept() -> None:
    own = OwnTurns()
    own.record_events("a", [started(), SessionStarted(ts=DURING, session_id="s-1"), started()])
    assert own.is_own("claude", SESSION, DURING) is True
    for number in range(200):
        ts = f"2026-11-25T10:{number // 60:02}:{number % 60:02}.000000Z"
        own.record_events(
            "a", [TurnStarted(ts=ts, owner=Owner(pid=1, start_ticks=1), turn_key="k", adapter="x", via="exec")]
        )
    assert own.is_own("claude", SESSION, DURING) is False


def test_a_turn_that_runs_when_a_journal_is_opened_is_known(root: Root) -> None:
    record(root, "worker", *turn(1, "s-1"), begun(2, "m-2", adapter="claude"))
    own = OwnTurns()
    own.begin("a", root.place("worker").journal)
    at = "2023-11-14T22:13:20.000000Z"
    assert own.is_own("claude", SESSION, at) is True
    assert own.is_own("claude", Session(id="s-2"), at) is False
    record(root, "other", begun(1, "m-1", adapter="claude"))
    own.begin("b", root.place("other").journal)
    assert own.is_own("claude", Session(id="s-2"), at) is None


# -- as they stand -----------------------------------------------------------------------------------------------------


def test_living_sessions_are_reported_but_those_of_beams_own_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: dict[str, Any] = {
        "pid": 7,
        "folder": "/p",
        "state": "asking",
        "state_since": ENDED,
        "is_asking": True,
        "model": "m",
        "prompt": "do it",
        "doing": "Bash ls",
        "tokens": 5,
        "cost_usd": 0.5,
        "is_estimate": True,
    }
    living = [
        ForeignStatus(cli="claude", session_id="s-1", since="", **whole),
        ForeignStatus(cli="claude", session_id="s-2", since="", team="crew", **whole),
        ForeignStatus(cli="codex", session_id="s-3", since="", **whole),
    ]
    monkeypatch.setattr("beam.foreign.standing.running_sessions", lambda environ: living)
    monkeypatch.setattr(foreign, "teams_by_lead_session", lambda environ: {"s-1": "led", "s-2": "led"})
    assert foreign.foreign_status({}, [("codex", "s-3"), ("claude", "s-9")]) == [
        ForeignStatus(cli="claude", session_id="s-1", since="", team="led", **whole),
        ForeignStatus(cli="claude", session_id="s-2", since="", team="crew", **whole),
    ]
    living.clear()
    monkeypatch.setattr(
        foreign, "teams_by_lead_session", lambda environ: pytest.fail("nobody looks at teams for nobody")
    )
    assert foreign.foreign_status({}) == []
