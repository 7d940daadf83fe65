"""Finds `--once` messages whose worker died, and starts new workers for them.

Every lane (the queue of one `--once` message) has its own worker. If that worker dies, no other process opens the lane
by itself. So unfinished lanes are searched for by every process that releases an agent, by every worker that ends, and
by the broker. Does not depend on how a turn runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from beam.base.errors import BeamError
from beam.broker.inbox import launch
from beam.broker.inbox.context import RootContext
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.store.lock import is_held
from beam.store.queue import Queue
from beam.store.segment import read_state

OWN_WORKER_S = 2.0  # how long a new lane is left to the worker that was started for it
_MAX_WORKERS = 4  # workers that are started for stranded lanes; each drains one lane after the other
_RETRY_S = 5.0


def stranded_lanes(agent: AgentPaths) -> Iterator[AgentPaths]:
    """Yield the agent's unfinished lanes that no process holds, the oldest first.

    A finished lane is removed from the index: its holder died after the lane's last message had ended, and before it
    removed the lane.
    """
    for lane in lanes.indexed_lanes(agent):
        if is_held(lane.lock):
            continue
        if lanes.has_work_left(lane):
            yield lane
        else:
            lanes.remove_from_index(lane)


def own_worker_seconds(lane: AgentPaths, now_ns: int) -> float:
    """Return for how many more seconds the lane is reserved for its own worker, because its message is new; 0 if it is
    not."""
    waiting = Queue(lane.queue, lane.put_lock).entries("new")
    age_s = max(((now_ns - entry.position) / 1e9 for entry in waiting), default=OWN_WORKER_S)
    return max(0.0, OWN_WORKER_S - age_s) if age_s >= 0 else 0.0  # a negative age means that the clock was set back


def start_lane_workers(context: RootContext, left: AgentPaths) -> None:
    """Start workers for unfinished lanes of an agent. `left` is the agent or lane that was just released; no worker is
    started for it.

    A blocked or unreadable lane is skipped. A lane gets at most one worker in a few seconds, because a worker that can
    do nothing would otherwise be restarted endlessly.
    """
    agent = context.home.agent(left.agent)
    if context.is_mailbox(agent.agent):
        return
    now_ns = context.clock.now_ns()
    able = (lane for lane in stranded_lanes(agent) if lane != left and _can_run(lane))
    due = (lane for lane in able if lanes.claim_retry(lane, now_ns, after_s=_RETRY_S))
    for lane in islice(due, _MAX_WORKERS):
        launch.start_worker(context, lane)


def _can_run(lane: AgentPaths) -> bool:
    try:
        return read_state(lane.journal).blocked is None
    except BeamError:
        return False
