"""The broker's record of one agent or lane: whether it needs a step, its lease, its running turn.

Does not depend on what the broker does for it.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from beam.base.digest import Stamp, stamp_of
from beam.root.paths import AgentPaths
from beam.store import lanes

if TYPE_CHECKING:
    from beam.broker.holder.lease import AgentLease
    from beam.turns.handle import Stop

_SETTLED_NS = 1_000_000_000  # file times are no finer than some milliseconds


class ServedAgent:
    """One agent or lane as the broker sees it.

    `is_dirty`: something may have changed since the last step. `next`: the position of the message that may be claimed
    now; None if there is no such message. `look_at`: when the next step is due even if nothing changes (monotonic
    seconds). `waits`: a message waits until a time at which it may be claimed. `started`: when the last turn began.
    `missed`: how often in a row another process had the lock. `is_deferred`: this is a lane that waits because the
    broker holds too many lanes.
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
        self.task: asyncio.Task[None] | None = None
        self.stop: Stop | None = None
        self.not_before = 0.0
        self.missed = 0
        self.is_deferred = False
        self.trouble = ""

    @property
    def is_busy(self) -> bool:
        """Return whether the broker runs a task for this agent: a turn, or the end of its kept process."""
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


def _changed_ns(path: str) -> int:
    """Return when the directory changed last (nanoseconds since the epoch); 0 if it does not exist. Called hundreds of
    times a second."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - a str needs no conversion to a Path
    except OSError:
        return 0
