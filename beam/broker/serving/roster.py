"""The roster of a broker: the agents and lanes that it serves.

New agents and lanes are added, and removed ones are released. Does not depend on what the broker does for an agent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from beam.base.errors import BeamError
from beam.broker.holder import stranded
from beam.broker.inbox.context import RootContext
from beam.broker.serving.served import ServedAgent
from beam.broker.serving.wake import Wake
from beam.root.paths import AgentPaths


class Roster:
    """The agents that a broker serves, by name, and their lanes, by path."""

    def __init__(self) -> None:
        self.agents: dict[str, ServedAgent] = {}
        self.lanes: dict[AgentPaths, ServedAgent] = {}

    def all(self) -> list[ServedAgent]:
        """Return the agents, then the lanes."""
        return [*self.agents.values(), *self.lanes.values()]

    def adopt_agents(self, context: RootContext, wake: Wake) -> None:
        """Add every agent that has files in the root, and watch its directories. Release agents whose files were
        removed."""
        names = context.home.agents()
        wake.watch(context.home.root / "agents")
        for name in names:
            if name not in self.agents:
                self.agents[name] = ServedAgent(context.agent_paths(name))
                wake.watch(self.agents[name].lanes_folder)
            watch_directories(self.agents[name], wake)
        for name in set(self.agents).difference(names):
            served = self.agents[name]
            if not served.is_busy:
                if served.lease is not None:
                    served.lease.close()
                for directory in (*served.directories, served.lanes_folder):
                    wake.forget(directory)
                del self.agents[name]

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
            self.lanes[paths] = lane = ServedAgent(paths)
            lane.started = began.get(paths.agent, 0.0)
            wait_s = stranded.OWN_WORKER_S
            with contextlib.suppress(BeamError):  # the lane's own step reports the error
                wait_s = stranded.own_worker_seconds(paths, context.clock.now_ns())
            lane.not_before = context.clock.monotonic() + wait_s
        for paths in set(self.lanes).difference(found):
            if not self.lanes[paths].is_busy:
                self.release(self.lanes.pop(paths))

    def held_lanes(self) -> int:
        """Return the number of lanes whose leases this broker holds."""
        return sum(lane.lease is not None for lane in self.lanes.values())

    def release(self, served: ServedAgent) -> None:
        """Close the lease of the agent or lane, so that another process can acquire it. Mark the lanes that waited
        because the broker held too many: they need a step now."""
        if served.lease is not None:
            served.lease.close()
            served.lease = None
        for lane in self.lanes.values():
            lane.is_dirty |= lane.is_deferred
            lane.is_deferred = False


def watch_directories(served: ServedAgent, wake: Wake) -> None:
    """Watch the agent's directories, so that changes in them wake the broker. Idempotent."""
    for directory in served.directories:
        wake.watch(directory)
