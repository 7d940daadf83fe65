"""A worker: a detached process that runs the waiting messages of one agent, then those of its lanes whose workers died,
and exits.

`python -m beam.broker.serving.worker ROOT AGENT [LANE]`. Its imports are inside functions: `startup.prepare` runs
before them and makes them cheaper.

If a message asked to keep the agent's process, the worker lives as long as that process (`beam.broker.serving.server`).
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from beam.base import own_program

if TYPE_CHECKING:
    from beam.broker.inbox.context import RootContext
    from beam.root.paths import AgentPaths


def main(argv: list[str]) -> int:
    """Run the waiting messages of the agent that the arguments name (ROOT AGENT [LANE]); return the exit code."""
    from beam.base.errors import BeamError

    try:
        _run(argv)
    except BeamError as error:
        sys.stderr.write(f"beam worker {' '.join(argv)}: {error}\n")
        return int(error.exit_code)
    return 0


def _run(argv: list[str]) -> None:
    import asyncio
    from pathlib import Path

    from beam.base import files, own_program
    from beam.base.clock import SystemClock
    from beam.broker.asking.agent_requests import carry_out
    from beam.broker.inbox.context import RootContext
    from beam.root import discovery

    environ = dict(os.environ)
    home = discovery.root_at(Path(argv[0]), environ)
    own_program.hold(home.project)
    discovery.check_folder(home, environ)
    exposed = discovery.exposing_folder(home, environ)
    context = RootContext.load(home, environ=environ, clock=SystemClock(), carry_out=carry_out, exposed=exposed)
    files.check_descriptors(files.TURN_DESCRIPTORS)
    own_program.prepare_long_run()  # it may keep an agent's process for hours
    asyncio.run(drain_with_lanes(context, context.agent_paths(argv[1], argv[2] if len(argv) > 2 else None)))


async def drain_with_lanes(context: RootContext, paths: AgentPaths) -> None:
    """Run the waiting messages of the agent or lane. Then do the same for each lane of the agent that lost its worker.

    If a lane can't be drained, that is reported on stderr, and the other lanes are drained.
    """
    import asyncio

    from beam.base.errors import BeamError
    from beam.broker.inbox import launch

    goes_on = await drain(context, paths)
    tried = {paths.lane}
    while goes_on:
        lane = next(
            (one for one in launch.stranded_lanes(context.home.agent(paths.agent)) if one.lane not in tried), None
        )
        if lane is None:
            return
        own_s = launch.own_worker_seconds(lane, context.clock.now_ns())
        if own_s > 0:
            await asyncio.sleep(own_s)
            continue
        tried.add(lane.lane)
        try:
            goes_on = await drain(context, lane)
        except BeamError as error:
            sys.stderr.write(f"beam worker: lane {lane.lane} of {lane.agent}: {error}\n")


async def drain(context: RootContext, paths: AgentPaths) -> bool:
    """Run all waiting messages of the agent; return when no message is left or when another process holds the agent.

    Return False if a signal asked this process to stop, else True. An unexpected exception in a turn is printed.
    Recovery then records the outcome of that turn's message, and the other messages run. The fourth unexpected
    exception in a row is raised. Also raises BeamError, such as DiskError.
    """
    from beam.broker.serving.kind import WORKER
    from beam.broker.serving.server import Server
    from beam.turns.handle import on_stop_signals

    server = Server(context, WORKER, say=_write, idle=0.0)
    server.roster.add(paths)
    with on_stop_signals(server.ask_to_stop) as came:
        await server.serve()
    return not came


def _write(text: str) -> None:
    sys.stderr.write(text)


if __name__ == "__main__":
    own_program.prepare()
    own_program.import_msgspec()
    own_program.exit_fast(main(sys.argv[1:]))
