"""Vibe's sessions on this machine: each session has a journal of several files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from beam.agents.base import json_object
from beam.agents.fields import Object, integer, json_text, obj, objects, string
from beam.agents.figures import usage_in
from beam.agents.session_files import (
    AnswerEnd,
    RecordReader,
    Session,
    SessionFiles,
    SessionReader,
    time_from_ms,
    unknown_type,
)
from beam.model.events import Event
from beam.model.outcome import Usage

files = SessionFiles(
    folder="HOME/.vibe",
    moved_by="VIBE_HOME",
    below="logs/session/unified",
    name=r"[^/]+/journal/\d+\.jsonl",
    beside="../meta.json",
    tells_asks=True,
    programs=("vibe-rs",),  # on a terminal
    like=r"[^/]+/journal/\d+\.jsonl\.[^/]+",
)
_QUIET = (
    "command_reserved",
    "core_input",
    "projection_delta",
    "action_intent",
    "callback_registered",
    "receipt_succeeded",
    "receipt_failed",
)
_ENDS: Mapping[str, Literal["length", "refused"]] = {"content_filter": "refused", "length": "length"}


def reader(path: str) -> SessionReader:
    """Return a reader for the file with this path below the folder of sessions."""
    return _Journal(path)


def answer_end(record: bytes) -> AnswerEnd | None:
    """Return how the answer in a line of the file ended; None for a line about anything else."""
    if b'"finish_reason"' not in record:
        return None
    value = json_object(record) or {}
    given = obj(obj(value, "payload"), "input")
    reason = string(obj(obj(given, "command"), "result"), "finish_reason")
    if string(value, "type") != "core_input" or not reason:
        return None
    how: Literal["stop", "length", "refused"] = _ENDS.get(reason, "stop")
    return AnswerEnd(how=how, at_ms=integer(obj(given, "determinism"), "time_unix_ms") or 0)


class _Journal(RecordReader):
    def __init__(self, path: str) -> None:
        super().__init__(Session(id=path.partition("/")[0]))

    def beside(self, data: bytes) -> None:
        """Read the file that names the folder and the model; `data` is its content."""
        value = json_object(data) or {}
        cwd = string(obj(value, "environment"), "working_directory")
        self._know(cwd=cwd, model=string(obj(value, "config"), "active_model"))

    def on_record(self, value: Object) -> Sequence[Event]:
        payload, found = obj(value, "payload"), list[Event]()
        match string(value, "type"):
            case "action_result":
                result = obj(obj(payload, "result"), "result")
                if used := obj(result, "usage"):
                    self._maker.count_call(string(payload, "action_id"), _usage(used))
            case "callback_registered" if string(payload, "kind") == "approval":
                found += self._on_approval_asked(payload)
            case "callback_resolved":
                word = string(obj(obj(obj(payload, "result"), "output"), "decision"), "type")
                allowed = word.startswith("approve")
                found += self._maker.on_decided(
                    string(payload, "callback_id"),
                    "",
                    decision="allow" if allowed else "deny" if word == "deny" else "cancelled",
                )
            case name:
                found += unknown_type(name, _QUIET)
        for step in objects(payload, "delta"):
            match string(step, "op"):
                case "set_envelope":
                    found += self._on_envelope(obj(step, "state"))
                case "append_entry" | "replace_entry" | "update_entry":
                    found += self._on_entry(obj(step, "entry"))
                case name:
                    found += unknown_type(f"delta {name}")
        return found

    def _on_approval_asked(self, payload: Object) -> list[Event]:
        routing = obj(payload, "routing")
        effect, at = obj(obj(routing, "detail"), "effect"), time_from_ms(routing.get("createdAt"))
        ask_id, tool = string(payload, "callback_id"), string(effect, "toolName")
        return self._maker.on_asked(
            ask_id, tool, effect.get("input"), at, call_id=string(routing, "relatedEntryId") or None
        )

    def _on_entry(self, entry: Object) -> list[Event]:
        maker, at = self._maker, time_from_ms(entry.get("updatedAt"))
        key, is_done = string(entry, "id"), string(entry, "generationStatus") == "completed"
        if string(entry, "type") == "effect":
            detail = obj(entry, "detail")
            began = time_from_ms(entry.get("createdAt"))
            found = maker.on_called(key, string(detail, "toolName"), detail.get("input"), began)
            state = obj(entry, "state")
            if is_done:
                output = obj(state, "output")
                text = string(state, "outputText") or json_text(output.get("structured_content", output))
                failed = obj(state, "display").get("success") is False
                found += maker.on_returned(key, text, at, is_error=failed)
            return found
        text = "".join(string(part, "text") for part in objects(entry, "content"))
        if string(entry, "type") != "message" or not is_done or not maker.is_new(f"entry {key}"):
            return []
        return maker.prompt(text, at) if string(entry, "role") == "user" else maker.text(text, at)

    def _on_envelope(self, state: Object) -> list[Event]:
        turn = obj(state, "latestTurn")
        status = string(turn, "status")
        if status in ("", "in_progress", "queued") or not self._maker.is_new(f"turn {string(turn, 'id')}"):
            return []
        why = "" if status == "completed" else status
        return self._maker.end_turn(time_from_ms(turn.get("completedAt")), self.session.model, why=why)


def _usage(used: Object) -> Usage:
    return usage_in(used, given="input_tokens", output="output_tokens", cached="cached_input_tokens")
