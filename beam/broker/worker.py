"""A worker: a detached process that drains one agent's queue and exits.

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

from beam import files
from beam.broker.world import World
from beam.clock import rfc3339
from beam.errors import BeamError
from beam.home import Home, Place, check_filesystem, check_owner
from beam.store.lock import is_free

if TYPE_CHECKING:
    from beam.broker.hold import Holder
    from beam.turns.stop import Stop

_LOG_BYTES = 256 * 1024
_MOST_BUGS = 4  # one more than a message may have before it is given up
_LOOK_S = 0.2
_SERVE_NS = 600 * 1_000_000_000

served_here: set[Path] = set()  # the roots whose agents a broker in this process takes, new ones as well


def ensure(world: World, place: Place) -> None:
    """Somebody will look at the queue: whoever holds the agent looks again after letting go, and if nobody does, a
    worker is started. A broker in this process takes the agent itself. A mailbox needs none: its messages are asked
    for."""
    if world.is_mailbox(place.agent) or not is_free(place.lock):
        return
    if place.lane is not None or world.home.root not in served_here:
        start(world, place)


def start(world: World, place: Place) -> None:
    """Starts a worker, detached from this process and its terminal.

    Inside an agent's turn the turn's holder is asked to: what this process starts ends with the turn.
    """
    if any(name.startswith("BEAM_TURN_") for name in world.environ) and _ask_outer_holder(world, place):
        return
    launch(world.home.root, place, world.environ)


def launch(root: Path, place: Place, environ: Mapping[str, str]) -> None:
    """Starts the worker's process. What it says goes to the place's worker.log.

    Raises DiskError where the system starts no more processes.
    """
    import subprocess

    from beam.process import tree

    mode = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND | os.O_NOFOLLOW
    with files.disk("open", place.log):
        if place.log.exists() and place.log.stat().st_size > _LOG_BYTES:
            mode |= os.O_TRUNC
        log = os.open(place.log, mode, 0o600)
    argv = [sys.executable, "-m", "beam.broker.worker", str(root), place.agent]
    if place.lane is not None:
        argv.append(place.lane)
    try:
        with files.disk("start a worker in", root.parent):
            started = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=root.parent,
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


def _ask_outer_holder(world: World, place: Place) -> bool:
    """Publishes the request where the holder of this process's turn looks; False if nobody knows who that is."""
    from beam.message import NAME, new_id
    from beam.store import control

    environ = world.environ
    root, agent, lane = environ.get("BEAM_ROOT", ""), environ.get("BEAM_AGENT", ""), environ.get("BEAM_LANE") or None
    if not root.startswith("/") or not NAME.match(agent) or (lane is not None and not NAME.match(lane)):
        return False
    outer = Home(Path(root)).agent(agent)
    outer = outer if lane is None else outer.lane_of(lane)
    if not outer.control.is_dir():
        return False
    now = world.clock.now_ns()
    control.publish(
        outer.control,
        control.Control(
            id=new_id(agent, now, world.clock.random(4)),
            verb="serve",
            sender=agent,
            timestamp=rfc3339(now),
            expires=rfc3339(now + _SERVE_NS),
            serve=control.Serve(root=str(world.home.root), agent=place.agent, lane=place.lane),
        ),
    )
    return True


def main(argv: list[str]) -> int:
    """Drains the queue that the arguments name."""
    import asyncio

    from beam.agents import registry as adapters
    from beam.clock import SystemClock
    from beam.config import load

    home = Home(Path(argv[0]))
    environ = dict(os.environ)
    check_owner(home, uid=os.geteuid())
    config = load(home, environ=environ, adapters=adapters.ADAPTERS)
    check_filesystem(home, allow_fs=config.allow_fs)
    world = World(home=home, config=config, clock=SystemClock(), environ=environ)
    files.check_descriptors(files.TURN_FILES)
    asyncio.run(drain(world, world.place(argv[1], argv[2] if len(argv) > 2 else None)))
    return 0


def _told(argv: list[str]) -> int:
    try:
        return main(argv)
    except BeamError as error:
        sys.stderr.write(f"beam worker {' '.join(argv)}: {error}\n")
        return int(error.exit_code)


async def drain(world: World, place: Place) -> None:
    """Runs all that waits for the agent; returns when nothing does, somebody else holds it, or a signal asked to stop.

    A bug that ends a turn is printed; recovery then says what is known of that message, and the rest goes on. Raises it
    when it comes four times in a row, and DiskError.
    """
    from beam.broker.hold import Holder
    from beam.process import tree
    from beam.turns.stop import Stop

    tree.become_subreaper()
    bugs = 0
    while (holder := Holder.take(world, place)) is not None:
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
            return


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
