"""Claude Code's team files as values: configuration, inboxes, tasks, the register of sessions, hook calls.

Knows today's formats and those of February 2026. A reader here is tolerant: it returns None for what can't be read now
("keep what you had"), defaults for missing fields, and unknown values as text. Does not depend on files, clocks, or
what changed.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import msgspec
from msgspec import Struct

from beam.agents.base import document
from beam.agents.fields import Object, integer, obj, objects, string, strings
from beam.base.clock import parse_rfc3339

LEAD = "team-lead"
_MS = 1_000_000
_LONGEST_NUMBER = 20
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")


class Member(Struct, frozen=True, kw_only=True):
    """One member of a team's configuration.

    `joined_ns` is 0 if missing. `active`: in a turn, as members with a pane report it; None for the others.
    """

    name: str
    agent_id: str = ""
    kind: str = ""
    model: str | None = None
    colour: str | None = None
    backend: str = ""
    pane: str = ""
    cwd: str = ""
    prompt: str = ""
    joined_ns: int = 0
    active: bool | None = None

    @property
    def has_own_process(self) -> bool:
        """Return whether the member runs as a process of its own."""
        return self.backend not in ("", "in-process")


class Roster(Struct, frozen=True, kw_only=True):
    """A team's configuration. `created_ns` is 0 if missing; `made_by` is "beam" for one that beam made."""

    name: str
    created_ns: int = 0
    lead_id: str = ""
    session_id: str = ""
    made_by: str = ""
    members: tuple[Member, ...] = ()

    def member(self, name: str) -> Member | None:
        """Return the member of that name."""
        return next((member for member in self.members if member.name == name), None)

    @property
    def lead(self) -> Member | None:
        """Return the leader: the member that the configuration names, else the one with the lead's name."""
        return next((m for m in self.members if m.agent_id == self.lead_id), None) or self.member(LEAD)


class Mail(Struct, frozen=True, kw_only=True):
    """One message of an inbox.

    `id` is the vendor's, or `~` and a digest for a message without one. `sent_ns` is 0 if missing. If the text is a
    frame of the team's own protocol, `frame` is the object in it, and `kind` is its kind. `is_reply`: a member that
    beam runs wrote it as its answer.
    """

    id: str
    sender: str = ""
    text: str = ""
    summary: str = ""
    sent_ns: int = 0
    colour: str | None = None
    is_read: bool = False
    kind: str = "message"
    frame: dict[str, Any] = {}
    is_reply: bool = False


class Task(Struct, frozen=True, kw_only=True):
    """One task. `status`: pending, in_progress, completed, or another one. `rest` is everything else in it, as JSON."""

    id: str
    subject: str = ""
    description: str = ""
    active_form: str = ""
    owner: str | None = None
    status: str = "pending"
    blocks: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    rest: str = ""


class Session(Struct, frozen=True, kw_only=True):
    """An entry of Claude Code's register of interactive sessions. `start`: when the process began, in clock ticks."""

    pid: int
    start: int
    session_id: str = ""
    cwd: str = ""
    started_ns: int = 0
    status: str = ""
    status_ns: int = 0


class HookCall(Struct, frozen=True, kw_only=True):
    """One call of a hook, as `beam team hook` recorded it at `at_ns`. `member` is "" if the payload names none."""

    at_ns: int
    event: str
    session_id: str = ""
    team: str = ""
    member: str = ""
    agent_id: str = ""
    tool: str = ""
    call_id: str = ""
    input: dict[str, Any] = {}
    response: dict[str, Any] = {}
    payload: dict[str, Any] = {}


def inbox_name(name: str) -> str:
    """Return a name in the form that Claude Code uses in paths: a member's for its inbox, a team's for its task
    list."""
    return _UNSAFE.sub("-", name)


def object_in(data: bytes) -> Object | None:
    """Return the object that the bytes begin with; None for anything else.

    A file that is written in place may end with a part of its old content.
    """
    value = _value(data)
    return value if isinstance(value, dict) else None


_MOST_VALUES = 1_000_000  # each takes 70 bytes and more
_UNCOUNTED = 1 << 20


