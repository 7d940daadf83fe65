"""Drains one agent's queue, then lanes without a worker.

If a message asked to keep the agent's process, the drain lasts as long as the process is kept (`beam.broker.holding`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from beam.base.errors import BeamError
from beam.broker.context import RootContext
from beam.root.paths import AgentPaths

if TYPE_CHECKING:
    from beam.broker.lease import AgentLease
    from beam.turns.stop import Stop

_MOST_BUGS = 4  # one more than a message may have before it is given up
_MORE_TRIES, _MOMENT_S = 3, 0.02


async def serve(context: RootContext, paths: AgentPaths) -> None:
    """Drain the agent or lane, and then every lane of the agent whose own worker died.

    A lane that can't be drained is reported on stderr, and the others are drained.
    """
    import asyncio

    from beam.broker import stranded

    goes_on = await drain(context, paths)
    tried = {paths.lane}
    while goes_on:
        lane = next((one for one in stranded.found(context.home.agent(paths.agent)) if one.lane not in tried), None)
        if lane is None:
            return
        own_s = stranded.own_s(lane, context.clock.now_ns())
        if own_s > 0:
            await asyncio.sleep(own_s)
            continue
        tried.add(lane.lane)
        try:
            goes_on = await drain(context, lane)
        except BeamError as error:
            sys.stderr.write(f"beam worker: lane {lane.lane} of {lane.agent}: {error}\n")


async def drain(context: RootContext, paths: AgentPaths) -> bool:
    """Run all waiting messages of the agent; return when none is left or another process holds the agent.

    Return False if a signal asked to stop. An unexpected exception in a turn is printed; recovery then records that
    message's outcome, and the other messages run. Raises the exception after four in a row, and DiskError.
    """
    from beam.process import tree
    from beam.turns.stop import Stop

    tree.become_subreaper()
    bugs = 0
    declined: set[str] = set()
    while (lease := await _acquired(context, paths)) is not None:
        stop = Stop()
        waits = is_left = False
        try:
            is_left = await _work(lease, stop, declined)
            bugs = 0
        except BeamError:
            raise
        except Exception:
            bugs += 1
            if bugs == _MOST_BUGS:
                raise
            import traceback

            traceback.print_exc()
        finally:
            waits = lease.hand_over(start_worker=False)
        if stop.reason is not None or not (waits or bugs):
            return stop.reason is None
        if is_left:
            from beam.broker.holding import leave_to_its_sender

            await leave_to_its_sender(paths)
    return True


async def _acquired(context: RootContext, paths: AgentPaths) -> AgentLease | None:
    """Acquire the lease. For a lane, retry: another process may hold its lock briefly for a check."""
    import asyncio

    from beam.broker.lease import AgentLease

    lease = AgentLease.acquire(context, paths)
    for _ in range(_MORE_TRIES if paths.lane is not None else 0):
        if lease is not None:
            break
        await asyncio.sleep(_MOMENT_S)
        lease = AgentLease.acquire(context, paths)
    return lease


async def _work(lease: AgentLease, stop: Stop, declined: set[str]) -> bool:
    """Run waiting messages, and keep processes as requested, until `stop`; return whether a message was left to its
    sender."""
    from beam.broker.holding import Holder
    from beam.turns.signals import stopping

    with stopping(stop, by="a signal to its worker"):
        return await Holder(lease, stop, declined).serve()
