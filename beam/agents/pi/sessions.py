"""pi's sessions on this machine: one file of entries per session."""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.fields import Object, message_text, number, obj, objects, string
from beam.agents.pi.decode import usage_of_call
from beam.agents.session_files import (
    RecordReader,
    Session,
    SessionFiles,
    SessionReader,
    time_from_text,
    unknown_type,
)
from beam.model.events import Event

files = SessionFiles(
    folder="HOME/.pi/agent",
    moved_by="PI_CODING_AGENT_DIR",
    below="sessions",
    name=r"[^/]+/[^/]+\.jsonl",
    like=r"[^/]+/[^/]+\.jsonl\.[^/]+",
)
_QUIET = (
    "model_change",
    "thinking_level_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "session_info",
    "message of bashExecution",
    "message of branchSummary",
    "message of compactionSummary",
    "message of custom",
    "message of system",
)


def reader(path: str) -> SessionReader:
    """Return a reader for the file with this path below the folder of sessions."""
    return _Entries(path)


class _Entries(RecordReader):
    def __init__(self, path: str) -> None:
        super().__init__(Session(id=path.rpartition("_")[2].removesuffix(".jsonl")))

    def on_record(self, value: Object) -> Sequence[Event]:
        if string(value, "type") == "session":
            self._know(id=string(value, "id"), cwd=string(value, "cwd"))
            return ()
        if string(value, "type") != "message":
            return unknown_type(string(value, "type"), _QUIET)
        if not self._maker.is_new(f"line {string(value, 'id')}"):
            return ()
        maker, at, message = self._maker, time_from_text(string(value, "timestamp")), obj(value, "message")
        match string(message, "role"):
            case "user":
                return maker.prompt(message_text(message), at)
            case "toolResult":
                failed = message.get("isError") is True
                return maker.on_returned(string(message, "toolCallId"), message_text(message), at, is_error=failed)
            case "assistant":
                return self._on_answered(string(value, "id"), message, at)
            case role:
                return unknown_type(f"message of {role}", _QUIET)

    def _on_answered(self, key: str, message: Object, at: str) -> list[Event]:
        maker, found = self._maker, list[Event]()
        self._know(model=string(message, "model"))
        used = obj(message, "usage")
        maker.count_call(key, usage_of_call(used), number(obj(used, "cost"), "total"))
        for block in objects(message, "content"):
            match string(block, "type"):
                case "text":
                    found += maker.text(string(block, "text"), at)
                case "thinking":
                    found += maker.thinking(string(block, "thinking"), at)
                case "toolCall":
                    given = block.get("arguments")
                    found += maker.on_called(string(block, "id"), string(block, "name"), given, at)
                case name:
                    found += unknown_type(f"block {name}")
        stop = string(message, "stopReason")
        if stop != "toolUse":
            why = string(message, "errorMessage") or stop if stop in ("error", "aborted") else ""
            found += maker.end_turn(at, self.session.model, why=why)
        return found
