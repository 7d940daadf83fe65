"""OpenCode's sessions on this machine: rows of its database. Kilo has a database of the same format."""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import json_object
from beam.agents.fields import Object, integer, number, obj, string
from beam.agents.opencode.decode import usage_of_call
from beam.agents.session_files import EventMaker, ModelCall, Session, SessionFiles, SessionReader, time_from_ms
from beam.model.events import Event

_DAY_MS = 86_400_000
# The database has an index of a session's parts, but none of their times. So beam reads the parts of the last day's
# sessions.
_ROWS = """
SELECT p.time_updated, json_object('id', p.id, 'at', p.time_updated, 'session', s.id, 'parent', s.parent_id,
 'cwd', s.directory, 'role', json_extract(m.data, '$.role'), 'model', json_extract(m.data, '$.modelID'),
 'data', CASE WHEN length(p.data) < 1000000 THEN json(p.data) ELSE json_object() END)
FROM session s JOIN part p ON p.session_id = s.id JOIN message m ON m.id = p.message_id
"""
QUERY = f"""{_ROWS}
WHERE s.time_updated >= :since - {_DAY_MS} AND p.time_updated >= :since
ORDER BY p.time_created, p.id LIMIT 2000
"""
HISTORY = f"""{_ROWS}
WHERE s.id = :session ORDER BY p.time_created DESC, p.id DESC LIMIT 4000
"""
calls = """
SELECT time_created, json_object('prompt', json_extract(data, '$.parentID'), 'tokens', json_extract(data, '$.tokens'),
 'cost', json_extract(data, '$.cost'), 'end', json_extract(data, '$.finish'), 'error', json_extract(data, '$.error'))
FROM message WHERE session_id = :session AND time_created >= :since AND json_extract(data, '$.role') = 'assistant'
ORDER BY time_created LIMIT 2000
"""
files = SessionFiles(
    folder="XDG_DATA_HOME/opencode",
    name=r"opencode\.db",
    shape="database",
    query=QUERY,
    history=HISTORY,
)


def reader(path: str) -> SessionReader:
    """Return a reader for the rows of the database."""
    return _Rows()


def call(row: bytes) -> ModelCall | None:
    """Return the model call in a row of `calls`; None for a call that failed, was stopped, or has no tokens."""
    value = json_object(row) or {}
    usage, prompt = usage_of_call(obj(value, "tokens")), string(value, "prompt")
    if not prompt or not string(value, "end") or value.get("error") is not None or not usage.input_tokens:
        return None
    return ModelCall(prompt=prompt, usage=usage, cost_usd=number(value, "cost"))


class _Rows:
    def __init__(self) -> None:
        self.session = Session()
        self._makers: dict[str, EventMaker] = {}

    def read(self, data: bytes) -> Sequence[Event]:
        row = json_object(data)
        if row is None:
            return ()
        model = string(row, "model") or None
        self.session = Session(
            id=string(row, "session"), root_id=string(row, "parent"), cwd=string(row, "cwd"), model=model
        )
        maker = self._makers.setdefault(self.session.id, EventMaker())
        part, key, at = obj(row, "data"), string(row, "id"), time_from_ms(row.get("at"))
        match string(part, "type"):
            case "text" if string(row, "role") == "user":
                is_shown = part.get("synthetic") is not True and maker.is_new(f"part {key}")
                return maker.prompt(string(part, "text"), at) if is_shown else ()
            case "text" if integer(obj(part, "time"), "end") is not None and maker.is_new(f"part {key}"):
                return maker.text(string(part, "text"), at)
            case "reasoning" if integer(obj(part, "time"), "end") is not None and maker.is_new(f"part {key}"):
                return maker.thinking(string(part, "text"), at)
            case "tool":
                return _tool(maker, part, at)
            case "step-finish" if maker.is_new(f"part {key}"):
                maker.count_call(key, usage_of_call(obj(part, "tokens")), number(part, "cost"))
                if string(part, "reason") != "tool-calls":
                    return maker.end_turn(at, model)
        return ()


def _tool(maker: EventMaker, part: Object, at: str) -> list[Event]:
    state, call_id = obj(part, "state"), string(part, "callID")
    status = string(state, "status")
    if status == "pending":
        return []
    found = maker.on_called(call_id, string(part, "tool"), state.get("input"), at)
    if status in ("completed", "error"):
        output = string(state, "output") or string(state, "error")
        found += maker.on_returned(call_id, output, at, is_error=status == "error")
    return found
