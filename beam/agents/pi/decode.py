"""Turns pi's JSON Lines into events.

pi also exits with 0 if the API failed, so the stop reason of the last message before `agent_end` counts. An `agent_end`
with `willRetry` is not the end yet: retries, or messages that an extension queued, may follow until `agent_settled`
(from about version 0.80 on; version 0.73 ends with `agent_end`). `agent_end` holds the whole conversation, and a
`message_update` of version 0.73 holds its whole message so far; neither is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import Exit, Turn, Verdict, raw_json
from beam.agents.failures import class_of, unwrap_api_message
from beam.agents.fields import Object, integer, json_text, number, obj, objects, string
from beam.agents.oneshot import OutputSummary, read, verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Denial, Usage

_NO_SESSION = "No session found matching '{}'"
_SILENT_KINDS = (
    "agent_start",
    "turn_start",
    "turn_end",
    "message_start",
    "session_info_changed",
    "queue_update",
    "entry_appended",
    "thinking_level_changed",
    "summarization_retry_attempt_start",
    "summarization_retry_finished",
)
_END_BY_STOP = {"stop": "stop", "length": "length"}
_WRITE_TOOLS = ("write", "edit")
_LEFT_OUT_TOOLS = {"read": ("write", "edit", "bash")}  # the tools that pi does not have with this access


class LineDecoder:
    """The decoder of the output of one process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = OutputSummary(name="pi", model=turn.model)
        self._stop = ""
        self._error = ""
        self._writes: dict[str, str] = {}
        self._arguments: dict[str, Object] = {}

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line."""
        return read(line, self._decode)

    def _decode(self, value: Object) -> list[Event]:
        summary, kind = self._summary, string(value, "type")
        match kind:
            case "session":
                return summary.on_opened(self._turn, string(value, "id"))
            case "message_update":
                delta = obj(value, "assistantMessageEvent")
                text = string(delta, "delta") if string(delta, "type") == "text_delta" else ""
                return [events.TextDelta(text=text)] if text else []
            case "message_end":
                return self._message(obj(value, "message"))
            case "tool_execution_start" | "tool_execution_update" | "tool_execution_end":
                return self._tool(kind, value)
            case "agent_end":
                summary.ended = "" if "willRetry" in value else _END_BY_STOP.get(self._stop, "")
                return self._on_agent_end()
            case "agent_settled":
                summary.ended = _END_BY_STOP.get(self._stop, "")
                return []
            case "auto_retry_start" | "summarization_retry_scheduled":
                return self._retry(value)
            case "auto_retry_end" | "compaction_end":
                return []
            case "compaction_start":
                return [events.StatusChanged(state="compacting", detail=string(value, "reason"))]
        return [] if kind in _SILENT_KINDS else [events.Unknown(what=kind or "no type")]

    def _message(self, message: Object) -> list[Event]:
        if string(message, "role") != "assistant":
            return []
        summary = self._summary
        summary.texts = []
        summary.model = string(message, "model") or summary.model
        self._stop, self._error = string(message, "stopReason"), string(message, "errorMessage")
        emitted: list[Event] = []
        for block in objects(message, "content"):
            if string(block, "type") == "text":
                emitted += summary.text(string(block, "text"))
            elif string(block, "type") == "thinking":
                emitted.append(events.Thinking(text=string(block, "thinking")))
        usage = obj(message, "usage")
        if integer(usage, "totalTokens"):
            model = string(message, "model")
            emitted += summary.counted(usage_of_call(usage), number(obj(usage, "cost"), "total"), model)
        return emitted

    def _tool(self, kind: str, value: Object) -> list[Event]:
        call_id, name, arguments = string(value, "toolCallId"), string(value, "toolName"), obj(value, "args")
        if kind == "tool_execution_start":
            self._arguments[call_id] = arguments
            if name in _WRITE_TOOLS:
                self._writes[call_id] = string(arguments, "path")
            return self._summary.on_called(call_id, name, arguments)
        if kind == "tool_execution_update":
            text = _text(obj(value, "partialResult"))
            return [events.ToolProgress(call_id=call_id, text=text)] if text else []
        is_error = value.get("isError") is True
        emitted = self._summary.on_returned(call_id, _text(obj(value, "result")), is_error=is_error)
        arguments_of_call = self._arguments.pop(call_id, None)
        if is_error and name in _LEFT_OUT_TOOLS.get(self._turn.access, ()):
            self._summary.denials.append(Denial(tool=name, call_id=call_id, input=raw_json(arguments_of_call)))
        path = self._writes.pop(call_id, "")
        return emitted + ([events.FileChanged(path=path)] if path and not is_error else [])

    def _on_agent_end(self) -> list[Event]:
        """Return the events of an `agent_end`.

        pi may retry after an error. Then a new `agent_start` and another `agent_end` follow.
        """
        summary = self._summary
        if self._stop in ("error", "aborted"):
            text = self._error or f"pi stopped: {self._stop}"
            return summary.on_failed(unwrap_api_message(text), class_=class_of(None, text))
        summary.failure = None
        return []

    def _retry(self, value: Object) -> list[Event]:
        attempt, of = integer(value, "attempt"), integer(value, "maxAttempts")
        text = string(value, "errorMessage")
        return self._summary.retrying(unwrap_api_message(text), attempt=attempt, of=of, class_=class_of(None, text))

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the verdict. The CLI's own sentence on stderr proves that the requested session does not exist."""
        self._summary.find_lost_session(self._turn, exit, _NO_SESSION)
        return verdict(self._turn, exit, self._summary)


def usage_of_call(usage: Object) -> Usage:
    """Return the figures of one model call. pi reports the input without the tokens that were written to a cache, which
    are added."""
    uncached, written = integer(usage, "input"), integer(usage, "cacheWrite")
    return Usage(
        input_tokens=None if uncached is None else uncached + (written or 0),
        output_tokens=integer(usage, "output"),
        cached_tokens=integer(usage, "cacheRead"),
        reasoning_tokens=integer(usage, "reasoning"),
        cache_write_tokens=written,
        calls=1,
    )


def _text(result: Object) -> str:
    texts = [string(block, "text") for block in objects(result, "content")]
    if texts or result.get("content") == []:
        return "\n".join(texts)
    return json_text(result) if result else ""
