"""Turns the JSON Lines of `opencode run` and `kilo run` into events.

No last line says how the turn ended. The turn completed if a step finished with `stop` and no error came. A tool call
is reported once, when it is done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents.base import Exit, Turn, Verdict, raw_json
from beam.agents.failures import class_of
from beam.agents.fields import Object, integer, number, obj, objects, string
from beam.agents.oneshot import OutputSummary, read, verdict
from beam.agents.opencode.rules import left_out_tools
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Denial, Usage

_NO_SESSION = re.compile(r"^(?:\x1b\[[\d;]*m)*Error: (?:\x1b\[[\d;]*m)*Session not found\s*$", re.MULTILINE)
# The log of errors on stderr has each request that failed; a request with `small=true` is for a title.
_LOGGED_ERROR = re.compile(r'.* level=ERROR .*message="stream error" .*small=false .*error\.error="(?:\w+: )?([^"]*)')
_RETRIED_CLASSES = (Class.OVERLOADED, Class.RATE_LIMIT, Class.NETWORK, Class.STALLED)
_RULE_TEXT = "The user has specified a rule which prevents"  # with `full`, this is one of the person's own rules
DENIED_TEXTS = ("The user rejected permission", _RULE_TEXT)
_END_BY_REASON = {"stop": "stop", "length": "length", "content-filter": "refused"}
_CLASS_BY_NAME = {"ContextOverflowError": Class.CONTEXT_OVERFLOW, "ProviderAuthError": Class.AUTH}
_WRITE_TOOLS = ("write", "edit", "apply_patch", "patch", "multiedit")


SUBAGENT = "task"  # the tool that starts one


class LineDecoder:
    """The decoder of the output of one process of `program`."""

    def __init__(self, turn: Turn, program: str) -> None:
        self._turn = turn
        self._summary = OutputSummary(name=program, model=turn.model)
        self._attempt = 0

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line."""
        return read(line, self._decode)

    def error_line(self, line: bytes) -> Sequence[Event]:
        """Return the event of a retry if this line of stderr reports one. Stdout does not report retries."""
        found = _LOGGED_ERROR.match(line[:4096].decode("utf-8", "replace")) if b"stream error" in line else None
        if found is None or class_of(None, found[1]) not in _RETRIED_CLASSES:
            return ()
        self._attempt += 1
        return self._summary.retrying(found[1], attempt=self._attempt)

    def _decode(self, value: Object) -> list[Event]:
        summary, kind, part = self._summary, string(value, "type"), obj(value, "part")
        opened = summary.on_opened(self._turn, string(value, "sessionID"))
        match kind:
            case "step_start":
                summary.ended, summary.texts = "", []
                return opened
            case "text":
                return opened + summary.text(string(part, "text"))
            case "reasoning":
                text = string(part, "text")
                return opened + ([events.Thinking(text=text)] if text else [])
            case "tool_use":
                return opened + self._tool(part)
            case "step_finish":
                self._attempt = 0
                summary.ended = _END_BY_REASON.get(string(part, "reason"), "")
                return opened + summary.counted(usage_of_call(obj(part, "tokens")), number(part, "cost"))
            case "error":
                return opened + self._on_failed(obj(value, "error") or {"message": value.get("error")})
        return [*opened, events.Unknown(what=kind or "no type")]

    def _tool(self, part: Object) -> list[Event]:
        summary, state = self._summary, obj(part, "state")
        call_id, name, arguments = string(part, "callID"), string(part, "tool"), state.get("input")
        summary.partial |= name == SUBAGENT  # its calls are in a session of its own, which is not printed
        said = summary.texts  # the texts of this step, whose texts and tools come in any order
        emitted = summary.on_called(call_id, name, arguments)
        summary.texts = said
        if string(state, "status") != "error":
            emitted += summary.on_returned(call_id, string(state, "output"))
            return [*emitted, *file_changes(name, state)]
        error = string(state, "error")
        if error.startswith(DENIED_TEXTS) or name in left_out_tools(self._turn.access, self._turn.rules):
            by = "rule" if self._turn.access == "full" and error.startswith(_RULE_TEXT) else "default"
            summary.denials.append(Denial(tool=name, call_id=call_id, input=raw_json(arguments), by=by))
        return emitted + summary.on_returned(call_id, error, is_error=True)

    def _on_failed(self, error: Object) -> list[Event]:
        name, data = string(error, "name"), obj(error, "data")
        text = string(data, "message") or string(error, "message") or name or "it gave no reason"
        if name == "UnknownError" and text.startswith("Unexpected server error"):
            text += " (an unknown model causes this, and the session keeps it: name a valid one with --model)"
        return self._summary.on_failed(text, integer(data, "statusCode"), _CLASS_BY_NAME.get(name))

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the verdict. `Session not found` on stderr proves that the requested session does not exist."""
        summary = self._summary
        if self._turn.session_id and summary.session_id is None and _NO_SESSION.search(exit.stderr_tail):
            summary.lost = f"{summary.name} has no session {self._turn.session_id}"
        return verdict(self._turn, exit, summary)


def usage_of_call(tokens: Object) -> Usage:
    """Return the figures of one model call. OpenCode reports the output without the reasoning, and the input without
    the tokens that were written to a cache; both are added."""
    cache = obj(tokens, "cache")
    uncached, written = integer(tokens, "input"), integer(cache, "write")
    answer, reasoning = integer(tokens, "output"), integer(tokens, "reasoning")
    return Usage(
        input_tokens=None if uncached is None else uncached + (written or 0),
        output_tokens=None if answer is None else answer + (reasoning or 0),
        cached_tokens=integer(cache, "read"),
        reasoning_tokens=reasoning,
        cache_write_tokens=written,
        calls=1,
    )


def file_changes(name: str, state: Object) -> list[events.FileChanged]:
    """Return the events of the files that a tool changed. `state` is that of the call, which succeeded."""
    if name not in _WRITE_TOOLS:
        return []
    metadata = obj(state, "metadata")
    if patched := objects(metadata, "files"):
        kinds = {"add": "add", "delete": "delete"}
        return [
            events.FileChanged(path=path, kind=kinds.get(string(file, "type"), "update"))
            for file in patched
            if (path := string(file, "filePath"))
        ]
    path = string(metadata, "filepath") or string(obj(state, "input"), "filePath")
    return [events.FileChanged(path=path, kind="add" if metadata.get("exists") is False else "update")] if path else []
