"""The broker: a holder of many agents. It serves each agent's queue in order, several agents at once, up to a cap.

It takes the lock of every agent that has files here, and of those that appear later; what somebody else holds it asks
for again. A lane it takes when its own worker can't be on its way any more, and only while there is something in it.
One agent's trouble stops that agent only.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import sys
from collections.abc import Callable

import msgspec

from beam.agents import registry as adapters
from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import BeamError, DiskError
from beam.broker import duty, launch, stranded
from beam.broker.context import RootContext
from beam.broker.lease import AgentLease
from beam.broker.served import Served, stamp_of
from beam.broker.wake import Wake
from beam.config.resolve import load
from beam.root import discovery, ownership
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.trust import ledger
from beam.turns.stop import Stop

_TRY_AGAIN_S = 1.0
_TRUST_S = 5.0  # until a folder that is not trusted is looked at again: what changed may be changed back
_TRY_SOON_S = 0.02  # who sends looks at the lock, too, and has it for a moment
_MOST_SOON = 5
_TROUBLE_S = 5.0
_GC_THRESHOLDS = 2_000, 10, 10  # those of a short command would let what is garbage here lie for days
Say = Callable[[str], None]


class Broker:
    """Serves one root until it is asked to stop. `cap` bounds turns at once; `poll` is seconds between looks that
    nothing asked for; `say` takes lines for its log."""

    def __init__(self, context: RootContext, *, cap: int, poll: float, poll_only: bool = False, say: Say) -> None:
        self.context = context
        self.cap = cap
        self.poll = poll
        self.poll_only = poll_only
        self.say = say
        self.served: dict[str, Served] = {}
        self.why_lost: Callable[[], str] = _not_lost
        self.lost = ""  # why the root is not this broker's any more
        self.lanes: dict[AgentPaths, Served] = {}
        self.stopping = False
        self.forced = False
        self._wake: Wake | None = None
        self._looked_at_all = -math.inf
        self._lane_began: dict[str, float] = {}
        self._config_seen: tuple[object, ...] = self._config_now()
        self._config_wrong = ""

    # -- the loop --------------------------------------------------------------------------------------------------

    async def serve(self, *, grace: float) -> None:
        """Serves until `ask_to_stop`; then running turns get `grace` seconds, and what is left is interrupted."""
        self._wake = Wake(poll_only=self.poll_only)
        launch.served_here.add(self.context.home.root)
        try:
            while not self.stopping:
                self._look()
                await self._wake.wait(self._pause_s())
            launch.served_here.discard(self.context.home.root)
            await self._finish(grace)
        finally:
            launch.served_here.discard(self.context.home.root)
            self._leave()
            self._wake.close()

    def ask_to_stop(self) -> None:
        """No new claims; asked again: everything at once."""
        self.forced = self.stopping
        self.stopping = True
        if self._wake is not None:
            self._wake.now()

    def _look(self) -> None:
        self.lost = self.why_lost()
        if self.lost:
            self.say(f"{self.lost}: nothing more is claimed")
            self.ask_to_stop()
            return
        self._see_what_changed()
        now = self.context.clock.monotonic()
        ready = []
        fresh: dict[Served, duty.Due] = {}
        for served in self._all():
            if served.needs_look(now):
                due = self._prepared(served)
                served.next = due.entries[0].position if due is not None else None
                if due is not None:
                    fresh[served] = due
            self._tend(served)
            if served.next is not None and not served.is_busy:
                ready.append((served.started, served.next, served))
        room = self.cap - sum(served.is_busy for served in self._all())
        # Whose last turn is longest ago comes first, so that a long queue keeps no other agent waiting.
        for _, _, served in sorted(ready, key=lambda each: each[:2])[: max(0, room)]:
            self._start(served, fresh.get(served))

    def _all(self) -> list[Served]:
        return [*self.served.values(), *self.lanes.values()]

    def _pause_s(self) -> float:
        """Seconds until the next look, if nothing happens."""
        idle = (served for served in self._all() if not served.is_busy)
        due = min((max(served.due(), served.not_before) for served in idle), default=math.inf)
        return max(0.0, min(self.poll, due - self.context.clock.monotonic()))

    def _see_what_changed(self) -> None:
        """Marks the agents that need a look: by notification, and all that changed once in each `poll`."""
        assert self._wake is not None
        now = self.context.clock.monotonic()
        changed = self._wake.changed()
        is_time = changed is None or now - self._looked_at_all >= self.poll
        if is_time or self.context.home.root / "agents" in (changed or ()):
            self._adopt()
        if is_time or any(served.lanes_folder in (changed or ()) for served in self.served.values()):
            self._adopt_lanes()
        if is_time:
            self._looked_at_all = now
            for lane in self.lanes.values():
                lane.is_dirty = True
        self._reload(again=is_time)
        now_ns = self.context.clock.now_ns()
        for served in self.served.values():
            if changed is None or (is_time and not self._wake.notifies) or not changed.isdisjoint(served.directories):
                served.is_dirty = True
            elif is_time:
                served.compare_stamps(now_ns)

    def _adopt(self) -> None:
        """Every agent with files is served; what came is watched, what went is let go."""
        assert self._wake is not None
        names = self.context.home.agents()
        self._wake.watch(self.context.home.root / "agents")
        for name in names:
            if name not in self.served:
                place = self.context.place(name)
                self.served[name] = Served(place)
                with contextlib.suppress(BeamError):  # the agent's own look says it
                    lanes.make(place)
                self._wake.watch(self.served[name].lanes_folder)
            self._watch(self.served[name])
        for name in set(self.served).difference(names):
            served = self.served[name]
            if not served.is_busy:
                if served.lease is not None:
                    served.lease.close()
                for directory in (*served.directories, served.lanes_folder):
                    self._wake.forget(directory)
                del self.served[name]

    def _adopt_lanes(self) -> None:
        """Every lane with something left is served once its own worker had its time; what is over is let go."""
        assert self._wake is not None
        found: set[AgentPaths] = set()
        now_ns = self.context.clock.now_ns()
        for served in self.served.values():
            with contextlib.suppress(BeamError):  # the agent's own look says it
                found.update(served.entered_lanes(now_ns, self._wake.watch))
        for place in sorted(found.difference(self.lanes), key=lambda lane: lane.lane or ""):
            self.lanes[place] = lane = Served(place)
            lane.started = self._lane_began.get(place.agent, 0.0)
            lane.not_before = self.context.clock.monotonic() + stranded.own_s(place, self.context.clock.now_ns())
        for place in set(self.lanes).difference(found):
            if not self.lanes[place].is_busy:
                self._let_go(self.lanes.pop(place))

    def _let_go(self, served: Served) -> None:
        """Somebody else may have it now. What waited for one lane less to be held is looked at."""
        if served.lease is not None:
            served.lease.close()
            served.lease = None
        for lane in self.lanes.values():
            lane.is_dirty |= lane.is_put_off
            lane.is_put_off = False

    def _watch(self, served: Served) -> None:
        assert self._wake is not None
        for directory in served.directories:
            self._wake.watch(directory)

    def _acquired(self, served: Served) -> AgentLease | None:
        """Its holder, if nobody else is. No more lanes are held at once than turns may run: each costs open files."""
        if served.lease is not None:
            return served.lease
        assert self._wake is not None
        is_lane = served.place.lane is not None
        if is_lane and sum(lane.lease is not None for lane in self.lanes.values()) >= self.cap:
            served.is_dirty, served.is_put_off = False, True
            return None
        if not is_lane:
            discovery.create(self.context.home, served.place)
            self._watch(served)
        served.lease = AgentLease.acquire(self.context, served.place)
        if served.lease is None:
            served.missed += 1
            again = _TRY_SOON_S if served.missed <= _MOST_SOON else min(_TRY_AGAIN_S, self.poll)
            served.not_before = self.context.clock.monotonic() + again
            return None
        served.missed = 0
        served.lease.keeper.keeps = not (self.stopping or is_lane)
        served.lease.keeper.on_exit = self._wake.now
        return served.lease

    def _prepare(self, served: Served) -> duty.Due | None:
        """Take the agent if it is free, and do one step for it; return what may be claimed, if anything may."""
        served.look_at = math.inf
        lease = self._acquired(served)
        if lease is None:
            return None
        served.is_dirty = False
        lease.log.context = self.context
        due = duty.step(lease)
        if due.blocked is not None:
            raise BeamError(f"blocked: {due.blocked}")
        if lease.log.is_mailbox():
            self._let_go(served)
            return None
        served.trouble = ""
        if due.entries:
            return due
        wait_s = _TRUST_S if due.untrusted is not None else due.pause_s
        if wait_s is not None:
            served.look_at = self.context.clock.monotonic() + wait_s
        if served.place.lane is not None:
            self._let_go(served)
        return None

    def _prepared(self, served: Served) -> duty.Due | None:
        """Do the same; trouble stops this agent only."""
        try:
            return self._prepare(served)
        except (BeamError, OSError) as error:
            self._trouble(served, error)
        except Exception as error:  # noqa: BLE001 - see `_turn`
            self._bug(served, error)
        return None

    def _trouble(self, served: Served, error: BaseException) -> None:
        text = str(error)
        if text != served.trouble:
            lane = f" (once {served.place.lane})" if served.place.lane is not None else ""
            self.say(f"{served.place.agent}{lane}: {text}")
        served.trouble = text
        served.next, served.is_dirty = None, True
        served.not_before = self.context.clock.monotonic() + _TROUBLE_S
        self._let_go(served)

    def _tend(self, served: Served) -> None:
        """Ends a kept terminal whose time is over."""
        if served.lease is None or served.is_busy:
            return
        why = served.lease.why_kept_ends()
        if why:
            served.task = asyncio.get_running_loop().create_task(self._end_kept(served, why))

    async def _end_kept(self, served: Served, why: str) -> None:
        assert served.lease is not None
        try:
            await served.lease.end_kept(why, hard=lambda: self.forced)
        except (BeamError, OSError) as error:
            self._trouble(served, error)
        except Exception as error:  # noqa: BLE001 - see `_turn`
            self._bug(served, error)
        finally:
            served.is_dirty = True
            if self._wake is not None:
                self._wake.now()

    def _start(self, served: Served, due: duty.Due | None) -> None:
        """Begin its next turn. `due` is what this very look found; None if that is from an earlier one."""
        served.stop = Stop()
        served.started = self.context.clock.monotonic()
        if served.place.lane is not None:
            self._lane_began[served.place.agent] = served.started
        served.next = None
        served.task = asyncio.get_running_loop().create_task(self._turn(served, served.stop, due))

    async def _turn(self, served: Served, stop: Stop, due: duty.Due | None) -> None:
        assert served.lease is not None
        try:
            if due is not None:
                await duty.run_first(served.lease, due, stop)
            else:
                await duty.run_next(served.lease, stop)
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
        from beam.root.user_dirs import config_dir

        environ = self.context.environ
        paths = (self.context.home.config_file, config_dir(environ) / "config.yaml", ledger.store_path(environ))
        return tuple(stamp_of(path) for path in paths)

    def _reload(self, *, again: bool) -> None:
        """Reads a configuration that changed. One that could not be read is tried `again`: what was wrong may be gone
        without any trace in its files."""
        now = self._config_now()
        if now == self._config_seen and not (again and self._config_wrong):
            return
        self._config_seen = now
        try:
            ownership.check_owner(self.context.home, uid=os.geteuid())
            config = load(self.context.home, environ=self.context.environ, adapters=adapters.NAMES)
        except BeamError as error:
            if str(error) != self._config_wrong:
                self.say(f"the old configuration stays: {error}")
            self._config_wrong = str(error)
            return
        self._config_wrong = ""
        self.context = msgspec.structs.replace(self.context, config=config)
        for served in self._all():
            served.is_dirty = True
        self.say("read the configuration again")

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _finish(self, grace: float) -> None:
        for served in self._all():
            if served.lease is not None:
                served.lease.keeper.keeps = False
        await self._finish_turns(grace)
        await asyncio.gather(*(self._end_kept(served, "the broker stops") for served in self._all() if served.lease))

    async def _finish_turns(self, grace: float) -> None:
        busy = [served.task for served in self._all() if served.task is not None and not served.task.done()]
        if not busy:
            return
        self.say(f"stopping; {len(busy)} turns have {grace:g} s")
        assert self._wake is not None
        until = self.context.clock.monotonic() + grace
        while not self.forced and self._busy() and (left := until - self.context.clock.monotonic()) > 0:
            await self._wake.wait(left)
        asked = 0
        while self._busy():
            if asked == 0 or (self.forced and asked == 1):
                asked += 1
                for served in self._all():
                    if served.is_busy and served.stop is not None:
                        served.stop.ask("interrupted", by="the broker's stop")
            await self._wake.wait(0.2)

    def _busy(self) -> bool:
        return any(served.is_busy for served in self._all())

    def _leave(self) -> None:
        """Lets every agent go. What was published after the broker was asked to stop gets a worker: its sender saw the
        lock held, and counts on us. So does all of an agent that was not held yet: a reply of ours may have made it.
        In a root that is not this broker's any more nothing is looked at."""
        if self.lost:
            for served in self.served.values():
                if served.lease is not None:
                    served.lease.close()
            return
        held = [served for served in self.served.values() if served.lease is not None]
        before = {served.place.agent: self._last_waiting(served) for served in held}
        for name in set(self.context.home.agents()).difference(self.served):
            self.served[name] = Served(self.context.place(name))
        for served in self._all():
            self._let_go(served)
        for name, served in self.served.items():
            if self._last_waiting(served) > before.get(name, 0):
                launch.ensure(self.context, served.place)
        left = sum(1 for served in self._all() for _ in self._waiting(served))
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


