"""Finds facts about a turn that its CLI reports only in its session files: the tokens, how the last answer ended, and
which files the turn changed.

Only reads. If one of the turn's model calls has no figures, or calls of another message are among them, the tokens stay
unknown. Does not depend on how the turn was run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from beam.agents import registry
from beam.agents.base import Verdict
from beam.agents.oneshot import VERDICT_BY_END
from beam.agents.session_files import ModelCall, TellsCalls, TellsEnds, TellsUsage, ms_from_text
from beam.base import files
from beam.base.errors import DiskError
from beam.foreign import database
from beam.foreign.places import places
from beam.foreign.unreadable import UnreadableError
from beam.model import events
from beam.model.outcome import Class, Status, Usage
from beam.model.settings import MIB, is_answer

_HEAD_BYTES = 64 << 10  # of the first line of a session's file
_TAIL_BYTES = 4 * MIB  # a session's file is read only from here to its end
_LAST_FILES = 3  # of a session that has several; the newest one may be empty yet


def with_tokens(verdict: Verdict, adapter: str, environ: Mapping[str, str], *, since_ns: int) -> Verdict:
    """Return the verdict with the tokens of the turn that began at `since_ns`, if its CLI reports them only in its
    files."""
    if verdict.session_id is None or not is_answer(verdict.status) or verdict.usage.input_tokens is not None:
        return verdict
    sessions = registry.sessions_of(adapter)
    if isinstance(sessions, TellsUsage):
        lines = _last_lines(adapter, verdict.session_id, environ, since_ns=since_ns)
        return structs.replace(verdict, usage=sessions.usage_since(lines, since_ns // 1_000_000))
    calls = _model_calls(adapter, verdict.session_id, environ, since_ms=since_ns // 1_000_000)
    known = [call for call in calls if call is not None]
    if not known or len(known) < len(calls) or len({call.prompt for call in known}) > 1:
        return verdict
    usage = Usage()
    for call in known:
        usage = usage.plus(call.usage)
    cost = None
    if all(call.cost_usd is not None for call in known):
        cost = sum(call.cost_usd or 0.0 for call in known)
    return structs.replace(verdict, usage=usage, cost_usd=cost if verdict.cost_usd is None else verdict.cost_usd)


def with_answer_end(verdict: Verdict, adapter: str, environ: Mapping[str, str], *, since_ns: int) -> Verdict:
    """Return the verdict on the turn that began at `since_ns`. A success, or a turn without an answer, becomes
    `truncated` or `refused` if the CLI's files say that the last answer ended so."""
    sessions = registry.sessions_of(adapter)
    is_open = verdict.status is Status.COMPLETED or verdict.class_ is Class.EMPTY
    if not is_open or verdict.session_id is None or not isinstance(sessions, TellsEnds):
        return verdict
    since_ms = since_ns // 1_000_000
    if isinstance(sessions, TellsCalls):
        records: Iterable[bytes] = _rows(adapter, [sessions.calls], verdict.session_id, environ, since_ms=since_ms)
    else:
        records = _last_lines(adapter, verdict.session_id, environ, since_ns=since_ns)
    ends = [end for record in records if (end := sessions.answer_end(record)) is not None]
    if not ends or 0 < ends[-1].at_ms < since_ms or ends[-1].how not in VERDICT_BY_END:
        return verdict
    status, class_, reason = VERDICT_BY_END[ends[-1].how]
    reply = None if status is Status.REFUSED else verdict.reply
    return structs.replace(verdict, status=status, class_=class_, reason=reason, reply=reply)


def file_changes(
    session_id: str | None, adapter: str, environ: Mapping[str, str], *, since_ns: int
) -> list[events.FileChanged]:
    """Return the files that the CLI's own files name as changed in this session since `since_ns`."""
    if session_id is None:
        return []
    since_ms, sessions = since_ns // 1_000_000, registry.sessions_of(adapter)
    is_database = sessions.files.shape == "database"
    if is_database:
        records: Iterable[bytes] = _rows(adapter, sessions.files.query, session_id, environ, since_ms=since_ms)
    else:
        records = _last_lines(adapter, session_id, environ, since_ns=since_ns)
    reader, found = sessions.reader(session_id), list[events.FileChanged]()
    for record in records:
        told = [event for event in reader.read(record) if isinstance(event, events.FileChanged)]
        if not is_database or session_id in (reader.session.id, reader.session.root_id):
            found += [event for event in told if ms_from_text(event.ts) >= since_ms]
    return found


def _last_lines(adapter: str, session_id: str, environ: Mapping[str, str], *, since_ns: int) -> list[bytes]:
    """Return the last lines of the session's files, oldest first; [] if there is no such file. A file whose name is not
    the session's id is found only if it was written since `since_ns`."""
    for place in places(environ, [adapter]):
        found = []
        for path, status in place.paths():
            reader = place.reader(path)
            if reader.session.id != session_id:  # the name of the file need not have it
                if status.st_mtime_ns < since_ns:
                    continue
                reader.read(_first_line(path))
            if reader.session.id == session_id and not reader.session.root_id:
                found.append((path, status.st_size))
        if found:
            return [line for path, size in sorted(found)[-_LAST_FILES:] for line in _tail(path, size)]
    return []


def _first_line(path: str) -> bytes:
    try:
        with files.open_reader(path) as file:
            return file.readline(_HEAD_BYTES)
    except (OSError, DiskError):
        return b""


def _tail(path: str, size: int) -> list[bytes]:
    try:
        with files.open_reader(path) as file:
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).split(b"\n")
    except (OSError, DiskError):
        return []


def _model_calls(adapter: str, session_id: str, environ: Mapping[str, str], *, since_ms: int) -> list[ModelCall | None]:
    """Return the model calls of the session since `since_ms`; None for each call without figures."""
    if adapter not in registry.WITH_SESSIONS:
        return []
    sessions = registry.sessions_of(adapter)
    if not isinstance(sessions, TellsCalls):
        return []
    return [sessions.call(row) for row in _rows(adapter, [sessions.calls], session_id, environ, since_ms=since_ms)]


def _rows(
    adapter: str, queries: Sequence[str], session_id: str, environ: Mapping[str, str], *, since_ms: int
) -> Iterator[bytes]:
    for place in places(environ, [adapter]):
        for path, _ in place.paths():
            with contextlib.suppress(UnreadableError):  # then nothing is known
                for _, row in database.rows(path, queries, since_ms=since_ms, session=session_id):
                    yield row
