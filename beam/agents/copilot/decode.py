"""Turns GitHub Copilot CLI's JSON Lines into events.

A turn ends with the `result` line. It succeeded if that line has exit code 0 and an answer came before: the line also
has 0 if the CLI's wrapper was killed. An answer that was cut off by its token limit comes only as deltas. The CLI then
asks its model to continue, and the next message is the rest of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents import figures
from beam.agents.base import Exit, Turn, Verdict, document, raw_json
from beam.agents.failures import class_of
from beam.agents.fields import Object, integer, obj, objects, string
from beam.agents.oneshot import Failure, OutputSummary, read, verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Denial, Total, Usage

_NO_SESSION = "No session, task, or name matched '{}'."
_IGNORED_EVENTS = {
    "user": ("message",),
    "system": ("message",),
    "assistant": ("turn_start", "message_start", "idle", "tool_call_delta", "reasoning_delta"),
    "model": ("call_start", "call_final_result"),
    "tool": ("shell_output",),
    "session": ("skills_loaded", "mcp_servers_loaded", "tools_updated", "background_tasks_changed"),
}
_KINDS = {"create": "add", "delete": "delete"}
_REPORTED_ELSEWHERE = ("file_created", "model_retry")  # as the change of a file, and as a retry


class LineDecoder:
    """Decodes the output of one process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = OutputSummary(name="copilot", model=turn.model)
        self._tools: dict[str, tuple[str, object, str | None]] = {}
        self._trouble: Failure | None = None
        self._attempt = 0
        self._answered = False
        self._answers = 0
        self._streamed: list[str] = []  # the deltas of a message that is not complete yet
        self._cut_off = ""  # the part of an answer that came before its token limit

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line."""
        return read(line, self._decode)

    def _decode(self, value: Object) -> list[Event]:
        kind, data = string(value, "type"), obj(value, "data")
        match kind:
            case "assistant.message_delta":
                return self._delta(string(data, "deltaContent"), string(data, "parentToolCallId") or None)
            case "assistant.message":
                return self._message(data)
            case "assistant.reasoning":
                text = string(data, "content")
                return [events.Thinking(text=text)] if text else []
            case "tool.execution_start":
                call_id, name, arguments = string(data, "toolCallId"), string(data, "toolName"), data.get("arguments")
                parent = string(data, "parentToolCallId") or None
                self._tools[call_id] = (name, arguments, parent)
                return self._summary.on_called(call_id, name, arguments, parent=parent)
            case "tool.execution_partial_result" | "tool.execution_progress":
                text = string(data, "partialOutput") or string(data, "progressMessage")
                return [events.ToolProgress(call_id=string(data, "toolCallId"), text=text)]
            case "tool.execution_complete":
                return self._on_returned(data)
            case "model.call_failure":
                return self._on_call_failed(data)
            case "model.call_finished":
                return self._on_call_finished(has_answered=string(data, "outcome") == "success")
            case "assistant.turn_end":
                return self._on_step_ended()
            case "assistant.turn_retry":
                return self._retry(string(data, "reason"))
            case "session.error":
                return self._summary.on_failed(string(data, "message"), integer(data, "statusCode"))
            case "session.info" if string(data, "infoType") in _REPORTED_ELSEWHERE:
                return []
            case "session.warning" | "session.info":
                return [events.Notice(text=string(data, "message"), code=kind)]
            case "session.compaction_start":
                return [events.StatusChanged(state="compacting")]
            case "session.compaction_complete":
                return [events.StatusChanged(state="compacted")]
            case "result":
                return self._result(value)
        area, _, word = kind.partition(".")
        return [] if word in _IGNORED_EVENTS.get(area, ()) else [events.Unknown(what=kind or "no type")]

    def _delta(self, text: str, parent: str | None) -> list[Event]:
        if parent is None:
            self._streamed.append(text)
        return [events.TextDelta(text=text, parent=parent)] if text else []

    def _on_call_finished(self, *, has_answered: bool) -> list[Event]:
        self._answers += has_answered
        if not has_answered:
            self._streamed = []
        return []

    def _on_step_ended(self) -> list[Event]:
        """Return the text so far of an answer that its token limit cut off: Copilot sends no message with the whole."""
        text, self._streamed = "".join(self._streamed), []
        if not text:
            return []
        self._cut_off += text
        self._summary.texts = [self._cut_off]
        return [events.Text(text=text)]

    def _message(self, data: Object) -> list[Event]:
        parent = string(data, "parentToolCallId") or None
        text = string(data, "content")
        if parent is not None:
            return [events.Text(text=text, parent=parent)] if text else []
        self._trouble, self._attempt, self._streamed = None, 0, []
        self._answered = not objects(data, "toolRequests")
        self._summary.texts = []
        self._summary.model = string(data, "model") or self._summary.model
        emitted = self._summary.text(text)
        before, self._cut_off = self._cut_off, ""
        if before:
            self._summary.texts = [before + text]
        return emitted

    def _on_returned(self, data: Object) -> list[Event]:
        call_id, error, result = string(data, "toolCallId"), obj(data, "error"), obj(data, "result")
        name, arguments, parent = self._tools.pop(call_id, ("", None, None))
        parent = string(data, "parentToolCallId") or parent
        if data.get("success") is not True:
            if string(error, "code") == "denied":
                self._summary.denials.append(Denial(tool=name, call_id=call_id, input=raw_json(arguments)))
            return self._summary.on_returned(call_id, string(error, "message"), is_error=True, parent=parent)
        emitted = self._summary.on_returned(call_id, string(result, "content"), parent=parent)
        return [*emitted, *file_changes(data)]

    def _on_call_failed(self, data: Object) -> list[Event]:
        """Return the events of a failed request to the model. The CLI may try again."""
        status, text = integer(data, "statusCode"), string(data, "errorMessage")
        try:
            parsed = document(text.encode())
        except ValueError:
            parsed = None
        text = string(parsed, "message") or text if isinstance(parsed, dict) else text
        class_ = class_of(status, text)
        if class_ is Class.UNKNOWN and string(data, "failureKind") == "transport":
            class_ = Class.NETWORK
        text = text or ("a request to the model failed" if status is None else f"HTTP {status}")
        self._trouble = Failure(class_, text, status)
        return [events.Notice(text=self._trouble.reason, code="api_error")]

    def _retry(self, reason: str) -> list[Event]:
        self._attempt += 1
        trouble = self._trouble
        if trouble is None:
            return self._summary.retrying(reason, attempt=self._attempt)
        status, class_ = trouble.http_status, trouble.class_
        return self._summary.retrying(trouble.reason, attempt=self._attempt, http_status=status, class_=class_)

    def _result(self, value: Object) -> list[Event]:
        summary = self._summary
        summary.usage = Usage(calls=self._answers or None)
        emitted = [*summary.on_opened(self._turn, string(value, "sessionId")), self._record_work(obj(value, "usage"))]
        if summary.failure is None:
            summary.failure = self._trouble
        if value.get("exitCode") == 0:
            summary.ended = "length" if self._cut_off else "stop" if self._answered else ""
        elif summary.failure is None:
            summary.failure = Failure(Class.UNKNOWN, f"copilot ended the turn with {value.get('exitCode')}")
        return emitted

    def _record_work(self, usage: Object) -> Event:
        """Return the event with the session's running totals, and record the turn's part of them."""
        changes, api_ms = obj(usage, "codeChanges"), integer(usage, "totalApiDurationMs")
        total = figures.Work(
            api_s=None if api_ms is None else api_ms / 1000,
            lines_added=integer(changes, "linesAdded"),
            lines_removed=integer(changes, "linesRemoved"),
        )
        before = figures.NOTHING_YET if self._turn.session_id is None else self._turn.carried
        self._summary.work = figures.work_of_turn(total, before)
        return events.UsageSeen(usage=self._summary.usage, total=figures.with_work(Total(), total))

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the verdict. The CLI's own sentence on stderr proves that the requested session does not exist."""
        self._summary.find_lost_session(self._turn, exit, _NO_SESSION)
        return verdict(self._turn, exit, self._summary)


def file_changes(data: Object) -> list[events.FileChanged]:
    """Return the events of the files that a tool changed, from what Copilot says when the tool is done."""
    return [
        events.FileChanged(path=string(edit, "path"), kind=_KINDS.get(string(edit, "kind"), "update"))
        for edit in objects(data, "fileEdits")
    ]
