"""Turns Gemini's stream-json lines, and the retries that only stderr reports, into events and a verdict.

Only the `result` line tells how the turn ended. The exit code is 0 for a truncated stream and for an interrupted turn,
and it is the low byte of the HTTP status for a failing API. Does not depend on how the process is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from beam.agents import oneshot
from beam.agents.base import Exit, Turn, Verdict, document, raw_json
from beam.agents.failures import class_of
from beam.agents.fields import Object, integer, obj, object_of, string
from beam.agents.figures import sum_calls
from beam.agents.gemini import wire
from beam.agents.gemini.hooks import HookLog
from beam.agents.gemini.session import is_beam_session_id
from beam.agents.gemini.wire import Line
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Denial, ModelUsage, Usage

_CHANGING_TOOLS = ("run_shell_command", "write_file", "replace", "save_memory", "mcp_")
WRITE_TOOLS = ("write_file", "replace")
_NOT_ALLOWED_ERRORS = ("tool_not_registered", "policy_violation")
_RETRY = re.compile(r"Attempt (\d{1,9}) failed(?: with status (\d{1,9}))?\. Retrying with backoff\.\.\.\s*(.*)")
_API_ERROR = re.compile(r"\[API Error: (.*)\]\Z", re.DOTALL)
_NO_SESSION = ('Invalid session identifier "{}"', "Error resuming session: No previous sessions found")
_NOISE = (
    *("Warning:", "Ripgrep is not available", "[STARTUP]", "YOLO mode is enabled", "Loaded cached"),
    *("Ignore file not found", "Experiments loaded", "experimentIds:", "flags:", "}", "Current heap size", "Hook "),
    *("[DEBUG]", "[AgentRegistry]", "[Routing]", "Session ID:", "Created execution plan", "Expanding hook command"),
)
_CLASS_BY_EXIT_CODE = {41: Class.AUTH, 42: Class.BAD_REQUEST, 52: Class.BAD_REQUEST, 55: Class.BAD_REQUEST}
_UNTRUSTED_TEXT = (
    "gemini does not run in a folder that nobody trusted: look at the folder, then `beam trust` (its own settings "
    "count from then on), or trust it in gemini itself"
)
_AT_RISK_TEXT = (
    "gemini itself made this session: its clean-up may remove it when another session is started in this folder, "
    "unless its settings say `general.sessionRetention.enabled: false`"
)
_BLOCKED_TEXT = "blocked due to "
_CUT_OFF_TEXT = "it exceeded the token limit"
_LIMIT_BY_WARNING = {"Loop detected, stopping execution": "loop", "Maximum session turns exceeded": "limit"}
_TURN_LIMIT_TEXT = "Reached max session turns for this session"
_HOOK_BLOCKED = "Agent execution blocked: "  # the model goes on after it, if the hook looked at an answer
_HOOK_STOPPED = "Agent execution stopped by hook: "
_HOOK_DENIED = "Tool execution blocked: "
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class LineDecoder:
    """The decoder of the output of one process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = oneshot.OutputSummary(name="gemini")
        self._calls: dict[str, tuple[str, Object]] = {}
        self._piece = ""
        self._error = ""
        self._hooks = HookLog()
        self._stop = ""  # the words of a hook that stopped a tool, and with it the turn
        self._blocked = ""  # the words of a hook that blocked the prompt, or what the model said last
        self._limit = ""  # how gemini itself stopped the model

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. If the line ends a streamed text, the event of the complete text comes first.
        Only the next event carries the line in `raw`."""
        record = wire.read(line)
        if record is None:
            return oneshot.non_json_events(line)
        if record.type == "message":
            return self._message(record, line)
        before, decode = self._pop_text(), _KINDS.get(record.type)
        emitted: list[Event] = (
            [events.Unknown(what=record.type or "no type")] if decode is None else decode(self, record)
        )
        return before + oneshot.with_raw_line(emitted, line)

    def error_line(self, line: bytes) -> Sequence[Event]:
        """Return the event of a retry if this line of stderr reports one. Only stderr reports retries, and which hook
        stopped the turn."""
        self._hooks.line(line)
        found = _RETRY.match(line.decode("utf-8", "replace"))
        if found is None:
            return ()
        http_status = int(found[2]) if found[2] else None
        why = _api_message(found[3].removeprefix("_ApiError: ").removeprefix("Error: "))
        return self._summary.retrying(why, attempt=int(found[1]), http_status=http_status)

    def _init(self, record: Line) -> list[Event]:
        model = record.model if record.model != "auto" else None
        emitted = self._summary.on_opened(self._turn, record.session_id, model=model)
        if emitted and self._turn.session_id and not is_beam_session_id(self._turn.session_id):
            emitted.append(events.Notice(text=_AT_RISK_TEXT, code="session_at_risk"))
        return emitted

    def _message(self, record: Line, line: bytes) -> list[Event]:
        is_delta = record.delta is True
        if is_delta and record.role == "assistant":
            self._blocked = ""
            self._piece += record.content
            return [events.TextDelta(text=record.content)] if record.content else []
        before = [] if is_delta else self._pop_text()
        if record.role == "user":
            return before
        if record.role == "assistant":
            emitted = self._summary.text(record.content)
        else:
            emitted = [events.Unknown(what=f"message/{record.role}")]
        return before + oneshot.with_raw_line(emitted, line)

    def _pop_text(self) -> list[Event]:
        text, self._piece = self._piece, ""
        return self._summary.text(text)

    def _on_called(self, record: Line) -> list[Event]:
        arguments = object_of(record.parameters)
        self._calls[record.tool_id] = (record.tool_name, arguments)
        self._blocked = ""
        return self._summary.on_called(record.tool_id, record.tool_name, arguments)

    def _on_returned(self, record: Line) -> list[Event]:
        name, arguments = self._calls.pop(record.tool_id, ("", {}))
        is_error = record.status != "success"
        emitted = self._summary.on_returned(record.tool_id, record.output or record.error.message, is_error=is_error)
        if not is_error and name in WRITE_TOOLS:
            emitted.append(events.FileChanged(path=string(arguments, "file_path")))
        if record.error.type == "stop_execution":
            self._stop = (record.output or record.error.message).removeprefix(_HOOK_STOPPED)
        is_changing = name.startswith(_CHANGING_TOOLS) and self._turn.access != "full"
        if record.error.type in _NOT_ALLOWED_ERRORS and (is_changing or record.error.message.startswith(_HOOK_DENIED)):
            self._summary.denials.append(Denial(tool=name, call_id=record.tool_id, input=raw_json(arguments)))
        return emitted

    def _on_error(self, record: Line) -> list[Event]:
        if record.severity != "warning":
            self._error = record.message
        if record.message.startswith(_HOOK_BLOCKED):
            self._blocked = record.message.removeprefix(_HOOK_BLOCKED)
        self._limit = _LIMIT_BY_WARNING.get(record.message, self._limit)
        return [events.Notice(text=record.message, code=record.severity or "error")]

    def _result(self, record: Line) -> list[Event]:
        stats = record.stats
        models = tuple(
            ModelUsage(model=name, usage=_usage(used))
            for name, used in object_of(stats.models).items()
            if isinstance(used, dict)
        )
        self._summary.model = models[-1].model if models else self._summary.model
        output_tokens = _output_tokens(stats.total_tokens, stats.input_tokens, stats.output_tokens)
        usage = Usage(input_tokens=stats.input, output_tokens=output_tokens, cached_tokens=stats.cached)
        failed = self._judge(record)
        if self._summary.failure is not None and not (usage.input_tokens or usage.output_tokens or usage.cached_tokens):
            usage = Usage()  # a turn that failed immediately has zeros, which mean that nothing was counted
        elif models and sum_calls(models)[0] == usage:
            self._summary.models = models
        self._summary.usage = usage
        return [events.UsageSeen(usage=usage), *failed]

    def _judge(self, record: Line) -> list[Event]:
        if record.status == "success":
            self._summary.ended = self._limit or "stop"
            return []
        text = _api_message(record.error.message) or self._error or "gemini gave no reason"
        for words, ended in ((_BLOCKED_TEXT, "refused"), (_CUT_OFF_TEXT, "length"), (_TURN_LIMIT_TEXT, "limit")):
            if words in text:
                self._summary.ended = ended
                return []
        cut_off = "without a finish reason" in text
        http_status = self._summary.retry.http_status if self._summary.retry else None
        class_ = Class.NETWORK if cut_off else _class_of(record.error.message, text, http_status)
        emitted = self._summary.on_failed(text, class_=class_)
        return [] if text == self._error else emitted

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return events for the calls that never returned, and the verdict. Without a `result` line, the turn was
        stopped or its process died."""
        emitted = self._pop_text()
        words = self._stop or self._blocked
        why = self._hooks.reason or (words and f"a hook stopped the turn: {words}")
        if why and self._summary.ended == "stop":
            emitted += self._summary.on_failed(why, class_=Class.STOPPED)
        if self._summary.session_id is None and exit.stopped_by is None:
            emitted += self._startup_failure(exit)
        quiet = msgspec.structs.replace(exit, stderr_tail="\n".join(_stderr_lines(exit)))
        last, verdict = oneshot.verdict(self._turn, quiet, self._summary)
        return [*emitted, *last], verdict

    def _startup_failure(self, exit: Exit) -> list[Event]:
        """Return the events of the error that gemini wrote to stderr instead of opening a session."""
        asked, record = self._turn.session_id, _stderr_lines(exit)
        if asked is not None and any(proof.format(asked) in line for proof in _NO_SESSION for line in record):
            self._summary.lost = f"gemini has no session {asked} in this folder"
            return []
        if exit.code == 55:
            return self._summary.on_failed(_UNTRUSTED_TEXT, class_=Class.BAD_REQUEST)
        if record and (exit.code in _CLASS_BY_EXIT_CODE or record[0].startswith("Unknown argument")):
            return self._summary.on_failed(record[0], class_=_CLASS_BY_EXIT_CODE.get(exit.code or 0, Class.BAD_REQUEST))
        return []


