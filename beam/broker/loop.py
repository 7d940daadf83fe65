"""The broker: a holder of many agents. It serves each agent's queue in order, several agents at once, up to a cap.

It takes the lock of every agent that has files here, and of those that appear later; what somebody else holds it asks
for again. One agent's trouble stops that agent only.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from beam import files, home
from beam.agents import registry as adapters
from beam.broker import worker
from beam.broker.control import Requests
from beam.broker.hold import Holder
from beam.broker.wake import Wake
from beam.broker.world import World
from beam.clock import rfc3339
from beam.config import load
from beam.errors import BeamError
from beam.home import Place
from beam.turns.stop import Stop

_TRY_AGAIN_S = 1.0
_TRY_SOON_S = 0.02  # who sends looks at the lock, too, and has it for a moment
_MOST_SOON = 5
_TROUBLE_S = 5.0
_GC_THRESHOLDS = 2_000, 10, 10  # those of a short command would let what is garbage here lie for days
_SETTLED_NS = 1_000_000_000  # file systems tell times no finer than some milliseconds
Say = Callable[[str], None]


class Served:
    """One agent as the broker sees it.

    `is_dirty`: something may have changed since the last look. `next`: the position of the message that may be claimed
    now (null: none may). `look_at`: when time alone makes another look worth it. `started`: when its last turn began.
    `missed`: how often in a row somebody else had the lock.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.directories = (place.queue / "new", place.control / "new")
        self.is_dirty = True
        self.next: int | None = None
        self.look_at = math.inf
        self.started = 0.0
        self.stamps: tuple[int, ...] | None = None
        self.holder: Holder | None = None
        self.task: asyncio.Task[None] | None = None
        self.stop: Stop | None = None
        self.not_before = 0.0
        self.missed = 0
        self.trouble = ""

    @property
    def is_busy(self) -> bool:
        """Whether a turn of it runs."""
        return self.task is not None and not self.task.done()

    def due(self) -> float:
        """When time alone makes another look worth it (monotonic seconds)."""
        if self.is_dirty:
            return self.not_before
        kept = self.holder.keeper.due() if self.holder is not None else None
        return self.look_at if kept is None else min(self.look_at, kept)

    def needs_look(self, now: float) -> bool:
        """Whether there may be something to do; `now` is monotonic seconds."""
        return not self.is_busy and self.not_before <= now and (self.is_dirty or self.look_at <= now)

    def compare_stamps(self, now_ns: int) -> None:
        """Dirty, if a directory was changed since this was asked last, or so lately that the next change might not
        show.
        """
        stamps = tuple(stamp[0] if (stamp := _stamp(path)) else 0 for path in self.directories)
        is_settled = now_ns - max(stamps) > _SETTLED_NS
        self.is_dirty = self.is_dirty or stamps != self.stamps
        self.stamps = stamps if is_settled else None


