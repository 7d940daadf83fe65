"""Finds the running agent CLI processes that beam did not start, and the sessions of these processes.

A session counts as alive while its process runs, even if its file is old.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from msgspec import Struct

from beam.agents import registry
from beam.agents.session_files import HasRegister, Registered
from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import DiskError
from beam.foreign.places import RUNNING, SessionPlace, place, places
from beam.foreign.programs import Program, programs
from beam.foreign.tail import Tail
from beam.model import events
from beam.model.events import Event
from beam.model.prices import estimated_usd
from beam.secrets.redact import redact_beginning

_TAIL_BYTES = 512 * 1024  # how much of a file's end is read
_MAX_CANDIDATES = 40  # files of a CLI that are looked at for one process, the newest first
_SLACK_NS = 2_000_000_000
_REGISTER_BYTES = 64 * 1024
_SHOWN_CHARACTERS = 200  # characters


class ForeignStatus(Struct, kw_only=True):
    """One living process with a session that beam did not start. `state`: working, idle (it waits for the person),
    asking (it waits for a permission), unknown (the session has no file yet, or its file does not show the state).
    `since` is the time when the process began, `state_since` the time when its state began; `doing` is its present or
    last activity. `tokens` and `cost_usd` are those of its last turn; `is_estimate`: the cost was computed from tokens
    and list prices. `is_asking` is null if the CLI's files never show it. `team` is the Claude team that the session
    leads or belongs to."""

    cli: str
    session_id: str = ""
    pid: int
    folder: str
    since: str
    state: str = "unknown"
    state_since: str = ""
    is_asking: bool | None = None
    model: str | None = None
    prompt: str = ""
    doing: str = ""
    tokens: int | None = None
    cost_usd: float | None = None
    is_estimate: bool = False
    team: str | None = None

    def apply_event(self, event: Event) -> None:
        """Apply one event of the session."""
        match event:
            case events.SessionPrompted():
                self._set_state("working", event.ts)
                self.prompt, self.doing = _short(event.text), ""
            case events.ToolCalled():
                self._set_state("working", event.ts)
                self.doing = _short(f"{event.name} {bytes(event.input).decode('utf-8', 'replace')}")
            case events.ToolReturned() | events.Thinking():
                self._set_state("working", event.ts)
            case events.Text():
                self._set_state("working", event.ts)
                self.doing = _short(event.text)
            case events.PermissionAsked():
                self._set_state("asking", event.ts)
                self.doing = _short(f"{event.tool} {bytes(event.input).decode('utf-8', 'replace')}")
            case events.PermissionDecided() if self.state == "asking":
                self._set_state("working", event.ts)
            case events.SessionIdle():
                self._set_state("idle", event.ts)
                self._set_usage(event)

    def _set_state(self, state: str, at: str) -> None:
        if state != self.state:
            self.state, self.state_since = state, at

    def _set_usage(self, event: events.SessionIdle) -> None:
        used = event.usage
        counts = (used.input_tokens, used.cached_tokens, used.cache_write_tokens, used.output_tokens)
        known = [count for count in counts if count is not None]
        self.tokens = sum(known) if known else None
        self.cost_usd, self.is_estimate = event.cost_usd, False
        if self.cost_usd is None and event.model is not None:
            self.cost_usd = estimated_usd(event.model, used)
            self.is_estimate = self.cost_usd is not None


def running_sessions(environ: Mapping[str, str]) -> list[ForeignStatus]:
    """Return the living sessions that beam did not start, the oldest process first."""
    running = sorted(programs(), key=lambda one: one.since_ns)
    here = {one.adapter: one for one in places(environ, sorted({program.adapter for program in running}))}
    taken: set[str] = set()
    found = []
    for program in running:
        line = ForeignStatus(cli=program.adapter, pid=program.pid, folder=program.folder, since=_time(program.since_ns))
        where = here.get(program.adapter) or _running_place(program)
        if where is not None:
            _find_session(line, program, where, taken)
        if program.is_spare and not line.session_id:
            continue
        if where is not None and where.sessions.files.tells_asks and line.state != "unknown":
            line.is_asking = line.state == "asking"
        found.append(line)
    return found


def _running_place(program: Program) -> SessionPlace | None:
    sessions = registry.sessions_of(program.adapter)
    if sessions.files.folder != RUNNING or not program.folder:
        return None
    return place(program.adapter, sessions, program.folder)


def _find_session(line: ForeignStatus, program: Program, where: SessionPlace, taken: set[str]) -> None:
    """Find the session of the process in the CLI's own register or, without an entry, by folder and time. Set the
    fields of `line` from the session."""
    registered = _from_register(where, program)
    if registered is not None:
        line.session_id = registered.session_id
    elif program.is_spare:
        return
    for tail in _candidates(program, where):
        if tail.path in taken and not where.is_database:
            continue
        if registered is not None and registered.session_id not in tail.path:
            continue
        if where.is_database:
            _apply_rows(line, program, tail)
            break
        known = tail.session_of_file()
        if known.root_id or (known.cwd and program.folder and known.cwd != program.folder):
            continue
        taken.add(tail.path)
        _apply_file(line, tail)
        break
    if registered is not None and registered.state:
        line.state = registered.state
        line.state_since = registered.since or line.state_since


def _apply_file(line: ForeignStatus, tail: Tail) -> None:
    for session, event in tail.read():
        line.apply_event(event)
        line.model = session.model or line.model
    line.session_id = tail.session.id
    line.team = tail.session.member_of or None
    if line.state == "unknown":
        line.state, line.state_since = "idle", tail.written


def _apply_rows(line: ForeignStatus, program: Program, tail: Tail) -> None:
    for session, event in tail.read():
        if session.cwd == program.folder and not session.root_id:
            line.apply_event(event)
            line.session_id, line.model = session.id, session.model or line.model


def _candidates(program: Program, where: SessionPlace) -> Iterator[Tail]:
    """Yield a Tail for each file that the process may have written, the newest first. Of a file of lines, only the last
    part is read. No process writes to a compressed file."""
    since_ns = program.since_ns - _SLACK_NS
    since_ms = max(0, since_ns // 1_000_000)
    found = [
        (status.st_mtime_ns, status.st_size, path)
        for path, status in where.paths()
        if where.shape(path) not in ("compressed", "unknown")
    ]
    if not where.is_database:
        found = [one for one in found if one[0] >= since_ns]
    for _, size, path in sorted(found, reverse=True)[:_MAX_CANDIDATES]:
        offset = 0 if where.shape(path) != "lines" else max(0, size - _TAIL_BYTES)
        yield Tail(where, path, offset, since_ms=since_ms, is_cut=offset > 0)


def _from_register(where: SessionPlace, program: Program) -> Registered | None:
    """Return the session that the CLI's own register names for the process; None if there is none."""
    sessions, below = where.sessions, where.sessions.files.below
    if not isinstance(sessions, HasRegister):
        return None
    base = where.folder.removesuffix(f"/{below}") if below else where.folder
    try:
        with files.open_reader(f"{base}/{sessions.register.format(pid=program.pid)}") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            found = sessions.registered(file.read(_REGISTER_BYTES))
    except (OSError, DiskError):
        return None
    if found is not None and found.start_ticks not in (None, program.start_ticks):
        return None  # the entry is about an earlier process with this id
    return found


def _time(at_ns: int) -> str:
    return rfc3339(at_ns) if at_ns else ""


def _short(text: str) -> str:
    return " ".join(redact_beginning(text, 4 * _SHOWN_CHARACTERS).split())[:_SHOWN_CHARACTERS]
