"""Recorded frames and beam's own, checked against what the Agent SDK publishes of the protocol.

`TYPES` says which fields the types of `@anthropic-ai/claude-agent-sdk` 0.3.330 (for Claude Code 2.1.330) demand, as far
as beam reads or writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import Raw

from beam.agents.link import Act, Close, Decide, Interrupt, Query, Set, Steer
from tests.agents.claude.test_claude_frames import ENDED, Played
from tests.support.claude_dialogue import RECORDINGS, Talk, turn
from tests.support.dialogue import Frame, recorded, whole

TEXT, FLAG, NUMBER, COUNT = {"type": "string"}, {"type": "boolean"}, {"type": "number"}, {"type": "integer"}
OBJECT, TEXTS, ANY = {"type": "object"}, {"type": "array", "items": {"type": "string"}}, True
MAYBE_TEXT = {"type": ["string", "null"]}
FROM_IT = {"uuid": TEXT, "session_id": TEXT}
MODE = {"enum": ["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto"]}
RESULT = {
    "duration_ms": NUMBER,
    "duration_api_ms": NUMBER,
    "is_error": FLAG,
    "num_turns": COUNT,
    "stop_reason": MAYBE_TEXT,
    "total_cost_usd": NUMBER,
    "usage": OBJECT,
    "modelUsage": OBJECT,
    "permission_denials": {"type": "array", "items": {"type": "object", "required": ["tool_name", "tool_use_id"]}},
}
TYPES: dict[str, dict[str, Any]] = {  # kind of a frame -> the fields that it must have
    "assistant": {**FROM_IT, "message": OBJECT, "parent_tool_use_id": MAYBE_TEXT},
    "user": {"message": {"type": "object", "required": ["role", "content"]}},
    "stream_event": {**FROM_IT, "event": OBJECT, "parent_tool_use_id": MAYBE_TEXT},
    "result/success": {**FROM_IT, **RESULT, "result": TEXT},
    "result/error_during_execution": {**FROM_IT, **RESULT, "errors": TEXTS},
    "result/error_max_turns": {**FROM_IT, **RESULT, "errors": TEXTS},
    "system/init": {
        **FROM_IT,
        "claude_code_version": TEXT,
        "cwd": TEXT,
        "tools": TEXTS,
        "model": TEXT,
        "slash_commands": TEXTS,
        "permissionMode": MODE,
        "mcp_servers": {"type": "array", "items": {"required": ["name", "status"]}},
    },
    "system/session_state_changed": {**FROM_IT, "state": {"enum": ["idle", "running", "requires_action"]}},
    "system/status": {**FROM_IT, "status": MAYBE_TEXT},
    "system/compact_boundary": {
        **FROM_IT,
        "compact_metadata": {"type": "object", "required": ["trigger", "pre_tokens"]},
    },
    "system/api_retry": {**FROM_IT, "attempt": COUNT, "max_retries": COUNT, "retry_delay_ms": NUMBER, "error": TEXT},
    "system/task_started": {**FROM_IT, "task_id": TEXT, "description": TEXT},
    "system/task_notification": {**FROM_IT, "task_id": TEXT, "output_file": TEXT, "summary": TEXT, "status": TEXT},
    "control_request": {"request_id": TEXT, "request": {"type": "object", "required": ["subtype"]}},
    "control_request/can_use_tool": {"tool_name": TEXT, "input": OBJECT, "tool_use_id": TEXT},
    "control_response/success": {"request_id": TEXT},
    "control_response/error": {"request_id": TEXT, "error": TEXT},
    "control_cancel_request": {"request_id": TEXT},
    # what beam asks for
    "control_request/initialize": {},
    "control_request/interrupt": {},
    "control_request/set_model": {"model": TEXT},
    "control_request/set_permission_mode": {"mode": MODE},
    "control_request/set_max_thinking_tokens": {"max_thinking_tokens": {"type": ["integer", "null"]}},
    "control_request/apply_flag_settings": {"settings": OBJECT},
    "control_request/get_settings": {},
    "control_request/get_context_usage": {},
    "control_request/mcp_status": {},
    "control_request/mcp_set_servers": {"servers": OBJECT},
    "control_request/mcp_reconnect": {"serverName": TEXT},
    "control_request/mcp_toggle": {"serverName": TEXT, "enabled": FLAG},
    "control_request/mcp_call": {"tool": {"type": "string", "pattern": "^mcp__"}},
    "control_request/rewind_files": {"user_message_id": TEXT},
}
ANSWERS: dict[str, dict[str, Any]] = {  # request of beam's -> what its answer must have
    "initialize": {"commands": ANY, "agents": ANY, "models": ANY, "account": OBJECT, "output_style": TEXT},
    "set_permission_mode": {"mode": MODE},
    "get_settings": {"effective": OBJECT, "sources": ANY},
    "get_context_usage": {"totalTokens": NUMBER, "maxTokens": NUMBER},
    "mcp_status": {"mcpServers": {"type": "array", "items": {"required": ["name", "status"]}}},
    "mcp_set_servers": {"added": TEXTS, "removed": TEXTS, "errors": OBJECT},
    "mcp_call": {"content": ANY},
    "rewind_files": {"canRewind": FLAG},
}
UNTYPED = {"command_lifecycle", "rate_limit_event", "tool_progress"}  # not in the types, or beam needs nothing of it
UNREAD = {
    *("permission_denied", "thinking_tokens", "task_updated", "task_progress"),
    *("background_tasks_changed", "commands_changed"),
}


@cache
def validator(kind: str) -> Draft202012Validator:
    fields = TYPES[kind]
    return Draft202012Validator({"type": "object", "required": sorted(fields), "properties": fields})


def parts(frame: Frame) -> Iterator[tuple[str, object]]:
    """The typed parts of a frame, each with its kind."""
    kind = str(frame.get("type"))
    if kind == "control_request":
        yield kind, frame
        yield f"{kind}/{frame['request']['subtype']}", frame["request"]
    elif kind == "control_response":
        yield f"{kind}/{frame['response']['subtype']}", frame["response"]
    elif kind in ("system", "result"):
        yield f"{kind}/{frame.get('subtype')}", frame
    else:
        yield kind, frame


def deviations(frames: list[tuple[str, Frame]], way: str) -> Iterator[str]:
    """What the frames of that direction have that the types forbid; a kind that they do not know, by name."""
    asked = {frame["request_id"]: frame["request"] for one, frame in frames if one != way and "request" in frame}
    for one, frame in frames:
        if one != way:
            continue
        for kind, value in parts(frame):
            if kind not in TYPES:
                yield kind
                continue
            yield from (f"{kind}: {error.message[:200]}" for error in validator(kind).iter_errors(value))
        response = frame.get("response") or {}
        subtype = asked.get(response.get("request_id"), {}).get("subtype", "")
        if response.get("subtype") == "success" and subtype in ANSWERS:
            schema = {"type": "object", "required": sorted(ANSWERS[subtype]), "properties": ANSWERS[subtype]}
            for error in Draft202012Validator(schema).iter_errors(response.get("response")):
                yield f"{subtype}, answered: {error.message[:200]}"


NAMES = [name for name in ENDED if name.startswith("2.1.330/")]


def frames_of(name: str) -> list[tuple[str, Frame]]:
    version, _, file = name.partition("/")
    return recorded(RECORDINGS / version / "stream-json" / file)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_recorded_frames_are_of_the_published_types(name: str) -> None:
    found = set(deviations(frames_of(name), "<"))
    assert found <= UNTYPED | {f"system/{subtype}" for subtype in UNREAD}, found


@pytest.mark.parametrize("name", NAMES)
def test_what_beam_sends_is_of_the_published_types(name: str) -> None:
    sent = [(">", frame) for frame in Played(name, whole).talk.sent]
    assert set(deviations(sent, ">")) == set()


def test_what_beam_sends_in_every_way_that_it_can_is_of_the_published_types() -> None:
    talk = Talk(turn(access="full"))
    talk.begin()
    talk.prompt()
    for number, word in enumerate(("allow", "deny", "cancelled")):
        talk.ask(f"r-{number}", "Bash", {"command": "ls"})
        talk.do(Decide(key=f"r-{number}", decision=word, always=True))  # type: ignore[arg-type]
    settings = {"model": "m", "effort": "low", "thinking": "default", "mode": "plan", "access": "edit"}
    servers = Raw(b'{"server": "docs", "tool": "t", "to": "u", "servers": {}}')
    actions = ("mcp.reconnect", "mcp.enable", "mcp.disable", "mcp.set", "mcp.call", "rewind.files")
    for intent in (
        *(Set(id=name, name=name, value=value) for name, value in settings.items()),
        *(Query(id=name, name=name) for name in ("context", "mcp")),
        *(Act(id=name, name=name, given=servers) for name in actions),
        *(Steer(id="s", text="x"), Interrupt(), Close()),
    ):
        talk.do(intent)
    asked = {frame["request"]["subtype"] for frame in talk.sent if frame["type"] == "control_request"}
    assert {f"control_request/{subtype}" for subtype in asked} | {"control_request/get_settings"} == {
        kind for kind in TYPES if kind.startswith("control_request/") and kind != "control_request/can_use_tool"
    }
    assert set(deviations([(">", frame) for frame in talk.sent], ">")) == set()
