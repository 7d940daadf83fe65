"""A worker: a detached process that drains one agent's queue, then the lanes that nobody drains, and exits.

`python -m beam.broker.worker ROOT AGENT [LANE]`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from beam.base import files
from beam.base.errors import BeamError
from beam.broker.context import RootContext
from beam.root import discovery
from beam.root.ownership import check_filesystem, check_owner
from beam.root.paths import AgentPaths, RootPaths
from beam.store.lock import is_free

if TYPE_CHECKING:
    from beam.broker.hold import Holder
    from beam.turns.stop import Stop

_LOG_BYTES = 256 * 1024
_MOST_BUGS = 4  # one more than a message may have before it is given up
_LOOK_S = 0.2
_MORE_LOOKS, _MOMENT_S = 3, 0.02
_SERVE_NS = 600 * 1_000_000_000

served_here: set[Path] = set()  # the roots whose agents a broker in this process takes, new ones as well


def ensure(context: RootContext, place: AgentPaths) -> None:
    """Somebody will look at the queue: whoever holds the agent looks again after letting go, and if nobody does, a
    worker is started. A broker in this process takes the agent itself. A mailbox needs none: its messages are asked
    for. A lane always gets a worker: at its lock people look, too."""
    if context.is_mailbox(place.agent):
        return
    if place.lane is not None or (is_free(place.lock) and context.home.root not in served_here):
        start(context, place)


def start(context: RootContext, place: AgentPaths) -> None:
    """Starts a worker, detached from this process and its terminal."""
    launch(context.home, place, context.environ)


def launch(home: RootPaths, place: AgentPaths, environ: Mapping[str, str]) -> None:
    """Starts the worker's process. What it says goes to the place's worker.log.

    Raises DiskError where the system starts no more processes.
    """
    import subprocess

    from beam.process import tree

    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with files.disk("open", place.log):
        if place.log.exists() and place.log.stat().st_size > _LOG_BYTES:
            mode |= os.O_TRUNC
        log = files.open_stream(place.log, mode)
    argv = [sys.executable, "-P", "-m", "beam.broker.worker", str(home.root), place.agent]
    if place.lane is not None:
        argv.append(place.lane)
    try:
        with files.disk("start a worker in", home.project):
            started = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=home.project,
                env=dict(environ),
                start_new_session=True,
            )
    finally:
        os.close(log)
    tree.spared.add(started.pid)
    started.returncode = 0  # it may outlive this process on purpose
    threading.Thread(target=_see_off, args=(started.pid,), daemon=True).start()


def _see_off(pid: int) -> None:
    """A worker that ends before the process that started it leaves no entry in the table of processes."""
    from beam.process import tree

    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    tree.spared.discard(pid)


def main(argv: list[str]) -> int:
    """Drains the queue that the arguments name."""
    import asyncio

    from beam.agents import registry as adapters
    from beam.base.clock import SystemClock
    from beam.config.resolve import load

    environ = dict(os.environ)
    home = discovery.at(Path(argv[0]), environ)
    discovery.check_folder(home, environ)
    check_owner(home, uid=os.geteuid())
    config = load(home, environ=environ, adapters=adapters.NAMES)
    check_filesystem(home, allow_fs=config.allow_fs)
    context = RootContext(home=home, config=config, clock=SystemClock(), environ=environ)
    files.check_descriptors(files.TURN_FILES)
    asyncio.run(serve(context, context.place(argv[1], argv[2] if len(argv) > 2 else None)))
    return 0


def _told(argv: list[str]) -> int:
    try:
        return main(argv)
    except BeamError as error:
        sys.stderr.write(f"beam worker {' '.join(argv)}: {error}\n")
        return int(error.exit_code)


async def serve(context: RootContext, place: AgentPaths) -> None:
    """Drains the place, and then every lane of its agent whose own worker died. A lane that can't be drained is said,
    and the others go on."""
    import asyncio

    from beam.broker import stranded

    goes_on = await drain(context, place)
    tried = {place.lane}
    while goes_on:
        lane = next((one for one in stranded.found(context.home.agent(place.agent)) if one.lane not in tried), None)
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


async def drain(context: RootContext, place: AgentPaths) -> bool:
    """Runs all that waits for the agent; returns when nothing does, somebody else holds it, or a signal asked to stop:
    False then.

    A bug that ends a turn is printed; recovery then says what is known of that message, and the rest goes on. Raises it
    when it comes four times in a row, and DiskError.
    """
    from beam.process import tree
    from beam.turns.stop import Stop

    tree.become_subreaper()
    bugs = 0
    while (holder := await _taken(context, place)) is not None:
        stop = Stop()
        waits = False
        try:
            await _work(holder, stop)
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
            waits = holder.leave(start_worker=False)
        if stop.reason is not None or not (waits or bugs):
            return stop.reason is None
    return True


async def _taken(context: RootContext, place: AgentPaths) -> Holder | None:
    """The holder. A lane is asked for again: somebody may just have looked whether it is held."""
    import asyncio

    from beam.broker.hold import Holder

    holder = Holder.take(context, place)
    for _ in range(_MORE_LOOKS if place.lane is not None else 0):
        if holder is not None:
            break
        await asyncio.sleep(_MOMENT_S)
        holder = Holder.take(context, place)
    return holder


async def _work(holder: Holder, stop: Stop) -> None:
    from beam.broker.control import Requests
    from beam.turns.signals import stopping

    if holder.blocked is not None:
        return
    Requests(holder).look()
    with stopping(stop, by="a signal to its worker"):
        while stop.reason is None:
            if not await holder.run_next(stop):
                pause = holder.pause_s()
                if not pause or not holder.waits():
                    return
                await stop.wait(min(pause, _LOOK_S))
            Requests(holder).look()


if __name__ == "__main__":
    raise SystemExit(_told(sys.argv[1:]))
