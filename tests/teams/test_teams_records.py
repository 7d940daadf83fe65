"""What a finished call of a team's tool proves."""

from __future__ import annotations

from typing import Any

import pytest

from beam.teams.model import Mail, Member
from beam.teams.records import Call, Proof, proof
from beam.teams.tasks import Change


def call(name: str, given: dict[str, Any], record: dict[str, Any]) -> Proof:
    return proof(Call(name=name, call_id="c", by="bob", at_ns=5, source="transcript", input=given, record=record))


@pytest.mark.parametrize(
    ("given", "record"),
    [({"taskId": "3"}, {}), ({"taskId": "3"}, {"success": False}), ({}, {"success": True})],
)
def test_a_change_of_a_task_that_was_not_made_proves_nothing(given: dict[str, Any], record: dict[str, Any]) -> None:
    assert call("TaskUpdate", given, record) == Proof()


def test_a_change_of_a_task_is_reported_with_who_made_it_and_what_it_changed() -> None:
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


ROUTING = {"sender": "ann", "target": "@eve", "content": "hi", "summary": "s", "senderColor": "red"}
SENT = {"to": "eve2", "message": "hello", "summary": "given"}


def changed(task_id: str, **more: Any) -> Proof:
    return Proof(change=Change(task_id=task_id, at_ns=5, by="bob", source="transcript", **more))


def mailed(to: str, failed: str = "", **more: Any) -> Proof:
    given = {"id": "m", "sender": "bob", "text": "hello", "summary": "given", "sent_ns": 5}
    return Proof(mail=Mail(**{**given, **more}), to=to, failed=failed)


ROUTED = {"sender": "ann", "text": "hi", "summary": "s", "colour": "red"}
EVE = {
    "status": "teammate_spawned",
    "name": "eve",
    "agent_id": "eve@t",
    "agent_type": "tester",
    "model": "haiku",
    "color": "red",
    "tmux_pane_id": "%3",
    "prompt": "go",
}
MADE = Member(
    name="eve",
    agent_id="eve@t",
    kind="tester",
    model="haiku",
    colour="red",
    backend="tmux",
    pane="%3",
    prompt="go",
)
NEW = {"subject": "given", "description": "d"}


@pytest.mark.parametrize(
    ("name", "given", "record", "proved"),
    [
        (
            "TaskCreate",
            NEW,
            {"task": {"id": "4", "subject": "s"}},
            changed("4", created=True, subject="s", description="d"),
        ),
        ("TaskCreate", NEW, {"task": {"id": "4"}}, changed("4", created=True, subject="given", description="d")),
        ("TaskCreate", NEW, {"task": {}}, Proof()),
        (
            "TaskUpdate",
            {"taskId": "3", "owner": "eve"},
            {"success": True, "updatedFields": ["subject"]},
            changed("3", fields=("subject",)),
        ),
        (
            "TaskUpdate",
            {"taskId": "3", "owner": "eve"},
            {"success": True, "taskId": "4", "updatedFields": ["owner"]},
            changed("4", owner="eve", fields=("owner",)),
        ),
        (
            "TaskUpdate",
            {"taskId": "3", "owner": ""},
            {"success": True, "updatedFields": ["owner"]},
            changed("3", fields=("owner",)),
        ),
        (
            "TaskUpdate",
            {},
            {"success": True, "taskId": "4", "statusChange": {"to": "held"}},
            changed("4", status="held"),
        ),
        ("SendMessage", SENT, {"msg_id": "m", "routing": ROUTING}, mailed("eve", **ROUTED)),
        ("SendMessage", SENT, {"msg_id": "m", "target": "tom"}, mailed("tom")),
        (
            "SendMessage",
            {"to": "eve", "content": "old", "message": {"type": "x"}},
            {"msg_id": "m"},
            mailed("eve", text="old", summary=""),
        ),
        (
            "SendMessage",
            SENT,
            {"success": False, "message": "no such member"},
            mailed("eve2", "no such member", id="c"),
        ),
        ("SendMessage", SENT, {"success": False}, mailed("eve2", "it was refused", id="c")),
        (
            "SendMessage",
            SENT,
            {"success": True, "routing": ROUTING},
            mailed("eve", "its inbox was locked; the sender was told that it was sent", id="c", **ROUTED),
        ),
        ("SendMessage", SENT, {"success": True}, Proof()),
        ("SendMessage", SENT, {"routing": ROUTING}, Proof()),
        ("Task", {}, EVE, Proof(spawned=MADE)),
        (
            "Agent",
            {},
            {"status": "teammate_spawned", "name": "eve"},
            Proof(spawned=Member(name="eve", backend="in-process")),
        ),
        ("Bash", {"taskId": "3"}, {"success": True, "msg_id": "m", "task": {"id": "4"}}, Proof()),
    ],
)
def test_what_a_call_proves_is_told_whole(
    name: str, given: dict[str, Any], record: dict[str, Any], proved: Proof
) -> None:
    assert call(name, given, record) == proved
