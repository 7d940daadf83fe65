"""A worker: a detached process that runs the waiting messages of one agent, then those of its lanes whose workers died,
and exits.

`python -m beam.broker.serving.worker ROOT AGENT [LANE]`. Its imports are inside functions: `startup.prepare` runs
before them and makes them cheaper.
"""

from __future__ import annotations

import os
import sys

from beam.base import startup


def main(argv: list[str]) -> int:
    """Run the waiting messages of the agent that the arguments name (ROOT AGENT [LANE]); return the exit code."""
    from beam.base.errors import BeamError

    try:
        _drain(argv)
    except BeamError as error:
        sys.stderr.write(f"beam worker {' '.join(argv)}: {error}\n")
        return int(error.exit_code)
    return 0


def _drain(argv: list[str]) -> None:
    import asyncio
    from pathlib import Path

    from beam.base import files, own_program
    from beam.base.clock import SystemClock
    from beam.broker.asking.agent_requests import carry_out
    from beam.broker.inbox.context import RootContext
    from beam.broker.serving import drain
    from beam.root import discovery

    environ = dict(os.environ)
    home = discovery.root_at(Path(argv[0]), environ)
    own_program.hold(home.project)
    discovery.check_folder(home, environ)
    exposed = discovery.exposing_folder(home, environ)
    context = RootContext.load(home, environ=environ, clock=SystemClock(), carry_out=carry_out, exposed=exposed)
    files.check_descriptors(files.TURN_DESCRIPTORS)
    startup.prepare_long_run()  # it may keep an agent's process for hours
    asyncio.run(drain.drain_with_lanes(context, context.agent_paths(argv[1], argv[2] if len(argv) > 2 else None)))


if __name__ == "__main__":
    startup.prepare()
    startup.import_msgspec()
    startup.exit_fast(main(sys.argv[1:]))
