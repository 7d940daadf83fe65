"""What a finished call of a team's tool proves."""

from __future__ import annotations

from typing import Any

import pytest

from beam.teams.records import Call, Proof, proof


def call(name: str, given: dict[str, Any], record: dict[str, Any]) -> Proof:
    return proof(Call(name=name, call_id="c", by="bob", at_ns=5, source="transcript", input=given, record=record))


@pytest.mark.parametrize(
    ("given", "record"),
    [({"taskId": "3"}, {}), ({"taskId": "3"}, {"success": False}), ({}, {"success": True})],
)
def test_a_change_of_a_task_that_was_not_made_proves_nothing(given: dict[str, Any], record: dict[str, Any]) -> None:
    assert call("TaskUpdate", given, record) == Proof()


def test_a_change_of_a_task_is_told_with_who_made_it_and_what_it_changed() -> None:
    record = {"success": True, "updatedFields": ["status", "owner"], "statusChange": {"to": "completed"}}
    change = call("TaskUpdate", {"taskId": "3", "owner": "eve"}, record).change
    assert change is not None
    assert (change.task_id, change.by, change.status, change.owner) == ("3", "bob", "completed", "eve")
    assert change.fields == ("status", "owner")


@pytest.mark.parametrize(("pane", "backend", "shown"), [("%7", "tmux", "%7"), ("in-process", "in-process", "")])
def test_a_member_that_was_started_has_its_pane_only_in_tmux(pane: str, backend: str, shown: str) -> None:
    record = {"status": "teammate_spawned", "name": "eve", "tmux_pane_id": pane}
    spawned = call("Agent", {}, record).spawned
    assert spawned is not None
    assert (spawned.name, spawned.backend, spawned.pane) == ("eve", backend, shown)


def test_an_agent_that_is_no_member_proves_nothing() -> None:
    assert call("Agent", {}, {"status": "completed", "name": "eve"}) == Proof()
    assert call("Agent", {}, {"status": "teammate_spawned"}) == Proof()
