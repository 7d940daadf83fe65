"""Continue's sessions on this machine: one document per session, without times, rewritten after each step."""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.fields import Object, obj, objects, string
from beam.agents.figures import usage_in
from beam.agents.session_files import RecordReader, Session, SessionFiles, SessionReader, unknown_type
from beam.model.events import Event
from beam.model.outcome import Usage

files = SessionFiles(
    folder="HOME/.continue",
    moved_by="CONTINUE_GLOBAL_DIR",
    below="sessions",
    name=r"[0-9a-f-]{36}\.json",
    shape="document",
)


def reader(path: str) -> SessionReader:
    """Return a reader for the document with this path below the folder of sessions."""
    return _Document(path)


class _Document(RecordReader):
    def __init__(self, path: str) -> None:
        super().__init__(Session(id=path.removesuffix(".json")))

    def on_record(self, value: Object) -> Sequence[Event]:
        self._know(cwd=string(value, "workspaceDirectory"))
        found = [] if isinstance(value.get("history"), list) else unknown_type("a document without a history")
        for number, entry in enumerate(objects(value, "history")):
            found += self._entry(number, entry)
        return found

    def _entry(self, number: int, entry: Object) -> list[Event]:
        maker, message = self._maker, obj(entry, "message")
        text = string(message, "content")
        role, calls = string(message, "role"), objects(message, "toolCalls")
        if role == "user":
            return maker.prompt(text, "") if maker.is_new(f"user {number}") else []
        if role != "assistant":
            return unknown_type(f"message of {role}", ("message of system", "message of tool", "message of thinking"))
        used, found = obj(message, "usage"), list[Event]()
        if used and maker.is_new(f"used {number}"):
            self._know(model=string(used, "model"))
            maker.count_call(str(number), _usage(used))
        if text.strip() and maker.is_new(f"text {number}"):
            found += maker.text(text, "")
        for state in objects(entry, "toolCallStates"):
            call_id, name = string(state, "toolCallId"), string(obj(obj(state, "toolCall"), "function"), "name")
            found += maker.on_called(call_id, name, state.get("parsedArgs"), "")
            status = string(state, "status")
            if status in ("done", "errored", "canceled"):
                output = "\n".join(string(part, "content") for part in objects(state, "output"))
                found += maker.on_returned(call_id, output, "", is_error=status != "done")
        if text.strip() and used and not calls and maker.is_new(f"idle {number}"):
            found += maker.end_turn("", self.session.model)
        return found


def _usage(used: Object) -> Usage:
    counts = used | obj(used, "prompt_tokens_details")
    return usage_in(counts, given="prompt_tokens", output="completion_tokens", cached="cached_tokens")
