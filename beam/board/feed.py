"""Reads what the board shows, in threads of its own: the stream of events, and looks at everyone.

The board takes what has come; nothing here waits for the board, and the board waits for nothing here.
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

from beam import BeamError, clock
from beam.board.rows import Look, agent_key
from beam.board.teams import TeamLook

if TYPE_CHECKING:
    from beam import AnyEvent, AskLine, Beam, MemberLine, Placed, TeamLine, TeamShown

_PAUSE_S = 0.2  # between two batches of events: many small ones would cost more than they show
_LOOK_S = 2.0
_LOOK_SHARE = 40  # a look that takes a second comes every 40 seconds: beam never keeps a machine busy with looking
_TEAM_S = 3.0
_COUNT_S = 20.0  # how often what members used is read from all of their transcripts, at most
_MOST = 50_000  # events that wait for the board


class Came(NamedTuple):
    """An event that came, with the key of its row and the name to show."""

    event: AnyEvent
    key: str
    name: str


class Feed:
    """What happens and who is there. `beam_of` returns the `Beam` of a project folder."""

    def __init__(
        self,
        beam: Beam,
        beam_of: Callable[[Path], Beam],
        *,
        claude_homes: Sequence[str] = (),
        since: str = "",
    ) -> None:
        self._beam = beam
        self._beam_of = beam_of
        self._homes = tuple(claude_homes)
        self._since = since
        self._events: deque[Came] = deque(maxlen=_MOST)
        self._wake = threading.Event()
        self._is_over = False
        self._is_asked = False
        self._standing: Sequence[TeamShown] = ()
        self._used: dict[str, dict[str, MemberLine]] = {}  # by team and member, as it was counted last
        self._look: Look | None = None
        self._team: TeamLook | None = None
        self.teams: Sequence[TeamLine] = ()
        self.wanted_team: str | None = None  # "": the first one; None: no team is shown
        self.trouble = ""

    def start(self) -> None:
        """Begin to read."""
        for target in (self._look_always, self._read_always):
            threading.Thread(target=self._guarded, args=(target,), daemon=True).start()

    def close(self) -> None:
        """Read no more."""
        self._is_over = True
        self._wake.set()

    def look_soon(self) -> None:
        """Look again at once: a person changed something."""
        self._is_asked = True
        self._wake.set()

    def take(self) -> list[Came]:
        """Return the events that came since the last call."""
        found = []
        while self._events:
            found.append(self._events.popleft())
        return found

    def take_look(self) -> Look | None:
        """Return the newest look, once."""
        found, self._look = self._look, None
        return found

    def take_team(self) -> TeamLook | None:
        """Return the newest look at the team that is shown, once."""
        found, self._team = self._team, None
        return found

    def _guarded(self, target: Callable[[], None]) -> None:
        """Read until the board closes; what goes wrong is told, and reading begins again."""
        while not self._is_over:
            try:
                target()
            except BeamError as error:
                self.trouble = error.message
                time.sleep(_LOOK_S)
            except Exception as error:  # noqa: BLE001 - else its thread ends, and the board stands still in silence
                self.trouble = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
                time.sleep(_LOOK_S)

    # -- events --------------------------------------------------------------------------------------------------------

    def _read_always(self) -> None:
        from beam import ForeignSessions, team_views  # after the first picture: they load much

        teams = team_views.teams(
            self._beam.environ,
            claude_homes=self._homes,
            since=self._since,
            with_gone=bool(self._since),
            also=[self._beam.home.root / "agents"],
        )
        foreign = ForeignSessions(self._beam.environ, teams, since=self._since)
        stood = 0.0
        try:
            for batch in self._beam.stream_all(teams, history=bool(self._since), foreign=foreign):
                self._events.extend(came for one in batch if (came := self._came(one)) is not None)
                now = time.monotonic()
                if now - stood >= _LOOK_S:
                    is_first, stood = not stood, now
                    self._standing = team_views.standing(teams, now_ns=time.time_ns(), longer_than_s=60.0)
                    if is_first and self._standing:
                        self._wake.set()  # the look before knew no team
                if self._is_over:
                    return
                time.sleep(_PAUSE_S)
        finally:
            foreign.close()
            teams.close()

    def _came(self, one: Placed) -> Came | None:
        event = one.event
        if self._since and event.ts < self._since:
            return None
        if one.home is not None:
            lane = f":{one.lane[-5:]}" if one.lane is not None else ""
            key = agent_key(one.home.project, event.agent) + lane
            here = one.home.project == self._beam.home.project
            return Came(event, key, f"{'' if here else one.home.project.name + '/'}{event.agent}{lane}")
        if one.session is not None:
            cli, _, session_id = event.agent.partition("~")
            return Came(event, event.agent, f"{cli}~{session_id[-4:]}")
        return Came(event, event.agent, event.agent)

    # -- looks ---------------------------------------------------------------------------------------------------------

    def _look_always(self) -> None:
        looked = counts_at = 0.0
        while not self._is_over:
            began = time.monotonic()
            is_asked, self._is_asked = self._is_asked, False
            self._wake.clear()
            self._look = self._look_now()
            took = time.monotonic() - began
            if began >= counts_at and self._standing:
                self._count()
                ended = time.monotonic()
                counts_at = ended + max(_COUNT_S, _LOOK_SHARE * (ended - began - took))
            if self.wanted_team is not None and (is_asked or began - looked >= _TEAM_S):
                looked = began
                self._team = self._team_now(self.wanted_team)
                took = max(took, (time.monotonic() - began) / 2)
            self._wake.wait(max(_LOOK_S, _LOOK_SHARE * took))

    def _look_now(self) -> Look:
        ts = clock.rfc3339(time.time_ns())
        agents = self._beam.status_all()
        asks: list[tuple[Path, AskLine]] = []
        for project, lines in agents:
            names = [line.agent for line in lines if line.running is not None and line.running.asks]
            if names:
                asks += [(project, ask) for ask in self._beam_of(project).asks(names)]
        sessions = self._beam.foreign([line for _, lines in agents for line in lines])
        return Look(
            ts=ts, agents=agents, sessions=sessions, teams=[self._counted(shown) for shown in self._standing], asks=asks
        )

    def _count(self) -> None:
        from beam import TeamsHere

        for shown in self._standing:
            team = shown.team
            with contextlib.suppress(BeamError, OSError):  # it may have ended
                found = TeamsHere(self._beam.environ, claude_homes=[team.home]).show(team.team)
                self._used[team.team] = {member.member: member for member in found.members}

    def _counted(self, shown: TeamShown) -> TeamShown:
        """Return the team with what its members used as it was counted last."""
        known = self._used.get(shown.team.team, {})
        members = tuple(
            structs.replace(each, tokens=used.tokens, cost_usd=used.cost_usd) if used is not None else each
            for each in shown.members
            for used in (known.get(each.member),)
        )
        return structs.replace(shown, members=members)

    def _team_now(self, name: str) -> TeamLook | None:
        from beam import TeamsHere

        here = TeamsHere(self._beam.environ, claude_homes=self._homes)
        self.teams = here.teams()
        names = [line.team for line in self.teams]
        if not names:
            return None
        wanted = name if name in names else names[0]
        return TeamLook(shown=here.show(wanted), tasks=here.tasks(wanted), mail=here.mail(wanted, by_thread=True))
