"""Kimi Code's sessions on this machine: one file for each agent of a session, including its subagents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from beam.agents.base import json_object
from beam.agents.fields import Object, integer, obj, objects, string
from beam.agents.session_files import (
    AnswerEnd,
    RecordReader,
    Session,
    SessionFiles,
    SessionReader,
    time_from_ms,
    unknown_type,
)
from beam.model.events import Event
from beam.model.outcome import Usage

_ENDS: dict[str, Literal["length", "refused"]] = {"truncated": "length", "filtered": "refused"}
files = SessionFiles(
    folder="HOME/.kimi-code",
    below="sessions",
    name=r"[^/]+/[^/]+/agents/[^/]+/wire\.jsonl",
    like=r"[^/]+/[^/]+/agents/[^/]+/wire\.jsonl\.[^/]+",
)
_QUIET = frozenset(
    {
        "metadata",
        "runtime.set_binding",
        "permission.set_mode",
        "context.append_message",
        "agent.message.appended",
        "agent.turn.started",
        "agent.turn.ended",
        "plugin.session_start",
        "llm.tools_snapshot",
        "usage.record",
        "token_counting.measured",
        "token_counting.turn_recorded",
        "prompt.completed",
        "event step.begin",
    }
)


def reader(path: str) -> SessionReader:
    """Return a reader for the file with this path below the folder of sessions."""
    return _Wire(path)


def answer_end(record: bytes) -> AnswerEnd | None:
    """Return how the answer in a line of the file ended; None for a line about anything else."""
    if b'"step.end"' not in record:
        return None
    value = json_object(record) or {}
    event = obj(value, "event")
    if string(value, "type") != "context.append_loop_event" or string(event, "type") != "step.end":
        return None
    how: Literal["stop", "length", "refused"] = _ENDS.get(string(event, "providerFinishReason"), "stop")
    return AnswerEnd(how=how, at_ms=integer(value, "time") or 0)


class _Wire(RecordReader):
    def __init__(self, path: str) -> None:
        _, session, _, agent, _ = path.split("/")
        is_main = agent == "main"
        super().__init__(Session(id=session if is_main else agent, root_id="" if is_main else session))

    def on_record(self, value: Object) -> Sequence[Event]:
        maker, at = self._maker, time_from_ms(value.get("time"))
        match string(value, "type"):
            case "profile.bind":
                self._know(cwd=string(obj(value, "environmentDisclosure"), "cwd"))
            case "llm.request":
                self._know(model=string(value, "model"))
            case "turn.prompt":
                return maker.prompt("".join(string(part, "text") for part in objects(value, "input")), at)
            case "context.append_loop_event":
                return self._on_loop_event(obj(value, "event"), at)
            case "turn.ended":
                reason = string(value, "reason")
                return maker.end_turn(at, self.session.model, why="" if reason == "completed" else reason)
            case name:
                return unknown_type(name, _QUIET)
        return ()

    def _on_loop_event(self, event: Object, at: str) -> list[Event]:
        maker = self._maker
        match string(event, "type"):
            case "content.part":
                part = obj(event, "part")
                if not maker.is_new(f"part {string(event, 'uuid')}"):
                    return []
                if string(part, "type") == "think":
                    return maker.thinking(string(part, "think"), at)
                return maker.text(string(part, "text"), at)
            case "tool.call":
                return maker.on_called(string(event, "toolCallId"), string(event, "name"), event.get("args"), at)
            case "tool.result":
                result = obj(event, "result")
                failed = result.get("isError") is True
                return maker.on_returned(string(event, "toolCallId"), string(result, "output"), at, is_error=failed)
            case "step.end":
                maker.count_call(string(event, "uuid"), _usage(obj(event, "usage")))
            case name:
                return unknown_type(f"event {name}", _QUIET)
        return []


def _usage(used: Object) -> Usage:
    other, written = integer(used, "inputOther"), integer(used, "inputCacheCreation")
    return Usage(
        input_tokens=None if other is None else other + (written or 0),
        output_tokens=integer(used, "output"),
        cached_tokens=integer(used, "inputCacheRead"),
        cache_write_tokens=written,
        calls=1,
    )
