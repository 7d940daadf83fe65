"""The rows of the table, one for each agent, session and team member: computed from a snapshot and the events after it.

Pure: time is an argument, and nothing is read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from beam import estimated_usd, events
from beam.board.words import safe_line
from beam.cli.render.calls import brief_call, brief_doing

if TYPE_CHECKING:
    from beam import AgentStatus, AnyEvent, AskLine, ForeignStatus, TeamShown, Usage

Kind = Literal["agent", "session", "member"]

_STATE_RANKS = {
    "asking": 0,
    "died": 1,
    "blocked": 1,
    "untrusted": 1,
    "running": 2,
    "working": 2,
    "waiting": 3,
    "paused": 4,
}
_BUSY_STATES = frozenset({"running", "working", "asking"})


class Row(Struct, frozen=True, kw_only=True):
    """One line of the table. `key` is unique among all rows. `place` is the project folder of an agent, the folder of a
    session, or the team of a member. `since` (RFC 3339) is when the state began; `tool` is the tool call that runs now.
    `message_id` is the message of the running turn. With `is_estimate`, `cost_usd` is computed from tokens and list
    prices."""

    key: str
    name: str
    kind: Kind
    place: str
    state: str
    since: str = ""
    tool: str = ""
    what: str = ""
    tokens: int | None = None
    cost_usd: float | None = None
    is_estimate: bool = False
    waiting: int = 0
    message_id: str | None = None
    project: Path | None = None
    asks: tuple[str, ...] = ()

    @property
    def is_busy(self) -> bool:
        """Return whether the row's agent works or asks."""
        return self.state in _BUSY_STATES


class Snapshot(Struct, frozen=True, kw_only=True):
    """The state of all agents, sessions and teams. `ts` (RFC 3339) is the time at which beam began to read the
    state."""

    ts: str
    agents: Sequence[tuple[Path, Sequence[AgentStatus]]] = ()
    sessions: Sequence[ForeignStatus] = ()
    teams: Sequence[TeamShown] = ()
    asks: Sequence[tuple[Path, AskLine]] = ()


def agent_key(project: Path, agent: str) -> str:
    """Return the key of a beam agent's row."""
    return f"{project}/{agent}"


def rows_of(snapshot: Snapshot) -> list[Row]:
    """Return a row for everyone in the snapshot."""
    found = [_agent_row(project, line) for project, lines in snapshot.agents for line in lines]
    found += [_session_row(line) for line in snapshot.sessions if not _is_member(line, snapshot.teams)]
    found += [_member_row(shown, at) for shown in snapshot.teams for at in range(len(shown.members))]
    return found


def _is_member(line: ForeignStatus, teams: Sequence[TeamShown]) -> bool:
    """Return whether the session belongs to the lead or a member of a team. Leads and members have rows of their
    own."""
    return any(
        line.team == shown.team.team
        or line.pid == shown.team.lead_pid
        or (line.session_id and line.session_id == shown.team.session_id)
        for shown in teams
    )


def _total_tokens(used: Usage) -> int | None:
    known = [
        part
        for part in (used.input_tokens, used.output_tokens, used.cached_tokens, used.cache_write_tokens)
        if part is not None
    ]
    return sum(known) if known else None


def _agent_row(project: Path, line: AgentStatus) -> Row:
    running = line.running
    asks = tuple(ask.id for ask in running.asks) if running is not None else ()
    state = "asking" if asks and line.state in ("running", "waiting") else line.state
    call = running.call if running is not None else None
    last = ""
    if running is not None:
        last = f"asks for {running.asks[0].tool}" if running.asks else ""
    elif line.last is not None:
        last = f"{line.last.status}{f': {line.last.reason}' if line.last.reason else ''}"
    trouble = line.error or line.blocked or line.untrusted or ""
    since = running.since if running is not None else line.last.at if line.last is not None else ""
    cost = line.totals.cost_usd
    total = _total_tokens(line.totals.usage)
    if running is not None and running.usage is not None:
        total = (total or 0) + (_total_tokens(running.usage) or 0)
    if running is not None and running.cost_usd is not None:
        cost = (cost or 0.0) + running.cost_usd
    return Row(
        key=agent_key(project, line.agent),
        name=safe_line(line.agent),
        kind="agent",
        place=safe_line(str(project)),
        state=state,
        since=since,
        tool=safe_line(brief_call(call.name, bytes(call.input))) if call is not None else "",
        what=safe_line(trouble or last),
        tokens=total,
        cost_usd=line.estimated_usd if line.estimated_usd is not None else cost,
        is_estimate=line.estimated_usd is not None,
        waiting=line.waiting,
        message_id=running.message_id if running is not None else None,
        project=project,
        asks=asks,
    )


