"""Cline's sessions on this machine: one document of messages per session, rewritten after each step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam.agents.cline.decode import is_failed_output, usage_of
from beam.agents.fields import Object, json_text, obj, objects, string
from beam.agents.session_files import (
    RecordReader,
    Session,
    SessionFiles,
    SessionReader,
    time_from_ms,
    unknown_type,
)
from beam.model.events import Event

files = SessionFiles(
    folder="HOME/.cline/data",
    moved_by="CLINE_DATA_DIR",
    below="sessions",
    name=r"[^/]+/[^/]+\.messages\.json",
    shape="document",
    like=r"[^/]+/[^/]+\.messages\.json[^/]+",
)
_USER_INPUT = re.compile(r"<user_input[^>]*>(.*?)</user_input>", re.DOTALL)
_FOLDER = re.compile(r"^\d+\. Working Directory: (.+)$", re.MULTILINE)


def reader(path: str) -> SessionReader:
    """Return a reader for the document with this path below the folder of sessions."""
    return _Document(path)


class _Document(RecordReader):
    def __init__(self, path: str) -> None:
        super().__init__(Session(id=path.partition("/")[0]))

    def on_record(self, value: Object) -> Sequence[Event]:
        folder = _FOLDER.search(string(value, "system_prompt")[:20_000])
        self._know(cwd=folder[1] if folder else "")
        found = [] if isinstance(value.get("messages"), list) else unknown_type("a document without messages")
        for message in objects(value, "messages"):
            if self._maker.is_new(f"message {string(message, 'id')}"):
                found += self._message(message)
        return found

    def _message(self, message: Object) -> list[Event]:
        maker, at, found = self._maker, time_from_ms(message.get("ts")), list[Event]()
        is_answer = string(message, "role") == "assistant"
        if is_answer:
            self._know(model=string(obj(message, "modelInfo"), "id"))
            maker.count_call(string(message, "id"), usage_of(obj(message, "metrics")))
        calls = 0
        for block in objects(message, "content"):
            match string(block, "type"):
                case "text" if is_answer:
                    found += maker.text(string(block, "text"), at)
                case "text":
                    text = string(block, "text")
                    asked = _USER_INPUT.search(text)
                    found += maker.prompt(asked[1] if asked else text, at)
                case "thinking":
                    found += maker.thinking(string(block, "thinking"), at)
                case "tool_use":
                    calls += 1
                    found += maker.on_called(string(block, "id"), string(block, "name"), block.get("input"), at)
                case "tool_result":
                    content = block.get("content")
                    output = content if isinstance(content, str) else json_text(content)
                    failed = block.get("is_error") is True or is_failed_output(content)
                    found += maker.on_returned(string(block, "tool_use_id"), output, at, is_error=failed)
                case name:
                    found += unknown_type(f"block {name}", ("block image", "block file", "block redacted_thinking"))
        return found if not is_answer or calls else [*found, *maker.end_turn(at, self.session.model)]
