"""Parses Claude Code's team files: configurations, inboxes, tasks, entries of the register of sessions, hook calls.

The parsers know the current formats and those of February 2026. They are tolerant: a parser returns None for data that
can't be parsed now (the caller keeps its last value), uses defaults for missing fields, and keeps unknown values as
text. Does not depend on files, clocks or earlier values.
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

    `joined_ns` is 0 if unknown. `active` says whether the member is in a turn; it is None for members without a
    terminal pane, which do not report this.
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
        """Return whether the member runs in a process of its own."""
        return self.backend not in ("", "in-process")


class Roster(Struct, frozen=True, kw_only=True):
    """A team's configuration. `created_ns` is 0 if unknown; `made_by` is "beam" for a team that beam created."""

    name: str
    created_ns: int = 0
    lead_id: str = ""
    session_id: str = ""
    made_by: str = ""
    members: tuple[Member, ...] = ()

    def member(self, name: str) -> Member | None:
        """Return the member of that name; None if there is none."""
        return next((member for member in self.members if member.name == name), None)

    @property
    def lead(self) -> Member | None:
        """Return the lead: the member whose id the configuration gives for the lead, else the member named `team-lead`.
        Return None if there is neither."""
        return next((m for m in self.members if m.agent_id == self.lead_id), None) or self.member(LEAD)


class Mail(Struct, frozen=True, kw_only=True):
    """One message of an inbox.

    `id` is the id that Claude Code gave or, without one, `~` and a digest. `sent_ns` is 0 if unknown. If the text is a
    frame (a control message of the team protocol), `frame` is the JSON object in it and `kind` is the frame's type.
    `is_reply`: the message is the answer of a member that beam runs.
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
    """One task. `status`: pending, in_progress, completed, or a value that beam does not know. `rest` has all other
    fields as JSON."""

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
    """An entry of Claude Code's register of interactive sessions. `start` is when the process began, in clock ticks
    since boot (0: unknown)."""

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
    """Return a member's or team's name as Claude Code writes it in paths of inboxes and task lists: each character
    other than a letter, a digit, `_` and `-` becomes `-`."""
    return _UNSAFE.sub("-", name)


def object_in(data: bytes) -> Object | None:
    """Return the JSON object at the beginning of the bytes; None if they begin with anything else.

    Bytes after the object are ignored, because a file that is written in place may end with a part of its old content.
    """
    value = _parse_json(data)
    return value if isinstance(value, dict) else None


_MAX_VALUES = 1_000_000  # each takes 70 bytes and more
_UNCOUNTED_BYTES = 1 << 20


def _parse_json(data: bytes) -> object:
    if len(data) > _UNCOUNTED_BYTES and sum(data.count(mark) for mark in (b"[", b"{", b",")) > _MAX_VALUES:
        return None
    try:
        return document(data)
    except ValueError:
        text = data.decode(json.detect_encoding(data), "replace").lstrip("\ufeff \t\r\n")
    try:
        end = json.JSONDecoder().raw_decode(text)[1]
        return document(text[:end].encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def roster(data: bytes) -> Roster | None:
    """Return the configuration from the content of a config.json; None if the content is incomplete."""
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
    """Return the kind of place where a member runs (tmux or in-process), derived from its pane; "" if unknown. It is
    used for a configuration that does not name the kind."""
    return "tmux" if pane.startswith("%") else "in-process" if pane in ("in-process", "leader") else ""


def inbox(data: bytes) -> tuple[Mail, ...] | None:
    """Return the messages from the content of an inbox file; None if the content is incomplete or is not a list."""
    value = _parse_json(data)
    if not isinstance(value, list):
        return None
    return tuple(_mail(one) for one in value if isinstance(one, dict))


def inbox_without(data: bytes, mail_id: str) -> list[Any] | None:
    """Return the messages of an inbox file without the first one that has this id. Return None if no message has it, or
    if the file's content is incomplete or is not a list."""
    value = _parse_json(data)
    if not isinstance(value, list):
        return None
    for at, one in enumerate(value):
        if isinstance(one, dict) and _mail_id(one) == mail_id:
            return value[:at] + value[at + 1 :]
    return None


def _mail_id(value: Object) -> str:
    return string(value, "msg_id") or digest(
        string(value, "from"), string(value, "timestamp"), _text(value.get("text"))
    )


def _mail(value: Object) -> Mail:
    sender, text, when = string(value, "from"), _text(value.get("text")), string(value, "timestamp")
    frame = frame_of(text)
    return Mail(
        id=_mail_id(value),
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
    """Return the JSON object in a message's text if the object has a `type`; otherwise return {}."""
    if not text.startswith("{"):
        return {}
    try:
        value = document(text.encode("utf-8", "replace"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) and string(value, "type") else {}


def digest(sender: str, when: str, text: str) -> str:
    """Return the id for a message that has none: `~` and a digest of its sender, time and text."""
    return "~" + hashlib.sha256(f"{sender}|{when}|{text}".encode("utf-8", "replace")).hexdigest()[:16]


def when_ns(text: str) -> int:
    """Return an RFC 3339 time in nanoseconds since 1970; 0 for any other text."""
    try:
        return parse_rfc3339(text) if text else 0
    except (ValueError, OverflowError):
        return 0


_TASK_FIELDS = frozenset({"id", "subject", "description", "activeForm", "owner", "status", "blocks", "blockedBy"})


def task(data: bytes) -> Task | None:
    """Return the task from the content of its file; None if the content is incomplete or has no id."""
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
    """Return the entry of the register of sessions from the content of its file; None if the content is incomplete."""
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
    """Return the hook call in one line of the spool (see `hook.py`); None for any other line."""
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
