"""Who is there: looks and the events since."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from beam import events
from beam.board.rows import Everyone, agent_key, rows_of
from beam.model.outcome import Status, Usage
from tests.board.made import PROJECT, agent, running, snapshot, story, team, ts
from tests.board.made import head as header

BUILDER = agent_key(PROJECT, "builder")


def seen(before_s: float = 100) -> Everyone:
    everyone = Everyone()
    everyone.replace(snapshot(before_s=before_s))
    return everyone


def test_everyone_has_a_row_and_who_asks_comes_first() -> None:
    rows = seen().rows()
    assert [(row.kind, row.name, row.state) for row in rows] == [
        ("agent", "asker", "asking"),
        ("agent", "builder", "running"),
        ("member", "alice", "working"),
        ("session", "codex~c0de", "working"),
        ("agent", "writer", "idle"),
        ("member", "bob", "idle"),
    ]


def test_what_an_event_says_counts_at_once() -> None:
    everyone = seen()
    for each in story():
        everyone.apply(each.key, each.event)
    row = everyone.get(BUILDER)
    assert row is not None and (row.state, row.since, row.tool) == ("running", ts(75), "")
    everyone.apply(BUILDER, events.TurnFinished(**header("builder", 10), status=Status.COMPLETED))
    row = everyone.get(BUILDER)
    assert row is not None and (row.state, row.message_id) == ("idle", None)


def test_an_event_from_before_the_look_changes_nothing_again() -> None:
    everyone = seen(before_s=5)
    before = everyone.get(BUILDER)
    everyone.apply(BUILDER, events.TurnFinished(**header("builder", 10), status=Status.COMPLETED, cost_usd=0.5))
    assert everyone.get(BUILDER) == before


def test_a_look_that_began_before_an_event_does_not_take_back_what_the_event_said() -> None:
    everyone = seen()
    everyone.apply(BUILDER, events.TurnFinished(**header("builder", 10), status=Status.COMPLETED))
    everyone.replace(snapshot(before_s=20))
    row = everyone.get(BUILDER)
    assert row is not None and row.state == "idle"
    everyone.replace(snapshot(before_s=5))
    row = everyone.get(BUILDER)
    assert row is not None and row.state == "running"


def test_an_ask_is_open_until_it_is_decided() -> None:
    everyone = seen()
    everyone.apply(BUILDER, events.PermissionAsked(**header("builder", 9), ask_id="x", tool="Bash", expires=ts(-60)))
    assert everyone.rows()[1].state == "asking"
    everyone.apply(BUILDER, events.PermissionDecided(**header("builder", 8), ask_id="x", decision="deny"))
    row = everyone.get(BUILDER)
    assert row is not None and (row.state, row.asks) == ("running", ())


def test_an_ask_that_beam_decides_at_once_is_none_for_a_person() -> None:
    everyone = seen()
    everyone.apply(BUILDER, events.PermissionAsked(**header("builder", 9), ask_id="x", tool="Bash"))
    row = everyone.get(BUILDER)
    assert row is not None and row.state == "running"


def test_the_figures_of_a_running_turn_are_in_its_row() -> None:
    line = agent("now", "running", running=running(usage=Usage(output_tokens=50), cost_usd=0.5))
    row = next(row for row in rows_of(snapshot(line)) if row.name == "now")
    assert (row.tokens, row.cost_usd) == (1250, 0.75)


@pytest.mark.parametrize("known", [{"session_id": "5e55"}, {"pid": 42}, {"team": "docs"}])
def test_the_session_of_a_teams_lead_or_member_is_no_second_row(known: dict[str, Any]) -> None:
    shown = team().shown
    shown = structs.replace(shown, team=structs.replace(shown.team, session_id="5e55", lead_pid=42))
    (session,) = snapshot().sessions
    other = structs.replace(session, pid=7)
    mine = structs.replace(other, **known)
    assert [row.kind for row in rows_of(snapshot(sessions=[mine], teams=[shown]))].count("session") == 0
    assert [row.kind for row in rows_of(snapshot(sessions=[mine], teams=[]))].count("session") == 1
    assert [row.kind for row in rows_of(snapshot(sessions=[other], teams=[shown]))].count("session") == 1


def test_a_session_of_another_asks_until_it_is_answered_or_over() -> None:
    everyone = Everyone()
    everyone.replace(snapshot())
    (row,) = (each for each in everyone.rows() if each.kind == "session")

    def after(event: Any) -> str:
        everyone.apply(row.key, event)
        found = everyone.get(row.key)
        assert found is not None
        return found.state

    asked = events.PermissionAsked(**header(row.key, -1), ask_id="a", tool="shell")
    assert after(asked) == "asking"
    assert after(events.PermissionDecided(**header(row.key, -1), ask_id="a", decision="allow")) == "working"
    assert after(asked) == "asking"
    assert after(events.SessionIdle(**header(row.key, -1))) == "idle"
    assert after(events.PermissionDecided(**header(row.key, -1), ask_id="a", decision="cancelled")) == "idle"
