"""Gemini CLI's sessions on this machine: its chat files, including those of subagents, and the documents of versions
before `.jsonl`.

No line says that a turn is over. A turn counts as over once there is an answer without tool calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import json_object
from beam.agents.fields import Object, message_text, obj, objects, string, strings
from beam.agents.gemini.history import output_of, usage_of_call
from beam.agents.session_files import (
    RecordReader,
    Session,
    SessionFiles,
    SessionReader,
    time_from_text,
    unknown_type,
)
from beam.base.clock import parse_rfc3339
from beam.model.events import Event, SessionIdle
from beam.model.outcome import Usage

files = SessionFiles(
    folder="HOME",
    moved_by="GEMINI_CLI_HOME",
    below=".gemini/tmp",
    name=r"[^/]+/chats/(?:session-[^/]+\.jsonl?|[^/]+/[^/]+\.jsonl)",
    like=r"[^/]+/chats/session-[^/]+",
    beside="../.project_root",
)
_CLI_TEXT = "<session_context>"
_QUIET = ("info", "error", "warning")


def reader(path: str) -> SessionReader:
    """Return a reader for the chat with this path below the folder of sessions."""
    return _Chat(path)


def usage_since(lines: Sequence[bytes], since_ms: int) -> Usage:
    """Return the sum of the model calls in these lines since `since_ms`. A message may come twice under one id."""
    calls: dict[str, Usage] = {}
    for line in lines:
        value = json_object(line)
        if value is None or string(value, "type") != "gemini" or not (tokens := obj(value, "tokens")):
            continue
        at = time_from_text(string(value, "timestamp"))
        if at and parse_rfc3339(at) // 1_000_000 >= since_ms:
            calls[string(value, "id")] = usage_of_call(tokens)
    total = Usage()
    for usage in calls.values():
        total = total.plus(usage)
    return total


class _Chat(RecordReader):
    def __init__(self, path: str) -> None:
        *folders, name = path.split("/")
        root = folders[-1] if len(folders) > 2 else ""  # the chat of a subagent is in a folder of its parent
        super().__init__(Session(id=name.removesuffix("l").removesuffix(".json"), root_id=root))
        self._seen: set[str] = set()
        self._ended = 0  # messages of a document whose turns are over

    def beside(self, data: bytes) -> None:
        """Read the file that names the project's folder; `data` is its content."""
        self._know(cwd=data.decode("utf-8", "replace").strip())

    def on_record(self, value: Object) -> Sequence[Event]:
        self._know(id=string(value, "sessionId"), cwd=next(iter(strings(value, "directories")), ""))
        if isinstance(value.get("messages"), list):
            return self._on_document(objects(value, "messages"))
        again = [one for one in objects(obj(value, "$set"), "messages") if string(one, "id") not in self._seen]
        return [event for one in (again or [value]) for event in self._on_message(one)]

    def _on_document(self, messages: list[Object]) -> list[Event]:
        """Return the events of the messages after the last turn that was told to its end."""
        found: list[Event] = []
        for number, message in enumerate(messages[self._ended :], self._ended + 1):
            told = self._on_message(message)
            found += told
            if any(isinstance(event, SessionIdle) for event in told):
                self._ended = number
        return found

    def _on_message(self, value: Object) -> list[Event]:
        at, kind = time_from_text(string(value, "timestamp")), string(value, "type")
        self._seen.add(string(value, "id"))
        if kind == "user":
            text = message_text(value)
            is_told = not self._maker.is_new(f"user {string(value, 'id')}")
            return [] if is_told or not text.strip() or text.startswith(_CLI_TEXT) else self._maker.prompt(text, at)
        if kind == "gemini":
            return self._on_answered(value, at)
        is_header = not kind and bool(value.keys() & {"$set", "$rewindTo", "sessionId"})
        return [] if is_header else unknown_type(kind, _QUIET)

    def _on_answered(self, value: Object, at: str) -> list[Event]:
        maker, message_id, text = self._maker, string(value, "id"), message_text(value)
        self._know(model=string(value, "model"))
        if tokens := obj(value, "tokens"):
            maker.count_call(message_id, usage_of_call(tokens))
        found: list[Event] = []
        for thought in objects(value, "thoughts"):
            said = f"{string(thought, 'subject')}: {string(thought, 'description')}"
            if maker.is_new(f"thought {message_id} {said}"):
                found += maker.thinking(said, at)
        if text.strip() and maker.is_new(f"text {message_id}"):
            found += maker.text(text, at)
        calls = objects(value, "toolCalls")
        for call in calls:
            call_id, status, done = (
                string(call, "id"),
                string(call, "status"),
                time_from_text(string(call, "timestamp")) or at,
            )
            found += maker.on_called(call_id, string(call, "name"), call.get("args"), at)
            if status in ("success", "error", "cancelled"):
                found += maker.on_returned(call_id, output_of(call), done, is_error=status != "success")
        if text.strip() and not calls:
            found += maker.end_turn(at, self.session.model)
        return found
