"""Codex's rollout files: where they are, and what one of their lines says about a turn.

A rollout is append-only JSON Lines, one file per thread, written in terminal mode and by `codex exec` alike. Codex
chooses the thread's id, so the file of a new thread is known only by its content.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence

from beam.agents.base import Host, Transcript, Turn, Verdict, json_object, raw_json
from beam.agents.codex import legacy
from beam.agents.codex.trouble import UNASKED, end_in, failure_class
from beam.agents.failures import unwrap_api_message
from beam.agents.fields import Object, integer, message_text, obj, string, strings
from beam.agents.figures import usage_of
from beam.agents.oneshot import VERDICT_BY_END
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Status, Total, Usage

tells_end = True


def where(turn: Turn, host: Host) -> str:
    """Return a glob pattern for the thread's rollout file; for a new thread, a pattern that matches all rollout
    files."""
    thread = f"-{turn.session_id}" if turn.session_id else ""
    return f"{glob.escape(host.home)}/.codex/sessions/*/*/*/rollout-*{thread}.jsonl"


def transcript(turn: Turn) -> Transcript:
    """Return a reader of the lines that this turn adds."""
    return _RolloutReader(turn)


class _RolloutReader:
    """Reads one turn of a rollout file: from the person's text to the line that says that the task is complete."""

    def __init__(self, turn: Turn) -> None:
        self.state = ""
        self.error: str | None = None
        self._turn = turn
        self._thread_id = turn.session_id or ""
        self._cwd = turn.cwd
        self._turn_id = ""
        self._last_turn_id = ""
        self._is_legacy = False
        self._model: str | None = None
        self._texts: list[str] = []
        self._usage = Usage()
        self._calls: set[str] = set()
        self._class = Class.UNKNOWN
        self._interrupted = False
        self._end = ""  # how the answer ended, if not whole: `length` or `refused`
        self._is_unasked = False  # a turn ended without a prompt: a hook kept it from the model

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. Never raises."""
        value = json_object(line)
        if value is None:
            return (events.Unknown(what="not JSON"),) if self.state and line.strip() else ()
        payload = obj(value, "payload")
        match string(value, "type"):
            case "session_meta":
                self._thread_id = string(payload, "id") or self._thread_id
                self._cwd = string(payload, "cwd")
                self._is_legacy = legacy.is_legacy(payload)
            case "turn_context":
                self._last_turn_id = string(payload, "turn_id") or self._last_turn_id
                self._model = string(payload, "model") or self._model
            case "token_usage_record" if self._is_of_this_turn(payload):
                self._calls.add(string(payload, "response_id"))
                self._usage = usage_of(_total(obj(payload, "turn_token_usage")), calls=len(self._calls))
                total = _total(obj(payload, "thread_token_usage"))
                return (events.UsageSeen(usage=self._usage, total=total),)
            case "event_msg":
                return self._on_event(payload)
            case "response_item" if self._is_legacy and self._is_running():
                return self._on_response(payload)
        return ()

    def verdict(self) -> Verdict:
        """Return the verdict: the answer and its tokens, or why there is no answer."""
        verdict = Verdict(
            status=Status.COMPLETED,
            reply="\n\n".join(self._texts) or None,
            session_id=self._thread_id or None,
            model=self._model,
            usage=self._usage,
        )
        if self._is_unasked:
            why = {"status": Status.FAILED, "class_": Class.STOPPED, "reason": UNASKED, "lossy": True}
        elif self._end:
            status, class_, reason = VERDICT_BY_END[self._end]
            why = {"status": status, "class_": class_, "reason": reason}
            if status is Status.TRUNCATED:
                why["reply"] = verdict.reply or None
        elif self.error:
            why = {"status": Status.FAILED, "class_": self._class, "reason": self.error}
        elif self._interrupted:
            why = {"status": Status.CANCELLED, "reason": "it was interrupted"}
        else:
            return verdict
        from msgspec import structs

        return structs.replace(verdict, **{"reply": None, **why})

    def _is_of_this_turn(self, payload: Object) -> bool:
        return bool(self.state) and string(payload, "turn_id") == self._turn_id

    def _ended_unasked(self, payload: Object) -> bool:
        """Return whether this line ends a turn that began in this folder and never had a prompt. A slash command has
        none either."""
        is_last = string(payload, "turn_id") == self._last_turn_id != ""
        is_silent = not string(payload, "last_agent_message") and not obj(payload, "error")
        is_here = self._cwd == self._turn.cwd and not self._turn.text.lstrip().startswith("/")
        return is_last and is_silent and is_here

    def _on_event(self, payload: Object) -> Sequence[Event]:
        kind = string(payload, "type")
        if kind in ("task_started", "turn_started"):
            self._last_turn_id = string(payload, "turn_id") or self._last_turn_id
        if kind == "item_completed" and self.state == "":
            item = obj(payload, "item")
            is_prompt = string(item, "type") == "UserMessage"
            return self._on_prompt(message_text(item), string(payload, "turn_id")) if is_prompt else ()
        if kind == "user_message" and self.state == "":
            self._is_legacy = True  # the thread's first line may be older than the turn
            return self._on_prompt(string(payload, "message"), self._last_turn_id)
        if self.state == "":
            if kind == "task_complete" and self._ended_unasked(payload):
                self.state, self._is_unasked = "done", True
            return ()
        if kind in ("agent_message", "agent_reasoning") and self._is_legacy and self._is_running():
            text = string(payload, "message") or string(payload, "text")
            return self._on_text(text) if kind == "agent_message" else (events.Thinking(text=text),)
        if not self._is_of_this_turn(payload):
            return ()
        if kind == "item_completed":
            item = obj(payload, "item")
            read = _ITEM_KINDS.get(string(item, "type"))
            return () if read is None else read(self, item)
        if kind in ("task_complete", "turn_aborted"):
            self.state = "done"
            self._interrupted = kind == "turn_aborted"
            last = string(payload, "last_agent_message")
            self._texts = [last] if last else self._texts
            if failure := obj(payload, "error"):
                message = string(failure, "message") or string(failure, "codex_error_info") or "it failed"
                self._end = end_in(message)
                if self._end:
                    return (events.Notice(text=message, code="incomplete"),)
                self.error, self._class = unwrap_api_message(message), failure_class(message)
                return (events.Notice(text=self.error, code="api_error"),)
        return ()

    def _is_running(self) -> bool:
        """Return whether the records that name no turn belong to this one."""
        return self.state == "working" and self._last_turn_id == self._turn_id

    def _on_prompt(self, text: str, turn_id: str) -> Sequence[Event]:
        """Begin the turn if this is its prompt: the same text, in the same folder."""
        if self._cwd != self._turn.cwd or text.strip() != self._turn.text.strip():
            return ()
        self.state = "working"
        self._turn_id = turn_id
        resumed = bool(self._turn.session_id)
        return (events.SessionStarted(session_id=self._thread_id, resumed=resumed, cwd=self._cwd, model=self._model),)

    def _on_response(self, item: Object) -> Sequence[Event]:
        """Return the events of a call in a thread from before version 0.148."""
        if call := legacy.called(item):
            self._texts = []
            call_id, name, given = call
            return (events.ToolCalled(call_id=call_id, name=name, input=raw_json(given)),)
        if back := legacy.returned(item):
            call_id, output, is_error = back
            return (events.ToolReturned(call_id=call_id, output=output, is_error=is_error),)
        return ()

    def _on_answered(self, item: Object) -> Sequence[Event]:
        return self._on_text(message_text(item))

    def _on_text(self, text: str) -> Sequence[Event]:
        self._texts.append(text)
        return (events.Text(text=text),) if text else ()

    def _on_thought(self, item: Object) -> Sequence[Event]:
        text = "\n\n".join(strings(item, "summary_text"))
        return (events.Thinking(text=text),) if text else ()

    def _on_command(self, item: Object) -> Sequence[Event]:
        self._texts = []
        call_id, code = string(item, "id"), integer(item, "exit_code")
        output = string(item, "aggregated_output")
        return (
            events.ToolCalled(call_id=call_id, name="shell", input=raw_json({"command": item.get("command")})),
            events.ToolReturned(
                call_id=call_id,
                output=f"{output}[exit code {code}]" if code else output,
                is_error=string(item, "status") in ("failed", "declined"),
            ),
        )

    def _on_changed(self, item: Object) -> Sequence[Event]:
        self._texts = []
        if string(item, "status") in ("failed", "declined"):
            return ()
        return tuple(events.FileChanged(path=path, kind="update") for path in obj(item, "changes"))


_ITEM_KINDS: dict[str, Callable[[_RolloutReader, Object], Sequence[Event]]] = {
    "AgentMessage": _RolloutReader._on_answered,
    "Reasoning": _RolloutReader._on_thought,
    "CommandExecution": _RolloutReader._on_command,
    "FileChange": _RolloutReader._on_changed,
}


def usage_of_record(used: Object) -> Usage:
    """Return the figures of one model call."""
    return usage_of(_total(used), calls=1)


def _total(used: Object) -> Total:
    """Return the figures as in headless mode: `input_tokens` does not include tokens from a cache."""
    given, cached = integer(used, "input_tokens"), integer(used, "cached_input_tokens")
    return Total(
        input_tokens=None if given is None else max(0, given - (cached or 0)),
        output_tokens=integer(used, "output_tokens"),
        cached_tokens=cached,
        reasoning_tokens=integer(used, "reasoning_output_tokens"),
        cache_write_tokens=integer(used, "cache_write_input_tokens"),
    )
