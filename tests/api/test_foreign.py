"""Which sessions are beam's own: those in which a turn of beam's runs, while it does."""

from __future__ import annotations

import json
from pathlib import Path

from beam.agents.session_files import Session
from beam.api.foreign import OwnTurns, teams_led
from beam.model.events import Owner, SessionStarted, TurnFinished, TurnStarted
from beam.model.outcome import Status

BEGAN, DURING, ENDED, LATER = (f"2026-11-24T10:0{minute}:00.000000Z" for minute in (0, 1, 2, 3))
SESSION = Session(id="s-1", cwd="/p")


def started(adapter: str = "claude") -> TurnStarted:
    return TurnStarted(ts=BEGAN, owner=Owner(pid=1, start_ticks=1), turn_key="k", adapter=adapter, via="exec")


def test_a_session_is_beams_while_a_turn_runs_in_it_and_foreign_before_and_after() -> None:
    own = OwnTurns()
    own.take("a", [started(), SessionStarted(ts=DURING, session_id="s-1")])
    own.take("a", [TurnFinished(ts=ENDED, status=Status.COMPLETED)])
    assert own.is_own("claude", SESSION, DURING) is True
    assert own.is_own("claude", SESSION, "2026-11-24T09:00:00.000000Z") is False
    assert own.is_own("claude", SESSION, LATER) is False
    assert own.is_own("codex", SESSION, DURING) is False
    assert own.is_own("claude", Session(id="other"), DURING) is False


def test_a_subagent_of_beams_session_is_beams() -> None:
    own = OwnTurns()
    own.take("a", [started(), SessionStarted(ts=DURING, session_id="s-1")])
    assert own.is_own("claude", Session(id="agent-1", root_id="s-1"), DURING) is True


def test_while_a_turn_has_not_said_its_session_nobody_knows() -> None:
    own = OwnTurns()
    own.take("a", [started()])
    assert own.is_own("claude", SESSION, DURING) is None
    assert own.is_own("codex", SESSION, DURING) is False
    own.take("a", [SessionStarted(ts=DURING, session_id="s-2")])
    assert own.is_own("claude", SESSION, DURING) is False


def test_a_journal_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    own = OwnTurns()
    own.begin("a", tmp_path / "none")
    assert own.is_own("claude", SESSION, DURING) is False


def test_the_session_that_leads_a_team_is_known_by_its_configuration(tmp_path: Path) -> None:
    assert teams_led({"HOME": str(tmp_path)}) == {}
    for name, session in (("crew", "s-1"), ("half", "")):
        folder = tmp_path / ".claude" / "teams" / name
        folder.mkdir(parents=True)
        lead = {"name": "team-lead", "agentId": f"team-lead@{name}"}
        team = {"name": name, "leadAgentId": lead["agentId"], "leadSessionId": session, "members": [lead]}
        (folder / "config.json").write_text(json.dumps(team))
    assert teams_led({"HOME": str(tmp_path)}) == {"s-1": "crew"}
