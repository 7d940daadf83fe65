"""GitHub Copilot CLI's sessions on this machine: one file of events per session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import structs

from beam.agents.base import json_object
from beam.agents.copilot.decode import file_changes
from beam.agents.fields import Object, obj, objects, string
from beam.agents.figures import usage_in
from beam.agents.session_files import (
    AnswerEnd,
    RecordReader,
    Session,
    SessionFiles,
    SessionReader,
    ms_from_text,
    time_from_text,
    unknown_type,
)
from beam.model.events import Event
from beam.model.outcome import Usage

_OWN_CALL = "conversation-agent"  # `interactionType` of a call that the agent itself makes
files = SessionFiles(
    folder="HOME/.copilot",
    moved_by="COPILOT_HOME",
    below="session-state",
    name=r"[^/]+/events\.jsonl",
    tells_asks=True,
    like=r"[^/]+(?:\.jsonl?|/events\.jsonl\.[^/]+)",
)
_QUIET = (
    "session.model_change",
    "session.mode_changed",
    "session.title_changed",
    "session.shutdown",
    "session.idle",
    "session.info",
    "session.warning",
    "session.error",
    "session.context_changed",
    "session.usage_info",
    "session.compaction_start",
    "session.compaction_complete",
    "session.truncation",
    "session.plan_changed",
    "session.task_complete",
    "session.handoff",
    "session.workspace_file_changed",
    "session.snapshot_rewind",
    "system.message",
    "system.notification",
    "assistant.turn_start",
    "assistant.turn_end",
    "assistant.intent",
    "assistant.reasoning",
    "assistant.usage",
    "tool.user_requested",
    "tool.execution_progress",
    "tool.execution_partial_result",
    "skill.invoked",
    "subagent.started",
    "subagent.completed",
    "subagent.failed",
    "subagent.selected",
    "hook.start",
    "hook.end",
)


def reader(path: str) -> SessionReader:
    """Return a reader for the file of events with this path below the folder of sessions."""
    return _Events(path)


def answer_end(record: bytes) -> AnswerEnd | None:
    """Return how the answer in a line of the file ended; None for a line about anything else, and for the call of a
    subagent."""
    if b'"session.usage_record"' not in record:
        return None
    value = json_object(record) or {}
    used = obj(obj(value, "data"), "usage")
    if string(value, "type") != "session.usage_record" or string(used, "interactionType") != _OWN_CALL:
        return None
    how: Literal["stop", "length", "refused"] = "length" if string(used, "finishReason") == "length" else "stop"
    if used.get("contentFilterTriggered") is True:
        how = "refused"
    return AnswerEnd(how=how, at_ms=ms_from_text(string(value, "timestamp")))


class _Events(RecordReader):
    def __init__(self, path: str) -> None:
        super().__init__(Session(id=path.partition("/")[0]))

    def on_record(self, value: Object) -> Sequence[Event]:
        key = string(value, "id")
        if key and not self._maker.is_new(f"line {key}"):
            return ()
        maker, at, inner = self._maker, time_from_text(string(value, "timestamp")), obj(value, "data")
        match string(value, "type"):
            case "session.start" | "session.resume":
                self._know(cwd=string(obj(inner, "context"), "cwd"), model=string(inner, "selectedModel"))
            case "user.message":
                return maker.prompt(string(inner, "content"), at)
            case "session.usage_record":
                used = obj(inner, "usage")
                maker.count_call(string(used, "apiCallId") or string(value, "id"), _usage(used))
            case "assistant.message":
                self._know(model=string(inner, "model"))
                found = maker.text(string(inner, "content"), at)
                if not objects(inner, "toolRequests"):
                    found += maker.end_turn(at, self.session.model)
                return found
            case "tool.execution_start":
                return maker.on_called(
                    string(inner, "toolCallId"), string(inner, "toolName"), inner.get("arguments"), at
                )
            case "tool.execution_complete":
                output = string(obj(inner, "result"), "content") or string(obj(inner, "error"), "message")
                failed = inner.get("success") is False
                changed = [] if failed else file_changes(inner)
                return [
                    *maker.on_returned(string(inner, "toolCallId"), output, at, is_error=failed),
                    *(structs.replace(event, ts=at) for event in changed),
                ]
            case "permission.requested":
                request = obj(inner, "permissionRequest")
                given = (
                    {"command": string(request, "fullCommandText")} if string(request, "fullCommandText") else request
                )
                call_id = string(request, "toolCallId") or None
                return maker.on_asked(string(inner, "requestId"), string(request, "kind"), given, at, call_id=call_id)
            case "permission.completed":
                word = string(obj(inner, "result"), "kind")
                allowed = word.startswith("approved")
                return maker.on_decided(
                    string(inner, "requestId"),
                    at,
                    decision="allow" if allowed else "cancelled" if word == "cancelled" else "deny",
                )
            case "abort":
                return maker.end_turn(at, self.session.model, why=string(inner, "reason") or "interrupted")
            case name:
                return unknown_type(name, _QUIET)
        return ()


def _usage(used: Object) -> Usage:
    return usage_in(
        used, given="inputTokens", output="outputTokens", cached="cacheReadTokens", reasoning="reasoningTokens"
    )