def _value(data: bytes) -> object:
    if len(data) > _UNCOUNTED and sum(data.count(mark) for mark in (b"[", b"{", b",")) > _MOST_VALUES:
        return None
    try:
        return document(data)
    except ValueError:
        text = data.decode("utf-8", "replace").lstrip()
    try:
        end = json.JSONDecoder().raw_decode(text)[1]
        return document(text[:end].encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def roster(data: bytes) -> Roster | None:
    """Return the configuration in a config.json; None for an incomplete one."""
    value = object_in(data)
    if value is None:
        return None
    return Roster(
        name=string(value, "name"),
        created_ns=(integer(value, "createdAt") or 0) * _MS,
        lead_id=string(value, "leadAgentId"),
        session_id=string(value, "leadSessionId"),
        made_by=string(value, "madeBy"),
        members=tuple(_member(one) for one in objects(value, "members") if string(one, "name")),
    )


def _member(value: Object) -> Member:
    active = value.get("isActive")
    pane = string(value, "tmuxPaneId")
    return Member(
        name=string(value, "name"),
        agent_id=string(value, "agentId"),
        kind=string(value, "agentType"),
        model=string(value, "model") or None,
        colour=string(value, "color") or None,
        backend=string(value, "backendType") or _backend(pane),
        pane=pane if pane.startswith("%") else "",
        cwd=string(value, "cwd"),
        prompt=string(value, "prompt"),
        joined_ns=(integer(value, "joinedAt") or 0) * _MS,
        active=active if isinstance(active, bool) else None,
    )


def _backend(pane: str) -> str:
    """Return where a member runs if its configuration does not say; "" if unknown."""
    return "tmux" if pane.startswith("%") else "in-process" if pane in ("in-process", "leader") else ""


def inbox(data: bytes) -> tuple[Mail, ...] | None:
    """Return the messages of an inbox file; None for an incomplete one, and for anything but a list."""
    value = _value(data)
    if not isinstance(value, list):
        return None
    return tuple(_mail(one) for one in value if isinstance(one, dict))


def _mail(value: Object) -> Mail:
    sender, text, when = string(value, "from"), _text(value.get("text")), string(value, "timestamp")
    frame = frame_of(text)
    return Mail(
        id=string(value, "msg_id") or digest(sender, when, text),
        sender=sender,
        text=text,
        summary=string(value, "summary"),
        sent_ns=when_ns(when),
        colour=string(value, "color") or None,
        is_read=value.get("read") is True,
        kind=string(frame, "type") or "message",
        frame=frame,
        is_reply=string(value, "inReplyTo") != "",
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def frame_of(text: str) -> Object:
    """Return the object in a message's text if it has a type; else an empty one."""
    if not text.startswith("{"):
        return {}
    try:
        value = document(text.encode("utf-8", "replace"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) and string(value, "type") else {}


def digest(sender: str, when: str, text: str) -> str:
    """Return the id for a message that has none."""
    return "~" + hashlib.sha256(f"{sender}|{when}|{text}".encode("utf-8", "replace")).hexdigest()[:16]


def when_ns(text: str) -> int:
    """Return a time as Claude Code writes it, in nanoseconds since 1970; 0 for anything else."""
    try:
        return parse_rfc3339(text) if text else 0
    except (ValueError, OverflowError):
        return 0


_TASK_FIELDS = frozenset({"id", "subject", "description", "activeForm", "owner", "status", "blocks", "blockedBy"})


def task(data: bytes) -> Task | None:
    """Return the task in a file; None for an incomplete one, and for one without an id."""
    value = object_in(data)
    if value is None:
        return None
    task_id = value.get("id")
    if not isinstance(task_id, str | int) or isinstance(task_id, bool):
        return None
    rest = {key: field for key, field in value.items() if key not in _TASK_FIELDS and field not in ({}, None)}
    return Task(
        id=str(task_id),
        subject=string(value, "subject"),
        description=string(value, "description"),
        active_form=string(value, "activeForm"),
        owner=string(value, "owner") or None,
        status=string(value, "status") or "pending",
        blocks=strings(value, "blocks"),
        blocked_by=strings(value, "blockedBy"),
        rest=msgspec.json.encode(rest, order="deterministic").decode() if rest else "",
    )


def session(data: bytes) -> Session | None:
    """Return an entry of the register of sessions; None for an incomplete one."""
    value = object_in(data)
    pid = integer(value or {}, "pid")
    if value is None or not pid or pid < 0:
        return None
    start = string(value, "procStart")
    return Session(
        pid=pid,
        start=int(start)
        if start.isascii() and start.isdigit() and len(start) < _LONGEST_NUMBER
        else integer(value, "procStart") or 0,
        session_id=string(value, "sessionId"),
        cwd=string(value, "cwd"),
        started_ns=(integer(value, "startedAt") or 0) * _MS,
        status=string(value, "status"),
        status_ns=(integer(value, "statusUpdatedAt") or 0) * _MS,
    )


def hook_call(line: bytes) -> HookCall | None:
    """Return one line of the spool (see `hook.py`); None for anything else."""
    value = object_in(line)
    at_ns = integer(value or {}, "at_ns")
    if value is None or at_ns is None:
        return None
    payload = obj(value, "payload")
    agent_id = string(payload, "agent_id")
    return HookCall(
        at_ns=at_ns,
        event=string(payload, "hook_event_name"),
        session_id=string(payload, "session_id"),
        team=string(payload, "team_name"),
        member=string(payload, "teammate_name") or (string(payload, "agent_type") if agent_id else ""),
        agent_id=agent_id,
        tool=string(payload, "tool_name"),
        call_id=string(payload, "tool_use_id"),
        input=obj(payload, "tool_input"),
        response=obj(payload, "tool_response"),
        payload=payload,
    )
