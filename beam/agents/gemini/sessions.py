"""Gemini CLI's sessions on this machine: its chat files.

No line says that a turn is over. A turn counts as over once there is an answer without tool calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import json_object
from beam.agents.fields import Object, obj, objects, string
from beam.agents.gemini.history import output_of, usage_of_call
from beam.agents.session_files import EventMaker, Session, SessionFiles, SessionReader, time_from_text
from beam.model.events import Event

files = SessionFiles(
    folder="HOME",
    moved_by="GEMINI_CLI_HOME",
    below=".gemini/tmp",
    name=r"[^/]+/chats/session-[^/]+\.jsonl",
    beside="../.project_root",
)
_CLI_TEXT = "<session_context>"


def reader(path: str) -> SessionReader:
    """Return a reader for the chat with this path below the folder of sessions."""
    return _Chat(path)


class _Chat:
    def __init__(self, path: str) -> None:
        self.session = Session(id=path.rpartition("/")[2].removesuffix(".jsonl"))
        self._maker = EventMaker()

    def beside(self, data: bytes) -> None:
        """Read the file that names the project's folder; `data` is its content."""
        cwd = data.decode("utf-8", "replace").strip()
        self.session = Session(id=self.session.id, cwd=cwd, model=self.session.model)

    def read(self, data: bytes) -> Sequence[Event]:
        value = json_object(data)
        if value is None:
            return ()
        if own := string(value, "sessionId"):
            self.session = Session(id=own, cwd=self.session.cwd, model=self.session.model)
        at = time_from_text(string(value, "timestamp"))
        match string(value, "type"):
            case "user" if not self._maker.is_new(f"user {string(value, 'id')}"):
                return ()
            case "user":
                text = _text(value)
                return () if not text.strip() or text.startswith(_CLI_TEXT) else self._maker.prompt(text, at)
            case "gemini":
                return self._on_answered(value, at)
        return ()

    def _on_answered(self, value: Object, at: str) -> list[Event]:
        maker, message_id, text = self._maker, string(value, "id"), _text(value)
        self.session = Session(id=self.session.id, cwd=self.session.cwd, model=string(value, "model") or None)
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


def _text(value: Object) -> str:
    content = value.get("content")
    if isinstance(content, str):
        return content
    return "".join(string(part, "text") for part in objects(value, "content"))