_KINDS: dict[str, Callable[[LineDecoder, Line], list[Event]]] = {
    "init": LineDecoder._init,
    "tool_use": LineDecoder._on_called,
    "tool_result": LineDecoder._on_returned,
    "error": LineDecoder._on_error,
    "result": LineDecoder._result,
}


def _output_tokens(total: int | None, prompts: int | None, answers: int | None) -> int | None:
    """Return the output with the thoughts: all tokens but those of the prompts. The reported output is without the
    thoughts."""
    if total is None or prompts is None or answers is None:
        return answers
    return max(answers, total - prompts)


def _usage(used: Object) -> Usage:
    total, prompts, answers = (integer(used, name) for name in ("total_tokens", "input_tokens", "output_tokens"))
    return Usage(
        input_tokens=integer(used, "input"),
        output_tokens=_output_tokens(total, prompts, answers),
        cached_tokens=integer(used, "cached"),
    )


def _stderr_lines(exit: Exit) -> list[str]:
    """Return the lines of stderr that are neither blank nor known noise, without colours, each up to 500 characters."""
    lines = [line.strip() for line in _COLOUR.sub("", exit.stderr_tail).splitlines()]
    return [line[:500] for line in lines if line and not line.startswith(_NOISE)]


def _class_of(message: str, text: str, http_status: int | None) -> Class:
    return class_of(integer(obj(_api_error_body(message), "error"), "code") or http_status, text)


def _api_message(text: str) -> str:
    """Return the message of an API error, without the text that gemini put around it."""
    return string(obj(_api_error_body(text), "error"), "message") or (
        found[1] if (found := _API_ERROR.match(text)) else text
    )


def _api_error_body(text: str) -> Object:
    """Return the body of the API's answer that the text quotes; {} if it quotes none."""
    found = _API_ERROR.match(text)
    try:
        value = document((found[1] if found else text).encode("utf-8", "replace"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