def _session_row(line: ForeignStatus) -> Row:
    ident = line.session_id or f"pid{line.pid}"
    return Row(
        key=f"{line.cli}~{ident}",
        name=safe_line(f"{line.cli}~{ident[-4:]}"),
        kind="session",
        place=safe_line(line.folder),
        state=line.state,
        since=line.state_since or line.since,
        tool=safe_line(line.doing) if line.state == "working" else "",
        what=safe_line(line.doing or line.prompt),
        tokens=line.tokens,
        cost_usd=line.cost_usd,
        is_estimate=line.is_estimate,
    )


def _member_row(shown: TeamShown, at: int) -> Row:
    member = shown.members[at]
    return Row(
        key=f"{member.member}@{shown.team.team}",
        name=safe_line(member.member),
        kind="member",
        place=safe_line(shown.team.team),
        state=member.state or "unknown",
        since=member.since or "",
        tool=safe_line(brief_doing(member.doing)) if member.state == "working" else "",
        what=safe_line(member.last_words),
        tokens=member.tokens,
        cost_usd=member.cost_usd,
        is_estimate=member.cost_usd is not None,
    )


class Everyone:
    """All rows of the last snapshot, updated by the events after it."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._changed_at: dict[str, str] = {}  # key -> the time of the last event that changed its row
        self._snapshot_ts = ""

    def replace(self, snapshot: Snapshot) -> None:
        """Replace the rows by the rows of the snapshot. If an event later than the snapshot changed a row, the row
        keeps its `state`, `since`, `tool` and `asks`."""
        found = {row.key: row for row in rows_of(snapshot)}
        for key, row in found.items():
            if self._changed_at.get(key, "") > snapshot.ts and key in self._rows:
                before = self._rows[key]
                found[key] = structs.replace(
                    row, state=before.state, since=before.since, tool=before.tool, asks=before.asks
                )
        self._rows, self._snapshot_ts = found, snapshot.ts
        self._changed_at = {key: ts for key, ts in self._changed_at.items() if key in found and ts > snapshot.ts}

    def apply(self, key: str, event: AnyEvent) -> None:
        """Apply an event to the row of that key, unless the last snapshot includes the event."""
        row = self._rows.get(key)
        if row is None or event.ts <= self._snapshot_ts:
            return
        new = _row_after(row, event)
        if new is not row:
            self._rows[key] = new
            self._changed_at[key] = event.ts

    def rows(self) -> list[Row]:
        """Return all rows, sorted by state (asking, in trouble, working, waiting, paused, other), then by kind, then by
        name."""
        return sorted(
            self._rows.values(), key=lambda row: (_STATE_RANKS.get(row.state, 5), row.kind, row.name, row.key)
        )

    def get(self, key: str) -> Row | None:
        """Return the row of that key; None if there is none."""
        return self._rows.get(key)


def _row_after(row: Row, event: AnyEvent) -> Row:
    match event:
        case events.TurnStarted():
            return structs.replace(row, state="running", since=event.ts, tool="", message_id=event.message_id, what="")
        case events.SessionPrompted() | events.MemberWorking():
            return structs.replace(row, state="working", since=event.ts, tool="")
        case events.SessionIdle():
            used = _total_tokens(event.usage)
            cost = event.cost_usd
            if cost is None and event.model is not None:
                cost = estimated_usd(event.model, event.usage)
            return structs.replace(
                row,
                state="idle",
                since=event.ts,
                tool="",
                tokens=used,
                cost_usd=cost,
                is_estimate=event.cost_usd is None,
                asks=(),
            )
        case events.MemberIdle():
            return structs.replace(row, state="idle", since=event.ts, tool="")
        case events.ToolCalled():
            return structs.replace(row, tool=safe_line(brief_call(event.name, bytes(event.input))))
        case events.ToolReturned():
            return structs.replace(row, tool="") if row.tool else row
        case events.PermissionAsked() if event.expires is not None or row.kind == "session":
            what = safe_line(f"asks for {event.tool}")
            return structs.replace(row, state="asking", since=event.ts, what=what, asks=(*row.asks, event.ask_id))
        case events.PermissionDecided() if event.ask_id in row.asks:
            left = tuple(each for each in row.asks if each != event.ask_id)
            what = row.what if left else ""
            return structs.replace(
                row,
                state="asking" if left else "working" if row.kind == "session" else "running",
                since=event.ts,
                what=what,
                asks=left,
            )
        case events.TurnFinished():
            what = f"{event.status}{f': {event.reason}' if event.reason else ''}"
            return structs.replace(  # without the cost, which the next snapshot includes
                row,
                state="paused" if row.state == "paused" else "idle",
                since=event.ts,
                tool="",
                what=safe_line(what),
                message_id=None,
                asks=(),
            )
        case events.QueuePaused() if not row.is_busy:
            return structs.replace(row, state="paused", since=event.ts)
        case events.QueueResumed() if row.state == "paused":
            return structs.replace(row, state="idle", since=event.ts)
    return row
