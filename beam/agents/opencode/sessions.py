"""OpenCode's sessions on this machine: rows of its database, as version 1 or version 2 writes them. Kilo has a database
of the same format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import structs

from beam.agents.base import json_object
from beam.agents.fields import Object, integer, number, obj, objects, string
from beam.agents.opencode.decode import file_changes, usage_of_call
from beam.agents.session_files import (
    MOST_ROWS,
    NOT_JSON,
    AnswerEnd,
    EventMaker,
    ModelCall,
    Session,
    SessionFiles,
    SessionReader,
    no_record,
    time_from_ms,
    unknown_type,
)
from beam.model import events
from beam.model.events import Event

_DAY_MS = 86_400_000
_LONGEST = 1_000_000  # characters of a row
_TOO_LARGE = f"longer than {_LONGEST:,} characters"
# The database has an index of a session's parts, but none of their times. So beam reads the parts of the last day's
# sessions.
_PARTS = f"""
SELECT p.time_updated AS changed, json_object('id', p.id, 'at', p.time_updated, 'session', s.id, 'parent', s.parent_id,
 'cwd', s.directory, 'role', CASE WHEN json_valid(m.data) THEN json_extract(m.data, '$.role') END,
 'model', CASE WHEN json_valid(m.data) THEN json_extract(m.data, '$.modelID') END,
 'data', CASE WHEN length(p.data) >= {_LONGEST} THEN json_object('type', '{_TOO_LARGE}')
  WHEN json_valid(p.data) THEN json(p.data) ELSE json_object('type', '{NOT_JSON}') END) AS row,
 p.time_created AS made, p.id AS id
FROM session s JOIN part p ON p.session_id = s.id JOIN message m ON m.id = p.message_id
"""
# OpenCode 2 has one row for each message, and its own table of sessions. Late databases of OpenCode 1 have such rows,
# too.
_MESSAGES = f"""
SELECT m.time_updated AS changed, json_object('form', 2, 'id', m.id, 'at', m.time_updated, 'made', m.time_created,
 'session', s.id, 'parent', s.parent_id, 'cwd', s.directory, 'type', m.type,
 'data', CASE WHEN length(m.data) >= {_LONGEST} THEN json_object('type', '{_TOO_LARGE}')
  WHEN json_valid(m.data) THEN json(m.data) ELSE json_object('type', '{NOT_JSON}') END) AS row,
 m.time_created AS made, m.id AS id
FROM {{sessions}} s JOIN session_message m ON m.session_id = s.id
"""


def _newest(rows: str, table: str) -> str:
    where = f"WHERE s.time_updated >= :since - {_DAY_MS} AND {table}.time_updated >= :since"
    page = f"{rows} {where} ORDER BY changed, id LIMIT {MOST_ROWS}"
    return f"SELECT changed, row FROM ({page}) ORDER BY made, id"


def _last(rows: str) -> str:
    return f"SELECT changed, row FROM ({rows} WHERE s.id = :session ORDER BY made DESC, id DESC LIMIT {MOST_ROWS})"


_TABLES = ("session", "session_v2")
QUERY = (_newest(_PARTS, "p"), *(_newest(_MESSAGES.format(sessions=table), "m") for table in _TABLES))
HISTORY = (*(_last(_MESSAGES.format(sessions=table)) for table in _TABLES), _last(_PARTS))
calls = """
SELECT time_created, json_object('prompt', json_extract(data, '$.parentID'), 'tokens', json_extract(data, '$.tokens'),
 'cost', json_extract(data, '$.cost'), 'end', json_extract(data, '$.finish'), 'error', json_extract(data, '$.error'))
