"""Derives from the record of a tool call what the call proves about a team: a task changed, a member was created, or a
message was sent. The record comes from a transcript or a hook.

Does not depend on files, clocks or teams.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from beam.agents.fields import Object, obj, string, strings
from beam.teams.model import Mail, Member
from beam.teams.tasks import Change


class Call(Struct, frozen=True, kw_only=True):
    """A finished tool call. `by` is the member that made the call, `input` the tool's input, and `record` the result
    that Claude Code recorded."""

    name: str
    call_id: str
    by: str
    at_ns: int
    source: str
    input: dict[str, Any]
    record: dict[str, Any]


class Proof(Struct, frozen=True, kw_only=True):
    """The facts that a call proves: the change of a task, a new member (`spawned`), or a message to the member `to`.
    `failed` is the reason why the message never reached the member; "" if it did."""

    change: Change | None = None
    spawned: Member | None = None
    mail: Mail | None = None
    to: str = ""
    failed: str = ""


def proof(call: Call) -> Proof:
    """Return the facts that the call proves; an empty Proof for a tool that does not concern teams."""
    match call.name:
        case "TaskCreate":
            return _created(call)
        case "TaskUpdate":
            return _updated(call)
        case "SendMessage":
            return _sent(call)
        case "Agent" | "Task":
            return _spawned(call)
    return Proof()


def _created(call: Call) -> Proof:
    task = obj(call.record, "task")
    task_id = string(task, "id")
    if not task_id:
        return Proof()
    return Proof(
        change=Change(
            task_id=task_id,
            at_ns=call.at_ns,
            by=call.by,
            source=call.source,
            created=True,
            subject=string(task, "subject") or string(call.input, "subject"),
            description=string(call.input, "description"),
        )
    )


def _updated(call: Call) -> Proof:
    task_id = string(call.record, "taskId") or string(call.input, "taskId")
    if not task_id or call.record.get("success") is not True:
        return Proof()
    fields = strings(call.record, "updatedFields")
    return Proof(
        change=Change(
            task_id=task_id,
            at_ns=call.at_ns,
            by=call.by,
            source=call.source,
            status=string(obj(call.record, "statusChange"), "to") or None,
            owner=string(call.input, "owner") or None if "owner" in fields else None,
            fields=fields,
        )
    )


def _sent(call: Call) -> Proof:
    record: Object = call.record
    routing = obj(record, "routing")
    to = string(routing, "target").removeprefix("@") or string(record, "target") or string(call.input, "to")
    message = call.input.get("message")
    text = string(routing, "content") or (message if isinstance(message, str) else string(call.input, "content"))
    mail = Mail(
        id=string(record, "msg_id") or call.call_id,
        sender=string(routing, "sender") or call.by,
        text=text,
        summary=string(routing, "summary") or string(call.input, "summary"),
        sent_ns=call.at_ns,
        colour=string(routing, "senderColor") or None,
    )
    if string(record, "msg_id"):
        return Proof(mail=mail, to=to)
    if record.get("success") is False:
        return Proof(mail=mail, to=to, failed=string(record, "message") or "it was refused")
    if record.get("success") is True and routing:
        return Proof(mail=mail, to=to, failed="its inbox was locked; the sender was told that it was sent")
    return Proof()


def _spawned(call: Call) -> Proof:
    record = call.record
    if string(record, "status") != "teammate_spawned" or not string(record, "name"):
        return Proof()
    pane = string(record, "tmux_pane_id")
    return Proof(
        spawned=Member(
            name=string(record, "name"),
            agent_id=string(record, "agent_id"),
            kind=string(record, "agent_type"),
            model=string(record, "model") or None,
            colour=string(record, "color") or None,
            backend="tmux" if pane.startswith("%") else "in-process",
            pane=pane if pane.startswith("%") else "",
            prompt=string(record, "prompt"),
        )
    )
