"""Turns the JSON Lines of `vibe -p --output streaming` into events.

No last line says how the turn ended, and there are no figures. If the exit code is 0, the answer is the last message
that vibe kept (`committed`); after a tool call, there must be one. An answer that vibe threw away and asked for again
is `discarded`. vibe gives up after six of them, with exit code 3 and one line on stderr. Failures are reported on
stderr only. A tool call is reported once, when it is done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents.base import Exit, Turn, Verdict, raw_json
from beam.agents.fields import Object, obj, objects, string
from beam.agents.oneshot import OutputSummary, read, verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Denial

_NO_SESSION = "Error: Session not found: {}"
_ERROR = re.compile(r"^Error: (.+)", re.MULTILINE | re.DOTALL)
_STOPPED = 3  # the exit code if the model ended the turn in another way than with an answer
_CUT_OFF = "peer closed connection"
_WRITE_KINDS = ("file_write", "file_edit")
_READ_KIND = "file_read"


class LineDecoder:
    """The decoder of the output of one process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._summary = OutputSummary(name="vibe")
        self._has_called = False

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line."""
        return read(line, self._decode)

    def _decode(self, value: Object) -> list[Event]:
        opened = self._summary.on_opened(self._turn, string(value, "sessionId"))
        kind, role = string(value, "type"), string(value, "role")
        if kind == "effect":
            return opened + self._effect(value)
        if kind == "message" and role == "user":
            return opened
        if kind == "message" and role == "assistant":
            return opened + self._answer(value)
        return [*opened, events.Unknown(what=f"{kind}/{role}" if role else kind or "no type")]

    def _answer(self, value: Object) -> list[Event]:
        text = "".join(string(part, "text") for part in objects(value, "content"))
        if string(obj(value, "outcome"), "type") == "discarded":
            return [events.Notice(text=f"vibe threw an answer away and asks again: {text}", code="discarded")]
        self._summary.ended = "stop"
        return self._summary.text(text)

    def _effect(self, value: Object) -> list[Event]:
        summary, detail, state = self._summary, obj(value, "detail"), obj(value, "state")
        call_id, name, shown = string(value, "id"), string(detail, "toolName"), obj(state, "display")
        summary.ended, self._has_called = "", True
        emitted = summary.on_called(call_id, name, detail.get("input"))
        denied = string(obj(obj(state, "output"), "error"), "code") == "tool_denied"
        failed = string(state, "status") != "completed" or shown.get("success") is False
        if denied:
            # The tool was not offered, or is not allowed here. The model was told so, and continued.
            emitted += [events.Notice(text=f"{name} was denied", code="denied")]
        kind, result = string(detail, "kind"), obj(state, "output")
        output = string(state, "outputText") or (string(result, "content") if kind == _READ_KIND and not failed else "")
        output = output or (string(shown, "message") if failed else _screen_words(shown))
        emitted += summary.on_returned(call_id, output, is_error=failed)
        path = string(result, "filePath") or string(result, "file")
        if not failed and path and kind in _WRITE_KINDS:
            change = "add" if result.get("fileExisted") is False else "update"
            emitted.append(events.FileChanged(path=path, kind=change))
        if denied:
            summary.denials.append(Denial(tool=name, call_id=call_id, input=raw_json(detail.get("input"))))
        return emitted

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        """Return the verdict. The reason of a failed turn is read from stderr."""
        summary, turn = self._summary, self._turn
        if exit.code != 0:
            summary.ended = ""
        if turn.session_id is not None and _NO_SESSION.format(turn.session_id) in exit.stderr_tail.splitlines():
            summary.lost = _NO_SESSION.format(turn.session_id).removeprefix("Error: ")
        if exit.code == _STOPPED and exit.stderr_tail.rstrip().split("\n")[-1] == "Stopped: length":
            summary.ended = "length"
        if exit.code == 0 and exit.stopped_by is None and summary.session_id is not None and not self._has_called:
            summary.ended = "stop"  # vibe prints no message for an answer that has only thoughts
        match = _ERROR.search(exit.stderr_tail)
        before: list[Event] = []
        if exit.code and match and not summary.lost and exit.stopped_by is None:
            text = " ".join(match[1].split())[:500]
            before = summary.on_failed(text, class_=Class.NETWORK if text.startswith(_CUT_OFF) else None)
        emitted, found = verdict(turn, exit, summary)
        return before + emitted, found


def _screen_words(shown: Object) -> str:
    """Return the words that vibe's own screen shows about a call that succeeded."""
    return " ".join(word for word in (string(shown, "verb"), string(shown, "message")) if word)
