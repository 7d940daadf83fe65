"""A worker: a detached process that drains one agent's queue, then lanes without a worker, and exits. If a message
asked to keep the agent's process, the worker stays for that time (`beam.broker.holding`).

`python -m beam.broker.worker ROOT AGENT [LANE]`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from beam.base import files
from beam.base.errors import BeamError
from beam.broker.context import RootContext
from beam.root import discovery
from beam.root.paths import AgentPaths

if TYPE_CHECKING:
    from beam.broker.lease import AgentLease
    from beam.turns.stop import Stop

_MOST_BUGS = 4  # one more than a message may have before it is given up
_MORE_TRIES, _MOMENT_S = 3, 0.02


def main(argv: list[str]) -> int:
    """Drain the queue that the arguments name; return the exit code."""
    import asyncio

    from beam.base.clock import SystemClock
    from beam.broker.agent_requests import carry_out

    environ = dict(os.environ)
    home = discovery.at(Path(argv[0]), environ)
    discovery.check_folder(home, environ)
    exposed = discovery.exposed(home, environ)
    context = RootContext.of(home, environ=environ, clock=SystemClock(), carry_out=carry_out, exposed=exposed)
    files.check_descriptors(files.TURN_FILES)
    asyncio.run(serve(context, context.agent_paths(argv[1], argv[2] if len(argv) > 2 else None)))
    return 0


def _run_arguments(argv: list[str]) -> int:
    try:
        return main(argv)
    except BeamError as error:
        sys.stderr.write(f"beam worker {' '.join(argv)}: {error}\n")
        return int(error.exit_code)


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


if __name__ == "__main__":
    raise SystemExit(_run_arguments(sys.argv[1:]))
