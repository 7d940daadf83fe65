"""Lists the sessions of agents, selects an earlier session for an agent's next turn, and begins an agent in an existing
session of its CLI."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET, Struct

from beam.agents import registry
from beam.base import files
from beam.base.clock import Steps, run_blocking
from beam.base.errors import BeamError, NotFoundError, UnsupportedError, UsageError
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.model.message import base_of, check_name, check_session_id
from beam.root import discovery
from beam.root.paths import AgentPaths
from beam.store.journal import Journal
from beam.store.reader import Reader
from beam.store.segment import read_state

if TYPE_CHECKING:
    from beam.foreign.past import PastEvents
    from beam.model.events import AnyEvent

_SHORTEST = 4  # characters of an id
_LONGEST_PROMPT = 200  # characters of a prompt


class SessionLine(Struct, frozen=True, kw_only=True):
    """One session of an agent with its CLI. `state`: current (the next turn continues it), earlier, lost (the CLI no
    longer has it), none (the agent had no turn yet). `archived`: the agent is archived. `session_id` is the CLI's own
    id of the session; `started_at` and `last_at` are RFC 3339; `first` is the beginning of its first prompt."""

    agent: str
    session_id: str | None
    adapter: str
    state: Literal["current", "earlier", "lost", "none"]
    archived: bool = False
    started_at: str = ""
    last_at: str = ""
    turns: int = 0
    first: str = ""
    error: str | None = None


def sessions(context: RootContext, agents: Sequence[str] = ()) -> list[SessionLine]:
    """Return the sessions of these agents, and of their named sessions (`AGENT@NAME`). Without `agents`, return those
    of all agents. The oldest session of each agent comes first."""
    names = context.home.agents()
    selected = [name for name in names if not agents or name in agents or base_of(name) in agents]
    return [line for name in selected for line in session_lines(context.home.agent(name))]


def session_lines(paths: AgentPaths) -> list[SessionLine]:
    """Return the sessions of one agent, oldest first, as far back as its journal goes. A damaged journal is reported in
    the lines, not raised."""
    history, error = _History(), None
    try:
        reader = Reader(paths.journal)
        while found := reader.poll():
            for event in found:
                history.update(event)
        state = read_state(paths.journal)
        current = state.session or state.fork
        if current is not None:
            history.add(current.session_id, current.adapter)
        for archived in state.archived:
            history.add(archived, "")
        now = current.session_id if current is not None else None
    except BeamError as trouble:
        error, now = trouble.message, None
    is_archived = paths.archived.exists()
    lines = [
        msgspec.structs.replace(line, agent=paths.agent, state="current" if line.session_id == now else line.state)
        for line in history.lines.values()
    ]
    if not lines:
        lines = [SessionLine(agent=paths.agent, session_id=None, adapter="", state="none", error=error)]
    return [msgspec.structs.replace(line, archived=is_archived, error=error) for line in lines]


class _History:
    """Collects the sessions from the events of one journal."""

    def __init__(self) -> None:
        self.lines: dict[str, SessionLine] = {}
        self._texts: dict[str, str] = {}
        self._adapter = ""
        self._current = ""

    def add(self, session_id: str, adapter: str, *, started_at: str = "", first: str = "") -> None:
        """Add the session, if it is not there yet."""
        if session_id not in self.lines:
            self.lines[session_id] = SessionLine(
                agent="", session_id=session_id, adapter=adapter, state="earlier", started_at=started_at, first=first
            )

    def update(self, event: AnyEvent) -> None:
        """Update the sessions with this event."""
        match event:
            case events.MessageQueued() if event.message_id is not None:
                self._texts[event.message_id] = event.text[:_LONGEST_PROMPT]
            case events.TurnStarted():
                self._adapter = event.adapter
            case events.SessionSelected():
                self._current = event.session_id
                self.add(event.session_id, event.adapter, started_at=event.ts)
                self._change(event.session_id, state="earlier")
            case events.SessionStarted(resumed=True) if (
                event.session_id not in self.lines and self._current in self.lines
            ):
                renumbered = self.lines.pop(self._current)  # the CLI gave the session a new id
                self._current = event.session_id
                self.lines[event.session_id] = msgspec.structs.replace(renumbered, session_id=event.session_id)
            case events.SessionStarted():
                self._current = event.session_id
                first = self._texts.get(event.message_id or "", "")
                self.add(event.session_id, self._adapter, started_at=event.ts, first=first)
            case events.SessionLost():
                self._change(event.session_id, state="lost")
            case events.TurnFinished() if event.turn is not None and event.session_id in self.lines:
                line = self.lines[event.session_id]
                first = line.first or self._texts.get(event.message_id or "", "")
                self._change(event.session_id, turns=line.turns + 1, last_at=event.ts, first=first)

    def _change(self, session_id: str, **values: object) -> None:
        line = self.lines.get(session_id)
        if line is not None:
            self.lines[session_id] = msgspec.structs.replace(line, **values)


def resume(context: RootContext, agent: str, session_id: str, *, by: str) -> Steps[str]:
    """Make the agent's next turn continue in one of the agent's earlier sessions; return the session's whole id.

    A unique beginning of the id, of at least four characters, is enough. Raises NotFoundError for a session that the
    agent never had, UsageError, UnsupportedError if the agent's CLI can't resume sessions.
    """
    from beam.broker.asking.requests import request

    settings = context.config.resolve(agent).settings
    paths = context.agent_paths(agent)
    known = [line for line in session_lines(paths) if line.session_id is not None]
    found = [line for line in known if line.session_id == session_id]
    if not found and len(session_id) >= _SHORTEST:
        found = [line for line in known if (line.session_id or "").startswith(session_id)]
    if len(found) != 1:
        what = (
            f"{session_id[:80]} names {len(found)} sessions of {agent}" if found else _never_had_text(agent, session_id)
        )
        raise (UsageError if found else NotFoundError)(what, f"beam agent sessions {agent}", subject=session_id[:80])
    line, whole = found[0], check_session_id(found[0].session_id or "")
    if (line.adapter or settings.adapter) != settings.adapter:
        raise UsageError(
            f"session {whole} is one of {line.adapter}, and {agent} is {settings.adapter} now",
            f"beam agent add NEW --session {line.adapter}:{whole}",
            subject=whole,
        )
    _check_resumes(agent, settings.adapter)
    return (yield from request(context, paths, "select", whole, by=by, text=settings.adapter))


def _never_had_text(agent: str, session_id: str) -> str:
    return f"{agent} was never in a session {session_id[:80]}"


def _check_resumes(agent: str, adapter: str) -> None:
    if not any(can.resume for can in registry.adapter(adapter).card.faces.values()):
        raise UnsupportedError(
            f"{agent} can't continue in an earlier session: {adapter} can't resume one",
            "beam agent list --matrix shows which agents can",
            subject=agent,
        )


def parse_session(given: str) -> tuple[str, str]:
    """Return the adapter and the session id from a text like `claude:ID`. Raises UsageError for any other text."""
    adapter, colon, session_id = given.partition(":")
    if not colon or adapter not in registry.NAMES:
        raise UsageError(
            f"{given[:80]!r} is not ADAPTER:ID", "for example: claude:0b0e6f9c-…; beam agent list --all names adapters"
        )
    return adapter, check_session_id(session_id)


def begin_in_session(
    context: RootContext,
    name: str,
    adapter: str,
    session_id: str,
    *,
    by: str,
    env: Mapping[str, str],
    declare: Callable[[], object],
) -> events.SessionImported:
    """Make the first turn of a new agent continue that session of its CLI, and import the session's earlier events into
    the agent's journal. `env` are the agent's own environment variables. `declare` is called last, while no broker can
    take the agent.

    Return the event that records how much was imported. Raises UsageError if the agent already had a turn or a message.
    """
    from beam.api.lock_wait import lock_new_agent
    from beam.broker.asking.follow import held_briefly
    from beam.foreign.past import past_events

    paths = context.agent_paths(check_name(name))
    _check_resumes(name, adapter)
    if "@" in name and context.config.resolve(name).settings.adapter != adapter:
        raise UsageError(
            f"{name} is {context.config.resolve(name).settings.adapter}, and the session is one of {adapter}",
            "give it a name of its own: beam agent add NAME --session …",
            subject=name,
        )
    with held_briefly(context, paths, run_blocking(lock_new_agent(context, paths, by=by))):
        discovery.create(context.home, paths)
        state = read_state(paths.journal)
        is_waiting = any(files.names(paths.queue / box) for box in ("new", "cur"))
        if state.turn or state.known or state.session or state.fork or is_waiting:
            raise UsageError(f"there is already an agent {name} here", "give the agent another name", subject=name)
        with contextlib.closing(Journal.open(paths.journal, name, context.clock, context.config.limits)) as journal:
            found = past_events(
                adapter, session_id, folder=str(context.home.project), environ={**context.environ, **env}
            )
            imported = _import(journal, adapter, session_id, found)
            journal.append(events.SessionSelected(session_id=session_id, adapter=adapter, by=by), sync=True)
            journal.rotate_if_due()
        declare()
    return imported


def _import(journal: Journal, adapter: str, session_id: str, found: PastEvents | None) -> events.SessionImported:
    """Append the session's events, except those that an earlier, killed attempt appended. Return the event that records
    the import."""
    from collections import Counter

    earlier = Counter(_content(event) for event in Reader(journal.directory).poll() if event.imported is not UNSET)
    for event in found.events if found is not None else ():
        content = _content(event)
        if earlier[content]:
            earlier[content] -= 1
        else:
            journal.append(event)
    return journal.append(
        events.SessionImported(
            session_id=session_id,
            adapter=adapter,
            events=len(found.events) if found is not None else 0,
            left_out=found.left_out if found is not None else None,
            is_cut=found is not None and found.is_cut,
            unread=found.unread if found is not None else {},
        )
    )


def _content(event: events.Event) -> bytes:
    return events.encode(msgspec.structs.replace(event, seq=0, ts="", agent=""))
