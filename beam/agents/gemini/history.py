"""Gemini's chat files: where they are, and how one turn is read from their lines.

A file is append-only JSON Lines: a header, messages, and `$set` records that write messages again. A message may come
twice under one id, the second time with its tool calls. So no line says that a turn is over.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence

from beam.agents.base import Host, Transcript, Turn, Verdict, json_object, raw_json
from beam.agents.fields import Object, integer, json_text, message_text, obj, objects, string
from beam.agents.figures import sum_calls
from beam.agents.gemini.decode import WRITE_TOOLS
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import ModelUsage, Status, Usage

tells_end = False


def where(turn: Turn, host: Host) -> str:
    """Return a glob pattern that matches the session's file, because beam does not know the minute in the file's name,
    or the name of its folder."""
    session_id = _session_id(turn)
    return f"{glob.escape(host.home)}/.gemini/tmp/*/chats/session-*-{session_id[:8]}.jsonl" if session_id else ""


def transcript(turn: Turn) -> Transcript:
    """Return a reader of the lines that this turn adds."""
    return _ChatReader(turn)


def _session_id(turn: Turn) -> str:
    from beam.agents.gemini.session import beam_session_id

    return turn.session_id or (beam_session_id(turn.fresh_session_id) if turn.fresh_session_id else "")


class _ChatReader:
    """Reads one turn from a chat file, beginning with the person's text."""

    def __init__(self, turn: Turn) -> None:
        self.state = ""
        self.error: str | None = None
        self._turn = turn
        self._texts: dict[str, str] = {}
        self._usage: dict[str, ModelUsage] = {}
        self._reported_calls: set[str] = set()
        self._model: str | None = None
        self._is_over = False

    def line(self, line: bytes) -> Sequence[Event]:
        """Return the events of this line. Never raises."""
        value = json_object(line)
        if value is None:
            return (events.Unknown(what="not JSON"),) if self.state and line.strip() else ()
        match string(value, "type"):
            case "user" if self.state == "" and message_text(value).strip() == self._turn.text.strip():
                self.state = "working"
                session_id, resumed = _session_id(self._turn), bool(self._turn.session_id)
                return (events.SessionStarted(session_id=session_id, resumed=resumed, cwd=self._turn.cwd),)
            case "user" if self.state and not _is_tool_result(value):
                self._is_over = True  # after an interrupt, gemini writes the conversation so far again
            case "gemini" if self.state and not self._is_over:
                return self._on_answered(value)
        return ()

    def verdict(self) -> Verdict:
        """Return the answer and its tokens."""
        usage, models = sum_calls(self._usage.values())
        return Verdict(
            status=Status.COMPLETED,
            reply="\n\n".join(text for text in self._texts.values() if text) or None,
            session_id=_session_id(self._turn),
            model=self._model,
            usage=usage,
            models=models,
        )

    def _on_answered(self, value: Object) -> list[Event]:
        message_id, text = string(value, "id"), message_text(value)
        self._model = string(value, "model") or self._model
        tokens = obj(value, "tokens")
        if tokens:
            self._usage[message_id] = ModelUsage(model=self._model or "", usage=usage_of_call(tokens))
        emitted: list[Event] = []
        calls = objects(value, "toolCalls")
        if calls:
            self._texts = {}
        elif text:
            self._texts[message_id] = text
        if text and message_id not in self._reported_calls:
            self._reported_calls.add(message_id)
            emitted.append(events.Text(text=text))
        for call in calls:
            emitted += self._on_called(call)
        return emitted

    def _on_called(self, call: Object) -> list[Event]:
        call_id, status = string(call, "id"), string(call, "status")
        emitted: list[Event] = []
        if f"called {call_id}" not in self._reported_calls:
            self._reported_calls.add(f"called {call_id}")
            emitted.append(
                events.ToolCalled(call_id=call_id, name=string(call, "name"), input=raw_json(obj(call, "args")))
            )
        if status in ("success", "error", "cancelled") and f"returned {call_id}" not in self._reported_calls:
            self._reported_calls.add(f"returned {call_id}")
            output = output_of(call)
            emitted.append(events.ToolReturned(call_id=call_id, output=output, is_error=status != "success"))
            if status == "success" and string(call, "name") in WRITE_TOOLS:
                emitted.append(events.FileChanged(path=string(obj(call, "args"), "file_path")))
        return emitted


def usage_of_call(tokens: Object) -> Usage:
    """Return the figures of one model call. Gemini writes the output without the thoughts, which are added."""
    given, cached = integer(tokens, "input"), integer(tokens, "cached")
    answer, thoughts = integer(tokens, "output"), integer(tokens, "thoughts")
    return Usage(
        input_tokens=None if given is None else max(0, given - (cached or 0)),
        output_tokens=None if answer is None else answer + (thoughts or 0),
        cached_tokens=cached,
        reasoning_tokens=thoughts,
        calls=1,
    )


def output_of(call: Object) -> str:
    """Return the output of a call: the text of its result, or the whole result as JSON if it has another form."""
    responses = [obj(obj(part, "functionResponse"), "response") for part in objects(call, "result")]
    texts = [string(response, "output") or string(response, "error") for response in responses]
    return "\n".join(texts) if texts and all(texts) else json_text(call.get("result"))


def _is_tool_result(value: Object) -> bool:
    """Return whether a record in the user's role holds tool results."""
    parts = objects(value, "content")
    return bool(parts) and all("functionResponse" in part for part in parts)
