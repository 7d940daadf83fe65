"""The roster of a server: the agents and lanes that it serves, and what the server knows of each.

New agents and lanes of a root are added, and removed ones are released. Does not depend on what the server does for an
agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beam.base.digest import Stamp, stamp_of
from beam.base.errors import BeamError
from beam.broker.inbox import launch
from beam.root.paths import AgentPaths
from beam.store import lanes

if TYPE_CHECKING:
    from beam.broker.holder.lease import AgentLease
    from beam.broker.inbox.context import RootContext
    from beam.broker.serving.wake import Wake
    from beam.turns.handle import Stop

_SETTLED_NS = 1_000_000_000  # file times are no finer than some milliseconds


class ServedAgent:
    """One agent or lane as the server sees it.

    `is_dirty`: something may have changed since the last step. `next`: the position of the message that may be claimed
    now; None if there is no such message. `look_at`: when the next step is due even if nothing changes (monotonic
    seconds). `waits`: something waits that this server will handle, but not now. `started`: when the last turn began.
    `missed`: how often in a row another process had the lock. `is_deferred`: this is a lane that waits because the
    server holds too many lanes. `left_until`: until when a message is left for its sender to run (monotonic seconds).
    `bugs`: how many unexpected exceptions came since the last turn.
    """

    def __init__(self, paths: AgentPaths) -> None:
        self.paths = paths
        self.directories = (paths.queue / "new", paths.control / "new")
        self._names = (str(self.directories[0]), str(self.directories[1]))
        self.lanes_folder = lanes.index_folder(paths)
        self._lanes: list[AgentPaths] = []
        self._lanes_stamp: Stamp = None
        self._no_lanes: tuple[int, ...] | None = None  # the stamp of the agent's directory while the agent had no lane
        self.is_dirty = True
        self.next: int | None = None
        self.look_at = math.inf
        self.waits = False
        self.started = 0.0
        self.stamps: tuple[int, ...] | None = None
        self.lease: AgentLease | None = None
        self.task: asyncio.Task[Any] | None = None
        self.stop: Stop | None = None
        self.not_before = 0.0
        self.missed = 0
        self.is_deferred = False
        self.left_until = -math.inf
        self.bugs = 0
        self.trouble = ""

    @property
    def is_busy(self) -> bool:
        """Return whether the server runs a task for this agent: a turn, or the end of its kept process."""
        return self.task is not None and not self.task.done()

    def due_at(self) -> float:
        """Return when a step is due even without changes (monotonic seconds)."""
        if self.is_dirty:
            return self.not_before
        kept = self.lease.keeper.next_check() if self.lease is not None else None
        return self.look_at if kept is None else min(self.look_at, kept)

    def needs_step(self, now: float) -> bool:
        """Return whether the agent is not busy and a step is due. `now` is in monotonic seconds."""
        return not self.is_busy and self.not_before <= now and (self.is_dirty or self.look_at <= now)

    def compare_stamps(self, now_ns: int) -> None:
        """Mark the agent dirty if one of its directories changed since the last call.

        A directory that changed a moment ago counts as changed again in the next call, because a further change in the
        same instant would leave its time as it is.
        """
        stamps = (_changed_ns(self._names[0]), _changed_ns(self._names[1]))
        is_settled = now_ns - max(stamps) > _SETTLED_NS
        self.is_dirty = self.is_dirty or stamps != self.stamps
        self.stamps = stamps if is_settled else None

    def unfinished_lanes(self, now_ns: int, watch: Callable[[Path], None]) -> list[AgentPaths]:
        """Return the agent's lanes that may be unfinished.

        The lanes are listed again only if the directory that lists them may have changed. That directory is then also
        watched. As long as the agent has no lanes, only the time of the agent's own directory is checked, because the
        first lane changes that time.
        """
        own = stamp_of(self.paths.dir)
        if own is not None and own == self._no_lanes:
            return self._lanes
        stamp = stamp_of(self.lanes_folder)
        is_settled = own is not None and now_ns - own[0] > _SETTLED_NS
        self._no_lanes = own if stamp is None and is_settled else None
        if stamp is None or stamp != self._lanes_stamp:
            if stamp is not None:
                watch(self.lanes_folder)
            self._lanes = lanes.indexed_lanes(self.paths)
            self._lanes_stamp = stamp if stamp is not None and now_ns - stamp[0] > _SETTLED_NS else None
        return self._lanes


class Roster:
    """The agents that a server serves, by name, and their lanes, by path."""

    def __init__(self) -> None:
        self.agents: dict[str, ServedAgent] = {}
        self.lanes: dict[AgentPaths, ServedAgent] = {}

    def all(self) -> list[ServedAgent]:
        """Return the agents, then the lanes."""
        return [*self.agents.values(), *self.lanes.values()]

    def add(self, paths: AgentPaths) -> ServedAgent:
        """Add the agent or lane, and return it; return the one that is here already, if there is one."""
        if paths.lane is not None:
            return self.lanes.setdefault(paths, ServedAgent(paths))
        return self.agents.setdefault(paths.agent, ServedAgent(paths))

    def forget(self, served: ServedAgent, wake: Wake) -> None:
        """Remove the agent or lane, and watch its directories no longer."""
        for directory in (*served.directories, served.lanes_folder):
            wake.forget(directory)
        if served.paths.lane is None:
            self.agents.pop(served.paths.agent, None)
        else:
            self.lanes.pop(served.paths, None)

    def adopt_agents(self, context: RootContext, wake: Wake) -> None:
        """Add every agent that has files in the root, and watch its directories. Release agents whose files were
        removed."""
        names = context.home.agents()
        wake.watch(context.home.root / "agents")
        for name in names:
            if name not in self.agents:
                wake.watch(self.add(context.agent_paths(name)).lanes_folder)
            watch_directories(self.agents[name], wake)
        for name in set(self.agents).difference(names):
            served = self.agents[name]
            if not served.is_busy:
                if served.lease is not None:
                    served.lease.close()
                self.forget(served, wake)

    def has_new_lanes(self, changed: Collection[Path]) -> bool:
        """Return whether one of these changed directories is the one in which an agent's lanes are listed."""
        return any(served.lanes_folder in changed for served in self.agents.values())

    def adopt_lanes(self, context: RootContext, wake: Wake, began: dict[str, float]) -> None:
        """Add every unfinished lane, to be served after the time that is reserved for its own worker. Release finished
        lanes.

        `began` maps each agent to the time when the last turn in one of its lanes began (monotonic seconds).
        """
        found: set[AgentPaths] = set()
        now_ns = context.clock.now_ns()
        for served in self.agents.values():
            with contextlib.suppress(BeamError):  # the agent's own step reports the error
                found.update(served.unfinished_lanes(now_ns, wake.watch))
        for paths in sorted(found.difference(self.lanes), key=lambda lane: lane.lane or ""):
            lane = self.add(paths)
            lane.started = began.get(paths.agent, 0.0)
            wait_s = launch.OWN_WORKER_S
            with contextlib.suppress(BeamError):  # the lane's own step reports the error
                wait_s = launch.own_worker_seconds(paths, context.clock.now_ns())
            lane.not_before = context.clock.monotonic() + wait_s
        for paths in set(self.lanes).difference(found):
            if not self.lanes[paths].is_busy:
                self.release(self.lanes.pop(paths))

    def held_lanes(self) -> int:
        """Return the number of lanes whose leases this server holds."""
        return sum(lane.lease is not None for lane in self.lanes.values())

    def release(self, served: ServedAgent) -> None:
        """Close the lease of the agent or lane, so that another process can acquire it. Mark the lanes that waited
        because the server held too many: they need a step now."""
        if served.lease is not None:
            served.lease.close()
            served.lease = None
        for lane in self.lanes.values():
            lane.is_dirty |= lane.is_deferred
            lane.is_deferred = False


def watch_directories(served: ServedAgent, wake: Wake) -> None:
    """Watch the agent's directories, so that changes in them wake the server. Idempotent."""
    for directory in served.directories:
        wake.watch(directory)


def _changed_ns(path: str) -> int:
    """Return when the directory changed last (nanoseconds since the epoch); 0 if it does not exist. Called hundreds of
    times a second."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - a str needs no conversion to a Path
    except OSError:
        return 0
