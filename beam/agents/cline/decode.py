"""Turns Cline's JSON Lines into events. A turn ends with the line `run_result`, and succeeded if the line's reason is
`completed`.

An `error` event before the end often reports only a failed tool, so the last line alone decides about the turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import Exit, Turn, Verdict
from beam.agents.fields import Object, integer, json_text, number, obj, string
from beam.agents.figures import usage_in
from beam.agents.oneshot import OutputSummary, read, verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Usage

_IGNORED_EVENTS = ("iteration_start", "iteration_end", "done", "usage")
_CLASS_BY_WORD = {
    "auth": Class.AUTH,
    "rate_limit": Class.RATE_LIMIT,
    "context_overflow": Class.CONTEXT_OVERFLOW,
    "network": Class.NETWORK,
}

_EDITS, _PATCH = ("edit:", "insert:"), "apply_patch"  # the query in the one result of a tool that changes files
_PATCHED, _MOVED, _DELETED = "Successfully applied patch to the following files:\n", " -> ", ": [deleted]"
_CUT_OFF = "Model reached the maximum output token limit before completing the turn"


def is_failed_output(output: object) -> bool:
    """Return whether a tool's output is a result, or a list of results, that all say that they failed."""
    parts = output if isinstance(output, list) else [output]
    return bool(parts) and all(isinstance(part, dict) and part.get("success") is False for part in parts)


class LineDecoder:
    """Decodes the output of one process. The CLI does not print its session's id."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = OutputSummary(name="cline", model=turn.model, nameless=True)
        self._class: Class | None = None
        self._noticed = ""  # the last error's text, which the end repeats
        self._calls = 0
        self._given: tuple[int | None, int | None] | None = None  # the latest totals of the process

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line."""
        return read(line, self._decode)

    def _decode(self, value: Object) -> list[Event]:
        kind = string(value, "type")
        match kind:
            case "hook_event":
                return []
            case "agent_event":
                return self._event(obj(value, "event"))
            case "run_result":
                return self._result(value)
            case "error":
                return self._summary.on_failed(string(value, "message"), class_=Class.BAD_REQUEST)
        return [events.Unknown(what=kind or "no type")]

    def _event(self, event: Object) -> list[Event]:
        kind, content = string(event, "type"), string(event, "contentType")
        if kind == "error":
            error = obj(event, "error")
            self._class, self._noticed = _CLASS_BY_WORD.get(string(event, "errorClass")), string(error, "message")
            return [events.Notice(text=self._noticed, code=string(event, "errorClass") or "error")]
        if kind == "usage":
            self._calls += 1
            self._given = integer(event, "totalInputTokens"), integer(event, "totalOutputTokens")
        if kind in _IGNORED_EVENTS:
            return []
        if kind.startswith("content_") and content == "text":
            return self._text(kind, string(event, "text"))
        if kind.startswith("content_") and content == "tool":
            return self._tool(kind, event)
        if kind.startswith("content_") and content == "reasoning":
            text = string(event, "text") or string(event, "reasoning")
            return [events.Thinking(text=text)] if kind == "content_end" and text else []
        return [events.Unknown(what=f"agent_event/{kind}/{content}".rstrip("/"))]

    def _text(self, kind: str, text: str) -> list[Event]:
        if kind == "content_end":
            return self._summary.text(text)
        return [events.TextDelta(text=text)] if text else []

    def _tool(self, kind: str, event: Object) -> list[Event]:
        call_id = string(event, "toolCallId")
        if kind == "content_start":
            return self._summary.on_called(call_id, string(event, "toolName"), event.get("input"))
        if kind == "content_update":
            chunk = string(obj(event, "update"), "chunk")
            return [events.ToolProgress(call_id=call_id, text=chunk)] if chunk else []
        output, error = event.get("output"), string(event, "error")
        text = output if isinstance(output, str) else "" if output is None else json_text(output)
        is_error = bool(error) or is_failed_output(output)
        changed = [] if is_error else [events.FileChanged(path=path) for path in _changed_paths(obj(event, "output"))]
        return [*self._summary.on_returned(call_id, error or text, is_error=is_error), *changed]

    def _result(self, value: Object) -> list[Event]:
        summary, reason = self._summary, string(value, "finishReason")
        usage, own = obj(value, "aggregateUsage") or obj(value, "usage"), obj(value, "usage")
        summary.model = string(obj(value, "model"), "id") or summary.model
        counts = integer(usage, "inputTokens"), integer(usage, "outputTokens")
        figures = usage_of(usage, calls=self._calls if self._given == counts else None)
        model = string(obj(value, "model"), "id") if usage == own else ""
        counted = counts[0] or figures.output_tokens
        emitted = summary.counted(figures, number(usage, "totalCost"), model) if counted else []
        text = string(value, "text")
        if reason == "error" and text == _CUT_OFF:
            summary.ended = "length"
            return emitted
        if reason != "completed":
            failed = summary.on_failed(text or f"cline finished with {reason or 'no reason'}", class_=self._class)
            return emitted if text and text == self._noticed else emitted + failed
        summary.reply, summary.ended = text or None, "stop"
        return emitted

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the verdict."""
        return verdict(self._turn, exit, self._summary)


def _changed_paths(result: Object) -> list[str]:
    """Return the paths of the files that a tool changed, by its result."""
    query, told = string(result, "query"), string(result, "result")
    if query.startswith(_EDITS):
        return [query.partition(":")[2]]
    lines = told.removeprefix(_PATCHED).split("\n") if query == _PATCH and told.startswith(_PATCHED) else []
    return [path for line in lines for path in line.removesuffix(_DELETED).split(_MOVED) if path]


def usage_of(used: Object, *, calls: int | None = 1) -> Usage:
    """Return the figures that Cline reports in this object."""
    return usage_in(
        used,
        given="inputTokens",
        output="outputTokens",
        cached="cacheReadTokens",
        written="cacheWriteTokens",
        calls=calls,
    )
