"""Reads all journals of one root, or of several roots, as one stream of batches of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct, structs

from beam.api.find import all_paths
from beam.base.clock import rfc3339
from beam.base.errors import CorruptError
from beam.broker.inbox.context import RootContext
from beam.model.events import AnyEvent, Event
from beam.root.paths import RootPaths
from beam.store.reader import Reader
from beam.store.segment import read_state, segments

if TYPE_CHECKING:
    from beam.agents.session_files import Session
    from beam.api.foreign import ForeignSessions
    from beam.teams.watch import Teams

_RESCAN_S = 1.0


class Placed(Struct, frozen=True):
    """An event and the root whose journal contains it (None for an event of a team or of a foreign session). `lane` is
    the `--once` lane whose journal contains it; None for the agent's own journal. `session` is the session of the event
    if beam did not start that session, else None. `agent_dir` is the agent's present directory, even if the agent had
    another name when the event was written."""

    event: AnyEvent
    home: RootPaths | None
    lane: str | None = None
    session: Session | None = None
    agent_dir: Path | None = None


def watch_root(
    context: RootContext, *, agents: list[str], follow: bool, history: bool, teams: Teams | None = None
) -> Iterator[list[Placed]]:
    """Yield batches of events sorted by time, each event with its source. Events of `teams` are included.

    Agents that appear later are included. A batch comes when a file changes, and at least once a second; it may be
    empty. A damaged journal is skipped; CorruptError is raised after the events of all other journals.
    """
    wakes = iter(()) if not follow else _changes(context) if teams is None else None
    return _watch(lambda: [context.home], context, agents, wakes, follow=follow, history=history, teams=teams)


def watch_roots(
    homes: Callable[[], Sequence[RootPaths]],
    context: RootContext,
    *,
    follow: bool,
    history: bool,
    recent: bool = False,
    teams: Teams,
    foreign: ForeignSessions | None = None,
) -> Iterator[list[Placed]]:
    """Yield batches as `watch_root` does, for all agents of several roots, including roots that appear later. Events of
    `foreign` sessions are included. With `recent`, the first batch has the newest earlier events of each agent."""
    return _watch(homes, context, [], None, follow=follow, history=history, recent=recent, teams=teams, foreign=foreign)


def _watch(
    homes: Callable[[], Sequence[RootPaths]],
    context: RootContext,
    agents: list[str],
    wakes: Iterator[None] | None,
    *,
    follow: bool,
    history: bool,
    recent: bool = False,
    teams: Teams | None,
    foreign: ForeignSessions | None = None,
) -> Iterator[list[Placed]]:
    readers: dict[str, Reader] = {}
    damaged: dict[str, CorruptError] = {}
    first = True
    while True:
        found: list[AnyEvent] = [] if teams is None else cast("list[AnyEvent]", teams.poll())
        if teams is not None and not follow:
            found += cast("list[AnyEvent]", teams.take_held_events())
        batch = [Placed(event, None) for event in found]
        for home in homes():
            if teams is not None:
                teams.watch_also(home.root / "agents")
            for paths in all_paths(structs.replace(context, home=home, environ={}), agents or None):
                name = str(paths.dir)
                if name in damaged:
                    continue
                try:
                    if name not in readers:
                        readers[name] = Reader(
                            paths.journal, _seq_before(paths.journal, history=history or not first, recent=recent)
                        )
                        if foreign is not None:
                            foreign.begin(name, paths.journal)
                    new = readers[name].poll()
                    batch += [Placed(event, home, paths.lane, agent_dir=paths.agent_dir) for event in new]
                    if foreign is not None:
                        foreign.record_own_events(name, new)
                except CorruptError as error:
                    damaged[name] = error
        if foreign is not None and teams is not None:
            batch += [Placed(one.event, None, session=one.session) for one in foreign.poll(teams)]
        batch.sort(key=lambda one: one.event.ts)  # events of the same time keep the order of their source
        yield batch
        first = False
        if damaged and (not follow or len(damaged) == len(readers)):
            raise next(iter(damaged.values()))
        if not follow:
            return
        if wakes is not None:
            next(wakes, None)
        elif teams is not None:
            teams.wait(_RESCAN_S)


def since(seconds: float) -> str:
    """Return the time `seconds` ago, in the format of event times (RFC 3339)."""
    import time

    return rfc3339(time.time_ns() - int(seconds * 1e9))


def _seq_before(journal: Path, *, history: bool, recent: bool) -> int:
    """Return the number of the event after which the reading of a journal begins: with `history` 0, with `recent` that
    of the last event before the newest segment, else that of the last event."""
    if history:
        return 0
    if not recent:
        return read_state(journal).seq
    return next((int(name[:-6]) - 1 for name in segments(journal)[-1:]), 0)


def _changes(context: RootContext) -> Iterator[None]:
    """Yield each time a journal changes, and at least once a second."""
    import threading

    from beam.teams.changes import Changes

    wake = threading.Event()
    changes = Changes((), others=[str(context.home.root / "agents")], wake=wake)
    changes.start()
    try:
        while True:
            wake.wait(_RESCAN_S)
            wake.clear()
            changes.take_reported()
            yield
    finally:
        changes.close()


# -- filter ------------------------------------------------------------------------------------------------------------
# Filters the events of a stream by agent, team and type.


class Wanted(Struct, frozen=True, kw_only=True):
    """A filter for events; an empty field matches every event. `types` are patterns of event types (`task.*`), `teams`
    are parts of team names, `agents` are names of agents with or without their team or session."""

    agents: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def fits(self, event: Event) -> bool:
        """Return whether the event passes the filter."""
        if self.types and not any(fnmatchcase(str(event.__struct_config__.tag), pattern) for pattern in self.types):
            return False
        name, _, team = event.agent.partition("@")
        if self.teams and not any(team and part in team for part in self.teams):
            return False
        cli, _, session = event.agent.partition("~")
        is_named = (bool(team) and name in self.agents) or (bool(session) and cli in self.agents)
        return not self.agents or event.agent in self.agents or is_named