def _not_lost() -> str:
    return ""


async def run(context: RootContext, *, cap: int, poll: float, poll_only: bool, grace: float, say: Say) -> None:
    """A broker from its first to its last line: claims the root, serves, lets go."""
    from beam.base.version import __version__
    from beam.broker import registry
    from beam.process import tree
    from beam.turns.signals import STOPPING

    discovery.check_folder(context.home, context.environ)
    discovery.create(context.home)
    held = files.HELD_FILES * (len(context.home.agents()) + cap)
    files.check_descriptors(files.TURN_FILES + files.MORE_TURN_FILES * (cap - 1) + held)
    told = registry.BrokerFile(
        owner=tree.this_process(),
        version=__version__,
        started_at=rfc3339(context.clock.now_ns()),
        poll=poll,
        cap=cap,
    )
    broker = Broker(context, cap=cap, poll=poll, poll_only=poll_only, say=say)
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, broker.ask_to_stop)
    tree.become_subreaper()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    claimed = None
    try:
        claimed = registry.claim(context.home, told)  # who reads broker.json may send a signal at once
        broker.why_lost = claimed.why_lost
        say(f"serving {context.home.root} (pid {os.getpid()}, up to {cap} turns at once)")
        await broker.serve(grace=grace)
    finally:
        if claimed is not None:
            registry.release(context.home, claimed)
        for number in STOPPING:
            loop.remove_signal_handler(number)
        if claimed is not None:
            say("stopped")
        sys.stderr.flush()
    if broker.lost:
        raise DiskError(broker.lost, "beam broker start, where the agents are now", subject=str(context.home.root))
