"""Turns Kimi Code's JSON Lines into events.

The line `session.resume_hint` says that the turn is over and succeeded. It is also the first line that has the
session's id. The output has no figures, and does not say whether a tool failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents.base import Exit, Turn, Verdict, document
from beam.agents.failures import class_of
from beam.agents.fields import Object, integer, obj, object_of, objects, string
from beam.agents.oneshot import Failure, OutputSummary, read, verdict
from beam.model import events
from beam.model.events import Event

_ERROR = re.compile(r"^error: (?:failed to run prompt: )?(.*)$", re.MULTILINE)
# What its tools for files say when they changed one. Kimi marks a failure nowhere else.
_CHANGED = re.compile(r"(?:Replaced \d+ occurrences? in |(?:Wrote|Appended) \d+ bytes to )")
_WRITE_TOOLS = ("Write", "Edit")
_NO_SESSION = 'Session "{}" not found.'


class LineDecoder:
    """The decoder of the output of one process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = OutputSummary(name="kimi", model=turn.model)
        self._version = ""
        self._writes: dict[str, str] = {}  # the paths of calls that change a file, by their ids

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line."""
        return read(line, self._decode)

    def _decode(self, value: Object) -> list[Event]:
        role, summary = string(value, "role"), self._summary
        if role == "assistant":
            return self._assistant(value)
        if role == "tool":
            return self._on_returned(string(value, "tool_call_id"), _text(value.get("content")))
        kind = string(value, "type")
        if kind == "system.version":
            self._version = string(value, "version")
            return []
        if kind == "turn.step.retrying":
            return summary.retrying(
                string(value, "error_message"), attempt=integer(value, "failed_attempt"), of=_retries(value)
            )
        if kind == "session.resume_hint":
            summary.ended = "stop"
            return summary.on_opened(self._turn, string(value, "session_id"), version=self._version or None)
        return [events.Unknown(what=f"{role or 'no role'}/{kind}")]

    def _assistant(self, value: Object) -> list[Event]:
        summary = self._summary
        summary.texts = []
        emitted: list[Event] = []
        thinking = string(value, "reasoning_content")
        if thinking:
            emitted.append(events.Thinking(text=thinking))
        emitted += summary.text(_text(value.get("content")))
        for call in objects(value, "tool_calls"):
            function = obj(call, "function")
            call_id, name = string(call, "id"), string(function, "name")
            arguments = _decoded_arguments(string(function, "arguments"))
            emitted += summary.on_called(call_id, name, arguments)
            if name in _WRITE_TOOLS:
                self._writes[call_id] = string(object_of(arguments), "path")
        return emitted

    def _on_returned(self, call_id: str, output: str) -> list[Event]:
        emitted, path = self._summary.on_returned(call_id, output), self._writes.pop(call_id, "")
        return [*emitted, events.FileChanged(path=path)] if path and _CHANGED.match(output) else emitted

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the verdict. Failures are reported on stderr only, mixed with the output of the tools there."""
        summary = self._summary
        gone = _NO_SESSION.format(self._turn.session_id)
        if self._turn.session_id and not summary.ended and gone in exit.stderr_tail:
            summary.lost = gone
        elif not summary.ended and exit.code and (errors := _ERROR.findall(exit.stderr_tail)):
            summary.failure = Failure(class_of(None, errors[-1]), errors[-1])
        return verdict(self._turn, exit, summary)


def _retries(value: Object) -> int | None:
    """Return how often Kimi tries again at the most; None if the line does not say so."""
    attempts = integer(value, "max_attempts")
    return None if attempts is None else max(0, attempts - 1)


def _decoded_arguments(arguments: str) -> object:
    try:
        value: object = document(arguments.encode("utf-8", "replace"))
    except ValueError:
        return arguments
    return value


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(string(part, "text") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