class Broker:
    """Serves one root until it is asked to stop. `cap` bounds turns at once; `poll` is seconds between looks that
    nothing asked for; `say` takes lines for its log."""

    def __init__(self, world: World, *, cap: int, poll: float, poll_only: bool = False, say: Say) -> None:
        self.world = world
        self.cap = cap
        self.poll = poll
        self.poll_only = poll_only
        self.say = say
        self.served: dict[str, Served] = {}
        self.stopping = False
        self.forced = False
        self._wake: Wake | None = None
        self._looked_at_all = -math.inf
        self._config_seen: tuple[object, ...] = self._config_now()

    # -- the loop --------------------------------------------------------------------------------------------------

    async def serve(self, *, grace: float) -> None:
        """Serves until `ask_to_stop`; then running turns get `grace` seconds, and what is left is interrupted."""
        self._wake = Wake(poll_only=self.poll_only)
        worker.served_here.add(self.world.home.root)
        try:
            while not self.stopping:
                self._look()
                await self._wake.wait(self._pause_s())
            worker.served_here.discard(self.world.home.root)
            await self._finish(grace)
        finally:
            worker.served_here.discard(self.world.home.root)
            self._leave()
            self._wake.close()

    def ask_to_stop(self) -> None:
        """No new claims; asked again: everything at once."""
        self.forced = self.stopping
        self.stopping = True
        if self._wake is not None:
            self._wake.now()

    def _look(self) -> None:
        self._see_what_changed()
        now = self.world.clock.monotonic()
        ready = []
        for served in self.served.values():
            if served.needs_look(now):
                served.next = self._prepared(served)
            self._tend(served)
            if served.next is not None and not served.is_busy:
                ready.append((served.started, served.next, served))
        room = self.cap - sum(served.is_busy for served in self.served.values())
        # Whose last turn is longest ago comes first, so that a long queue keeps no other agent waiting.
        for _, _, served in sorted(ready, key=lambda each: each[:2])[: max(0, room)]:
            self._start(served)

    def _pause_s(self) -> float:
        """Seconds until the next look, if nothing happens."""
        idle = (served for served in self.served.values() if not served.is_busy)
        due = min((max(served.due(), served.not_before) for served in idle), default=math.inf)
        return max(0.0, min(self.poll, due - self.world.clock.monotonic()))

    def _see_what_changed(self) -> None:
        """Marks the agents that need a look: by notification, and all that changed once in each `poll`."""
        assert self._wake is not None
        now = self.world.clock.monotonic()
        changed = self._wake.changed()
        is_time = now - self._looked_at_all >= self.poll or changed is None
        if is_time or self.world.home.root / "agents" in (changed or ()):
            self._adopt()
        if is_time:
            self._looked_at_all = now
        self._reload()
        for served in self.served.values():
            if changed is None or (is_time and not self._wake.notifies) or not changed.isdisjoint(served.directories):
                served.is_dirty = True
            elif is_time:
                served.compare_stamps(self.world.clock.now_ns())

    def _adopt(self) -> None:
        """Every agent with files is served; what came is watched, what went is let go."""
        assert self._wake is not None
        names = self.world.home.agents()
        self._wake.watch(self.world.home.root / "agents")
        for name in names:
            if name not in self.served:
                place = self.world.place(name)
                self.served[name] = Served(place)
            self._watch(self.served[name])
        for name in set(self.served).difference(names):
            served = self.served[name]
            if not served.is_busy:
                if served.holder is not None:
                    served.holder.release()
                for directory in served.directories:
                    self._wake.forget(directory)
                del self.served[name]

    def _watch(self, served: Served) -> None:
        assert self._wake is not None
        for directory in served.directories:
            self._wake.watch(directory)

    def _prepare(self, served: Served) -> int | None:
        """Takes the agent if it is free, answers requests; the position of the message that comes next, if one does."""
        if served.holder is None:
            home.create(self.world.home, served.place)
            self._watch(served)
            assert self._wake is not None
            served.holder = Holder.take(self.world, served.place)
            if served.holder is None:
                served.missed += 1
                again = _TRY_SOON_S if served.missed <= _MOST_SOON else min(_TRY_AGAIN_S, self.poll)
                served.not_before = self.world.clock.monotonic() + again
                return None
            served.missed = 0
            served.holder.keeper.keeps = not self.stopping
            served.holder.keeper.on_exit = self._wake.now
        served.is_dirty = False
        served.look_at = math.inf
        holder = served.holder
        holder.world = self.world
        Requests(holder).look()
        if holder.blocked is not None:
            why, served.holder = holder.blocked, None
            holder.release()
            raise BeamError(f"blocked: {why}")
        if holder.is_mailbox():
            served.holder = None
            holder.release()
            return None
        waiting = holder.waiting.look()
        if holder.is_held_back():
            holder.waiting.expire()
        served.trouble = ""
        if not waiting:
            return None
        pause = holder.pause_s(waiting[0])
        if pause is None or pause > 0:
            served.look_at = self.world.clock.monotonic() + (math.inf if pause is None else pause)
            return None
        return waiting[0].position

    def _prepared(self, served: Served) -> int | None:
        """The same; trouble stops this agent only."""
        try:
            return self._prepare(served)
        except (BeamError, OSError) as error:
            self._trouble(served, error)
            return None

    def _trouble(self, served: Served, error: BaseException) -> None:
        text = str(error)
        if text != served.trouble:
            self.say(f"{served.place.agent}: {text}")
        served.trouble = text
        served.next, served.is_dirty = None, True
        served.not_before = self.world.clock.monotonic() + _TROUBLE_S
        if served.holder is not None:
            served.holder.release()
            served.holder = None

    def _tend(self, served: Served) -> None:
        """Ends a kept terminal whose time is over."""
        if served.holder is None or served.is_busy:
            return
        why = served.holder.why_terminal_ends()
        if why:
            served.task = asyncio.get_running_loop().create_task(self._end_terminal(served, why))

    async def _end_terminal(self, served: Served, why: str) -> None:
        assert served.holder is not None
        try:
            await served.holder.end_terminal(why, hard=lambda: self.forced)
        except (BeamError, OSError) as error:
            self._trouble(served, error)
        except Exception as error:  # noqa: BLE001 - see `_turn`
            self._bug(served, error)
        finally:
            served.is_dirty = True
            if self._wake is not None:
                self._wake.now()

    def _start(self, served: Served) -> None:
        served.stop = Stop()
        served.started = self.world.clock.monotonic()
        served.next = None
        served.task = asyncio.get_running_loop().create_task(self._turn(served, served.stop))

    async def _turn(self, served: Served, stop: Stop) -> None:
        assert served.holder is not None
        try:
            await served.holder.run_next(stop)
        except (BeamError, OSError) as error:
            self._trouble(served, error)
        except Exception as error:  # noqa: BLE001 - a bug in one turn must not stop the other agents; it is logged whole
            self._bug(served, error)
        finally:
            served.stop, served.is_dirty = None, True
            if self._wake is not None:
                self._wake.now()

    def _bug(self, served: Served, error: Exception) -> None:
        import traceback

        self.say("".join(traceback.format_exception(error)))
        self._trouble(served, error)

    # -- settings that change ----------------------------------------------------------------------------------------

    def _config_now(self) -> tuple[object, ...]:
        from beam.home import config_dir

        paths = (self.world.home.config_file, config_dir(self.world.environ) / "config.yaml")
        return tuple(_stamp(path) for path in paths)

    def _reload(self) -> None:
        now = self._config_now()
        if now == self._config_seen:
            return
        self._config_seen = now
        try:
            home.check_owner(self.world.home, uid=os.geteuid())
            config = load(self.world.home, environ=self.world.environ, adapters=tuple(adapters.ADAPTERS))
        except BeamError as error:
            self.say(f"the old configuration stays: {error}")
            return
        self.world = msgspec.structs.replace(self.world, config=config)
        for served in self.served.values():
            served.is_dirty = True
        self.say("read the configuration again")

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _finish(self, grace: float) -> None:
        for served in self.served.values():
            if served.holder is not None:
                served.holder.keeper.keeps = False
        await self._finish_turns(grace)
        await asyncio.gather(
            *(self._end_terminal(served, "the broker stops") for served in self.served.values() if served.holder)
        )

    async def _finish_turns(self, grace: float) -> None:
        busy = [served.task for served in self.served.values() if served.task is not None and not served.task.done()]
        if not busy:
            return
        self.say(f"stopping; {len(busy)} turns have {grace:g} s")
        assert self._wake is not None
        until = self.world.clock.monotonic() + grace
        while not self.forced and self._busy() and (left := until - self.world.clock.monotonic()) > 0:
            await self._wake.wait(left)
        asked = 0
        while self._busy():
            if asked == 0 or (self.forced and asked == 1):
                asked += 1
                for served in self.served.values():
                    if served.is_busy and served.stop is not None:
                        served.stop.ask("interrupted", by="the broker's stop")
            await self._wake.wait(0.2)

    def _busy(self) -> bool:
        return any(served.is_busy for served in self.served.values())

    def _leave(self) -> None:
        """Lets every agent go. What was published after the broker was asked to stop gets a worker: its sender saw the
        lock held, and counts on us. So does all of an agent that was not held yet: a reply of ours may have made it."""
        held = [served for served in self.served.values() if served.holder is not None]
        before = {served.place.agent: self._last_waiting(served) for served in held}
        for name in set(self.world.home.agents()).difference(self.served):
            self.served[name] = Served(self.world.place(name))
        for served in self.served.values():
            if served.holder is not None:
                served.holder.release()
                served.holder = None
        for name, served in self.served.items():
            if self._last_waiting(served) > before.get(name, 0):
                worker.ensure(self.world, served.place)
        left = sum(1 for served in self.served.values() for _ in self._waiting(served))
        if left:
            self.say(f"{left} messages wait; beam broker start, or beam wait ID, goes on with them")

    def _waiting(self, served: Served) -> list[int]:
        from beam.store.queue import Queue

        try:
            entries = Queue(served.place.queue, served.place.put_lock).entries("new")
        except BeamError:
            return []
        return [entry.position for entry in entries]

    def _last_waiting(self, served: Served) -> int:
        return max(self._waiting(served), default=0)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def run(world: World, *, cap: int, poll: float, poll_only: bool, grace: float, say: Say) -> None:
    """A broker from its first to its last line: claims the root, serves, lets go."""
    from beam import __version__
    from beam.broker import registry
    from beam.process import tree
    from beam.turns.signals import STOPPING

    home.create(world.home)
    held = files.HELD_FILES * len(world.home.agents())
    files.check_descriptors(files.TURN_FILES + files.MORE_TURN_FILES * (cap - 1) + held)
    told = registry.BrokerFile(
        owner=tree.this_process(),
        version=__version__,
        started_at=rfc3339(world.clock.now_ns()),
        poll=poll,
        cap=cap,
    )
    broker = Broker(world, cap=cap, poll=poll, poll_only=poll_only, say=say)
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, broker.ask_to_stop)
    tree.become_subreaper()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    lock = None
    try:
        lock = registry.claim(world.home, told)  # who reads broker.json may send a signal at once
        say(f"serving {world.home.root} (pid {os.getpid()}, up to {cap} turns at once)")
        await broker.serve(grace=grace)
    finally:
        if lock is not None:
            registry.release(world.home, lock)
        for number in STOPPING:
            loop.remove_signal_handler(number)
        if lock is not None:
            say("stopped")
        sys.stderr.flush()
