"""Watches sessions of agent CLIs that beam did not start: their events as a stream, and their current states.

A session counts as beam's own while a turn of beam runs in it, and as foreign before and after that turn. The events of
a new session are held back until it is known whether one of beam's running turns opened the session.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct, structs

from beam.agents.session_files import Session
from beam.base.clock import parse_rfc3339
from beam.base.errors import BeamError
from beam.foreign import programs
from beam.foreign.watch import ForeignEvent, ForeignWatcher
from beam.model.events import (
    AnyEvent,
    SessionStarted,
    TurnClosed,
    TurnFinished,
    TurnStarted,
)
from beam.store.segment import read_state

if TYPE_CHECKING:
    from beam.foreign.standing import ForeignStatus
    from beam.teams.watch import Teams

_PATIENCE_S = 30.0  # how long an event that may be beam's own is held back at most
_LATE_NS = 5_000_000_000  # a line that a CLI writes this soon after its turn belongs to that turn
_EARLY_NS = 2_000_000_000


class ForeignLine(Struct, frozen=True):
    """An event of a foreign session, with its session."""

    event: AnyEvent
    session: Session


class _Turn(Struct):
    """A turn that beam runs or ran: its adapter, the ids of its sessions that are known so far, and the times when it
    began and ended ("" while it runs)."""

    adapter: str
    sessions: set[str]
    began: str
    ended: str = ""


class OwnTurns:
    """The turns that beam runs, collected from the agents' journals."""

    def __init__(self) -> None:
        self._turns: dict[str, list[_Turn]] = {}

    def begin(self, name: str, journal: Path) -> None:
        """Record the turn that runs when the watcher opens a journal, and its session. `name` identifies the journal in
        later calls."""
        try:
            state = read_state(journal)
        except (BeamError, OSError):
            return
        if state.open_turn is not None:
            turn = state.open_turn
            found = {state.session.session_id} if state.session is not None and state.session.turns else set()
            self._turns.setdefault(name, []).append(_Turn(turn.adapter, found, turn.started_at))

    def record_events(self, name: str, events: Iterable[AnyEvent]) -> None:
        """Remember the turns and sessions that are named by new events of the journal `name`."""
        turns = self._turns.setdefault(name, [])
        for event in events:
            match event:
                case TurnStarted() if not any(turn.began == event.ts for turn in turns):
                    turns.append(_Turn(event.adapter, set(), event.ts))
                case SessionStarted():
                    for turn in turns[-1:]:
                        turn.sessions.add(event.session_id)
                case TurnFinished() | TurnClosed():
                    for turn in turns[-1:]:
                        turn.ended = turn.ended or event.ts
        del turns[:-200]

    def is_own(self, adapter: str, session: Session, at: str) -> bool | None:
        """Return whether a turn of beam wrote the session's event of the time `at`; None if that is not known yet."""
        ids = {session.id, session.root_id} - {""}
        unknown = False
        at_ns = parse_rfc3339(at)
        for turns in self._turns.values():
            for turn in turns:
                if turn.adapter != adapter or at_ns < parse_rfc3339(turn.began) - _EARLY_NS:
                    continue
                if turn.ended and at_ns > parse_rfc3339(turn.ended) + _LATE_NS:
                    continue
                if turn.sessions & ids:
                    return True
                unknown = unknown or (not turn.sessions and not turn.ended)
        return None if unknown else False


class ForeignSessions:
    """The stream of events of foreign sessions. It begins at the time `since` (RFC 3339); by default, now."""

    def __init__(self, environ: Mapping[str, str], teams: Teams, *, since: str = "") -> None:
        since_ns = parse_rfc3339(since) if since else None
        self._own = OwnTurns()
        self._waiting: list[tuple[float, ForeignEvent]] = []
        self._foreign = ForeignWatcher(environ, wake=teams.wake, since_ns=since_ns, running=programs.working_folders)
        self.begin, self.record_own_events = self._own.begin, self._own.record_events

    def close(self) -> None:
        """Stop watching."""
        self._foreign.close()

    def poll(self, teams: Teams) -> list[ForeignLine]:
        """Return the events since the last call, except events of sessions that belong to beam or to a Claude team."""
        now = time.monotonic()
        waiting = [*self._waiting, *((now, one) for one in self._foreign.poll())]
        self._waiting = []
        found = []
        for came, one in waiting:
            if one.session.member_of or teams.has_session(one.session.root_id or one.session.id, one.path):
                continue
            own = self._own.is_own(one.adapter, one.session, one.event.ts)
            if own is None and now - came < _PATIENCE_S:
                self._waiting.append((came, one))
            elif not own:
                found.append(_line(one))
        return found


def _line(one: ForeignEvent) -> ForeignLine:
    session = one.session
    whose = session.root_id or session.id
    changed = {"agent": f"{one.adapter}~{whose}"}
    if session.root_id and hasattr(one.event, "parent"):
        changed["parent"] = session.id
    return ForeignLine(cast("AnyEvent", structs.replace(one.event, **changed)), session)


# -- present states ----------------------------------------------------------------------------------------------------


def foreign_status(environ: Mapping[str, str], own: Sequence[tuple[str, str]] = ()) -> list[ForeignStatus]:
    """Return the living foreign sessions, one for each process. Sessions in `own`, as (adapter, session id), belong to
    beam's agents and are left out."""
    from beam.foreign.standing import running_sessions

    found = [one for one in running_sessions(environ) if (one.cli, one.session_id) not in own]
    led = teams_by_lead_session(environ) if found else {}
    for one in found:
        one.team = one.team or led.get(one.session_id)
    return found


def teams_by_lead_session(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the name of the Claude team for each session that leads one, by the id of the session."""
    from beam.api.teams import TeamsHere

    return {line.session_id: line.team for line in TeamsHere(environ).teams() if line.session_id}
