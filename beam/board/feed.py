"""Reads the data that the board shows: one thread reads events, another takes a snapshot of everyone every few seconds.

The board fetches the results. Neither the threads nor the board wait for each other.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from beam import BeamError, clock, events
from beam.board.rows import Snapshot, agent_key
from beam.board.stream import stream_event
from beam.board.teams import TeamSnapshot

if TYPE_CHECKING:
    from beam import AnyEvent, AskLine, Beam, MemberLine, Placed, TeamLine, TeamShown

_PAUSE_S = 0.2  # between two batches of events, because many small batches would cost too much
_POLL_S = 2.0
_POLL_SHARE = 40  # the pause after a snapshot is this many times as long as the snapshot took, to save CPU time
_TEAM_S = 3.0
_COUNT_S = 20.0  # the shortest time between two readings of the members' usage, which read all transcripts
_MAX_EVENTS = 50_000  # events that wait for the board
_RECENT_EVENTS = 500  # how many earlier events the board begins with at most
_RECENT_S = 3600.0  # how old such events of teams and of sessions that beam did not start may be


class ReceivedEvent(NamedTuple):
    """An event, with the key of its row and the name to show. `is_past` marks an event from before the board began that
    only the stream shows, because not all of those events are known."""

    event: AnyEvent
    key: str
    name: str
    is_past: bool = False


class Feed:
    """The source of events and snapshots. `beam_for_project` returns the `Beam` of a project folder."""

    def __init__(
        self,
        beam: Beam,
        beam_for_project: Callable[[Path], Beam],
        *,
        claude_homes: Sequence[str] = (),
        since: str = "",
    ) -> None:
        self._beam = beam
        self._beam_for_project = beam_for_project
        self._claude_homes = tuple(claude_homes)
        self._since = since
        self._is_recent_wanted = not since
        self._began = clock.rfc3339(time.time_ns())
        self._events: deque[ReceivedEvent] = deque(maxlen=_MAX_EVENTS)
        self._wake = threading.Event()
        self._is_over = False
        self._is_refresh_wanted = False
        self._standing: Sequence[TeamShown] = ()
        self._used: dict[str, dict[str, MemberLine]] = {}  # by team and member, with the usage that was read last
        self._snapshot: Snapshot | None = None
        self._team: TeamSnapshot | None = None
        self.teams: Sequence[TeamLine] = ()
        self.wanted_team: str | None = None  # "": the first one; None: no team is shown
        self.trouble = ""

    @property
    def here(self) -> Path:
        """Return the project folder in which the board was started."""
        return self._beam.home.project

    def start(self) -> None:
        """Start the threads."""
        for target in (self._take_snapshots, self._read_events):
            threading.Thread(target=self._keep_running, args=(target,), daemon=True).start()

    def close(self) -> None:
        """Stop the threads."""
        self._is_over = True
        self._wake.set()

    def refresh_soon(self) -> None:
        """Wake the thread that takes snapshots, so that it takes the next one immediately."""
        self._is_refresh_wanted = True
        self._wake.set()

    def drain(self) -> list[ReceivedEvent]:
        """Return the events that came since the last call."""
        found = []
        while self._events:
            found.append(self._events.popleft())
        return found

    def take_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot; None if there is no new one since the last call."""
        found, self._snapshot = self._snapshot, None
        return found

    def take_team(self) -> TeamSnapshot | None:
        """Return the newest snapshot of the shown team; None if there is no new one since the last call."""
        found, self._team = self._team, None
        return found

    def _keep_running(self, target: Callable[[], None]) -> None:
        """Run `target` until the board closes. After an error, report it in `trouble` and run `target` again."""
        while not self._is_over:
            try:
                target()
            except BeamError as error:
                self.trouble = error.message
                time.sleep(_POLL_S)
            except Exception as error:  # noqa: BLE001 - otherwise the thread would end, and the board stand still without a message
                self.trouble = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
                time.sleep(_POLL_S)

    # -- events --------------------------------------------------------------------------------------------------------

    def _read_events(self) -> None:
        from beam import ForeignSessions, team_views  # not at the top, because these load many modules
        from beam import since as since_time

        recent = self._is_recent_wanted
        from_when = since_time(_RECENT_S) if recent else self._since
        teams = team_views.teams(
            self._beam.environ,
            claude_homes=self._claude_homes,
            since=from_when,
            with_gone=bool(self._since),
            also=[self._beam.home.root / "agents"],
        )
        foreign = ForeignSessions(self._beam.environ, teams, since=from_when)
        stood = 0.0
        try:
            for batch in self._beam.stream_all(teams, history=bool(self._since), recent=recent, foreign=foreign):
                self._events.extend(self._receive_batch(batch))
                self._is_recent_wanted = False  # also after an error
                now = time.monotonic()
                if now - stood >= _POLL_S:
                    is_first, stood = not stood, now
                    self._standing = team_views.standing(teams, now_ns=time.time_ns(), longer_than_s=60.0)
                    if is_first and self._standing:
                        self._wake.set()  # earlier snapshots had no team
                if self._is_over:
                    return
                time.sleep(_PAUSE_S)
        finally:
            foreign.close()
            teams.close()

    def _receive_batch(self, batch: Sequence[Placed]) -> deque[ReceivedEvent]:
        """Return the events of the batch, which is sorted by time; of the past ones, only the last."""
        found: deque[ReceivedEvent] = deque()
        past = 0
        for one in reversed(batch):
            received = self._receive_event(one)
            if received is None:
                continue
            past += received.is_past
            if past > _RECENT_EVENTS:
                break
            found.appendleft(received)
        return found

    def _receive_event(self, one: Placed) -> ReceivedEvent | None:
        event = one.event
        if self._since and event.ts < self._since:
            return None
        is_past = not self._since and event.ts < self._began
        if is_past and stream_event(event, "", "") is None:
            return None
        if one.agent_dir is not None:
            event = events.with_image_in(event, str(one.agent_dir))
        if one.home is not None:
            lane = f":{one.lane[-5:]}" if one.lane is not None else ""
            key = agent_key(one.home.project, event.agent) + lane
            here = one.home.project == self._beam.home.project
            return ReceivedEvent(
                event, key, f"{'' if here else one.home.project.name + '/'}{event.agent}{lane}", is_past
            )
        if one.session is not None:
            cli, _, session_id = event.agent.partition("~")
            folder = "" if one.session.cwd in ("", str(self.here)) else f"{Path(one.session.cwd).name}/"
            return ReceivedEvent(event, event.agent, f"{folder}{cli}~{session_id[-4:]}", is_past)
        return ReceivedEvent(event, event.agent, event.agent, is_past)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def _take_snapshots(self) -> None:
        team_read_at = counts_at = 0.0
        while not self._is_over:
            began = time.monotonic()
            is_refresh_wanted, self._is_refresh_wanted = self._is_refresh_wanted, False
            self._wake.clear()
            self._snapshot = self._make_snapshot()
            took = time.monotonic() - began
            if began >= counts_at and self._standing:
                self._read_usage()
                ended = time.monotonic()
                counts_at = ended + max(_COUNT_S, _POLL_SHARE * (ended - began - took))
            if self.wanted_team is not None and (is_refresh_wanted or began - team_read_at >= _TEAM_S):
                team_read_at = began
                self._team = self._team_snapshot(self.wanted_team)
                took = max(took, (time.monotonic() - began) / 2)
            self._wake.wait(max(_POLL_S, _POLL_SHARE * took))

    def _make_snapshot(self) -> Snapshot:
        ts = clock.rfc3339(time.time_ns())
        agents = self._beam.status_all()
        asks: list[tuple[Path, AskLine]] = []
        for project, lines in agents:
            names = [line.agent for line in lines if line.running is not None and line.running.asks]
            if names:
                asks += [(project, ask) for ask in self._beam_for_project(project).asks(names)]
        sessions = self._beam.foreign([line for _, lines in agents for line in lines])
        return Snapshot(
            ts=ts,
            agents=agents,
            sessions=sessions,
            teams=[self._with_usage(shown) for shown in self._standing],
            asks=asks,
        )

    def _read_usage(self) -> None:
        from beam import TeamsHere

        for shown in self._standing:
            team = shown.team
            with contextlib.suppress(BeamError, OSError):  # the team may have ended
                found = TeamsHere(self._beam.environ, claude_homes=[team.home]).show(team.team)
                self._used[team.team] = {member.member: member for member in found.members}

    def _with_usage(self, shown: TeamShown) -> TeamShown:
        """Return the team with the tokens and costs that were last read for its members."""
        known = self._used.get(shown.team.team, {})
        members = tuple(
            structs.replace(each, tokens=used.tokens, cost_usd=used.cost_usd) if used is not None else each
            for each in shown.members
            for used in (known.get(each.member),)
        )
        return structs.replace(shown, members=members)

    def _team_snapshot(self, name: str) -> TeamSnapshot | None:
        from beam import TeamsHere

        here = TeamsHere(self._beam.environ, claude_homes=self._claude_homes)
        self.teams = here.teams()
        names = [line.team for line in self.teams]
        if not names:
            return None
        wanted = name if name in names else names[0]
        return TeamSnapshot(shown=here.show(wanted), tasks=here.tasks(wanted), mail=here.mail(wanted, by_thread=True))
