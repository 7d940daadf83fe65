"""Qwen Code's sessions on this machine: its chat files.

No line says that a turn is over. A turn counts as over once there is an answer without tool calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.fields import Object, json_text, obj, objects, string
from beam.agents.figures import usage_in
from beam.agents.session_files import (
    RecordReader,
    Session,
    SessionFiles,
    SessionReader,
    time_from_text,
    unknown_type,
)
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Usage

files = SessionFiles(
    folder="HOME/.qwen",
    below="projects",
    name=r"[^/]+/chats/[^/]+\.jsonl",
    like=r"[^/]+/chats/[^/]+\.jsonl\.[^/]+",
)


def reader(path: str) -> SessionReader:
    """Return a reader for the chat with this path below the folder of sessions."""
    return _Chat(path)


class _Chat(RecordReader):
    def __init__(self, path: str) -> None:
        super().__init__(Session(id=path.rpartition("/")[2].removesuffix(".jsonl")))

    def on_record(self, value: Object) -> Sequence[Event]:
        key = string(value, "uuid")
        if key and not self._maker.is_new(f"line {key}"):
            return ()
        at = time_from_text(string(value, "timestamp"))
        self._know(id=string(value, "sessionId"), cwd=string(value, "cwd"), model=string(value, "model"))
        parts = objects(obj(value, "message"), "parts")
        match string(value, "type"):
            case "user":
                return self._maker.prompt("\n".join(_texts(parts)), at)
            case "assistant":
                return self._on_answered(value, parts, at)
            case "tool_result":
                return self._on_returned(value, parts, at)
            case name:
                return unknown_type(name, ("system",))

    def _on_answered(self, value: Object, parts: list[Object], at: str) -> list[Event]:
        maker = self._maker
        if used := obj(value, "usageMetadata"):
            maker.count_call(string(value, "uuid"), _usage(used))
        found: list[Event] = []
        calls = [call for part in parts if (call := obj(part, "functionCall"))]
        for part in parts:
            if part.get("thought") is True:
                found += maker.thinking(string(part, "text"), at)
        found += maker.text("".join(_texts(parts)), at)
        for call in calls:
            found += maker.on_called(string(call, "id"), string(call, "name"), call.get("args"), at)
        return found if calls else [*found, *maker.end_turn(at, self.session.model)]

    def _on_returned(self, value: Object, parts: list[Object], at: str) -> list[Event]:
        result = obj(value, "toolCallResult")
        status, shown = string(result, "status"), obj(result, "resultDisplay")
        found: list[Event] = []
        for part in parts:
            if answer := obj(part, "functionResponse"):
                response = obj(answer, "response")
                output = string(response, "output") or json_text(response)
                found += self._maker.on_returned(string(answer, "id"), output, at, is_error=status == "error")
        if status == "success" and "fileDiff" in shown and (path := string(shown, "filePath")):
            found.append(events.FileChanged(ts=at, path=path))
        return found


def _texts(parts: list[Object]) -> list[str]:
    return [string(part, "text") for part in parts if part.get("thought") is not True]


def _usage(used: Object) -> Usage:
    return usage_in(
        used,
        given="promptTokenCount",
        output="candidatesTokenCount",
        cached="cachedContentTokenCount",
        reasoning="thoughtsTokenCount",
    )