FROM message WHERE session_id = :session AND time_created >= :since AND json_extract(data, '$.role') = 'assistant'
ORDER BY time_created LIMIT 2000
"""
_ENDS: dict[str, Literal["length", "refused"]] = {"length": "length", "content-filter": "refused"}
files = SessionFiles(
    folder="XDG_DATA_HOME/opencode",
    name=r"opencode\.db",
    like=r"opencode[^/]*\.db",
    shape="database",
    query=QUERY,
    history=HISTORY,
)


_QUIET = (
    "step-start",
    "snapshot",
    "patch",
    "file",
    "agent",
    "subtask",
    "retry",
    "compaction",
    "agent-switched",
    "model-switched",
    "synthetic",
    "system",
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


def answer_end(record: bytes) -> AnswerEnd | None:
    """Return how the answer in a row of `calls` ended; None for a call that is not over."""
    value = json_object(record) or {}
    found = string(value, "end")
    return AnswerEnd(how=_ENDS.get(found, "stop")) if found else None


class _Rows:
    def __init__(self) -> None:
        self.session = Session()
        self._makers: dict[str, EventMaker] = {}
        self._moved: dict[str, int] = {}  # until when (ms) a session is told from the tables of the first version

    def read(self, data: bytes) -> Sequence[Event]:
        row = json_object(data)
        if row is None:
            return no_record(data)
        key, at, session_id = string(row, "id"), time_from_ms(row.get("at")), string(row, "session")
        made, is_second = integer(row, "made") or 0, integer(row, "form") == 2
        part = obj(row, "data")
        model = string(obj(part, "model"), "id") if is_second else string(row, "model")
        parent, cwd = string(row, "parent"), string(row, "cwd")
        self.session = Session(id=session_id, root_id=parent, cwd=cwd, model=model or None)
        if string(part, "type") in (_TOO_LARGE, NOT_JSON):
            return [events.Unknown(what=string(part, "type"))]
        maker = self._makers.setdefault(session_id, EventMaker())
        if is_second:
            return () if made <= self._moved.get(session_id, 0) else self._on_message(maker, key, row, part, at)
        self._moved[session_id] = max(self._moved.get(session_id, 0), integer(row, "at") or 0)
        return self._on_part(maker, key, row, part, at)

    def _on_part(self, maker: EventMaker, key: str, row: Object, part: Object, at: str) -> list[Event]:
        is_over, kind = integer(obj(part, "time"), "end") is not None, string(part, "type")
        match kind:
            case "text" if string(row, "role") == "user":
                is_shown = part.get("synthetic") is not True and maker.is_new(f"part {key}")
                return maker.prompt(string(part, "text"), at) if is_shown else []
            case "text" | "reasoning":
                if not is_over or not maker.is_new(f"part {key}"):
                    return []
                return (maker.text if kind == "text" else maker.thinking)(string(part, "text"), at)
            case "tool":
                return _tool(maker, part, string(part, "callID"), string(part, "tool"), at)
            case "step-finish":
                if not maker.is_new(f"part {key}"):
                    return []
                maker.count_call(key, usage_of_call(obj(part, "tokens")), number(part, "cost"))
                return maker.end_turn(at, self.session.model) if string(part, "reason") != "tool-calls" else []
        return unknown_type(kind, _QUIET)

    def _on_message(self, maker: EventMaker, key: str, row: Object, message: Object, at: str) -> list[Event]:
        """Return the events of a message of OpenCode 2, which is written again after each of its steps."""
        kind = string(message, "type") or string(row, "type")
        match kind:
            case "user":
                return maker.prompt(string(message, "text"), at) if maker.is_new(f"part {key}") else []
            case "shell":
                found = maker.on_called(key, "shell", {"command": string(message, "command")}, at)
                is_over = integer(obj(message, "time"), "completed") is not None
                output = string(message, "output")
                return [*found, *maker.on_returned(key, output, at, is_error=False)] if is_over else found
            case "assistant":
                return self._on_answered(maker, key, message, at)
        return unknown_type(kind, _QUIET)

    def _on_answered(self, maker: EventMaker, key: str, message: Object, at: str) -> list[Event]:
        found: list[Event] = []
        failure = string(obj(message, "error"), "message")
        is_over = integer(obj(message, "time"), "completed") is not None or bool(failure)
        calls = 0
        for number_, block in enumerate(objects(message, "content")):
            block_key, kind = f"part {key} {number_}", string(block, "type")
            if kind == "tool":
                calls += 1
                found += _tool(maker, block, string(block, "id"), string(block, "name"), at)
            elif kind not in ("text", "reasoning"):
                found += unknown_type(f"block {kind}")
            elif is_over and maker.is_new(block_key):
                found += (maker.text if kind == "text" else maker.thinking)(string(block, "text"), at)
        if not is_over or not maker.is_new(f"part {key}"):
            return found
        if tokens := obj(message, "tokens"):
            maker.count_call(key, usage_of_call(tokens), number(message, "cost"))
        finish = string(message, "finish")
        goes_on = finish == "tool-calls" if finish else bool(calls)
        return found if goes_on and not failure else [*found, *maker.end_turn(at, self.session.model, why=failure)]


def _tool(maker: EventMaker, part: Object, call_id: str, name: str, at: str) -> list[Event]:
    state = obj(part, "state")
    status = string(state, "status")
    if status == "pending":
        return []
    found = maker.on_called(call_id, name, state.get("input"), at)
    if status in ("completed", "error"):
        texts = [string(block, "text") for block in objects(state, "content")]
        failure = string(state, "error") or string(obj(state, "error"), "message")
        output = string(state, "output") or "\n".join(filter(None, texts)) or failure
        returned = maker.on_returned(call_id, output, at, is_error=status == "error")
        changed = file_changes(name, state) if returned and status == "completed" else []
        found += [*returned, *(structs.replace(event, ts=at) for event in changed)]
    return found
