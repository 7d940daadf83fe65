"""The server: it runs the messages of each of its agents in order, and those of several agents at the same time.

Every process that holds agents for longer than one message serves them with it: a broker, a worker, a Python program
inside `with Beam()`, a run of a scenario. Its `Kind` says what these do differently. An error of one agent stops only
that agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Collection, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from beam.base import durations
from beam.base.clock import run_async
from beam.base.errors import BeamError, UnfinishedError, memory_error
from beam.broker.holder import duty, registry
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import launch
from beam.broker.serving.kind import Kind
from beam.broker.serving.reload import ConfigWatch
from beam.broker.serving.roster import Roster, ServedAgent, watch_directories
from beam.broker.serving.wake import Wake
from beam.process import tree
from beam.root import discovery
from beam.store.lock import is_free
from beam.store.queue import Queue
from beam.turns.handle import Stop

if TYPE_CHECKING:
    from beam.broker.inbox.context import RootContext
    from beam.root.paths import AgentPaths

_TRY_AGAIN_S = 1.0
_TRUST_S = 5.0  # until a folder that is not trusted is checked again: somebody may have undone the change
_TRY_SOON_S = 0.02  # a sender tries the lock, too, and holds it for a moment
_MAX_SOON_TRIES = 5
_YIELD_S = 1.0  # how long an agent is left to the command or the broker that asked for it
_SENDERS_S, _SENDERS_LOOK_S = 5.0, 0.1  # how long a message is left for its sender; a process needs seconds to start
_HOLD_POLL_S = 0.05
_ERROR_PAUSE_S = 5.0
_MAX_BUGS = 4  # one more than a message may have before it is given up
_DEADLINE_S = 60.0  # until deadlines are checked again: the clock may be set, or the machine may sleep
Say = Callable[[str], None]
_Result = TypeVar("_Result")


class Server:
    """Serves agents until it is asked to stop, or has had nothing to do for `idle` seconds. `cap` is the largest number
    of concurrent turns. `poll` is the number of seconds between polls if nothing wakes the server. With `poll_only`, it
    uses no file notifications. `say` is called with each line for the log. Make and use it in one event loop."""

    def __init__(
        self,
        context: RootContext,
        kind: Kind,
        *,
        say: Say,
        cap: float = math.inf,
        poll: float = 1.0,
        poll_only: bool = False,
        idle: float = math.inf,
    ) -> None:
        self.context = context
        self.kind = kind
        self.cap = cap
        self.poll = poll
        self.idle = idle
        self.say = say
        self.roster = Roster()
        self.why_lost: Callable[[], str] = lambda: ""
        self.lost = ""  # why the root no longer belongs to this server
        self.stopping = False
        self.forced = False
        self._error: BaseException | None = None  # that ends the server
        self._wake = Wake(poll_only=poll_only)
        self._polled_all = -math.inf
        self._roster_trouble = ""  # why the last search for new agents and lanes failed
        self._worked_at = context.clock.monotonic()
        self._lane_began: dict[str, float] = {}
        self._declined: set[str] = set()  # the ids of messages that were left for their senders
        self._config = ConfigWatch(context, say if kind.serves_root else _ignore_line)

    # -- the loop --------------------------------------------------------------------------------------------------

    async def serve(self, *, grace: float = 0.0) -> None:
        """Serve the agents until `ask_to_stop` is called, or until there is no work. Then running turns get `grace`
        seconds, and those that still run are interrupted. Raises the error that ended the server (see `Kind`)."""
        tree.become_subreaper()
        roots = launch.served_roots if self.kind.serves_root else set()
        roots.add(self.context.home.root)
        if not self.kind.holds:
            self._wake.watch(self.context.home.root)  # a broker may begin
        try:
            while not self.stopping:
                self._poll()
                await self._wake.wait(self._pause_s())
            roots.discard(self.context.home.root)
            await self._finish(grace)
        finally:
            roots.discard(self.context.home.root)
            self._release_all()
            self._wake.close()
        if self._error is not None:
            raise self._error

    def ask_to_stop(self) -> None:
        """Stop claiming messages; a second call ends running turns forcibly."""
        self.forced = self.stopping
        self.stopping = True
        self._wake.end_wait()

    def _poll(self) -> None:
        self.lost = self.why_lost()
        if self.lost:
            self.say(f"{self.lost}: nothing more is claimed")
            self.ask_to_stop()
            return
        self._mark_changed()
        now = self.context.clock.monotonic()
        ready = []
        fresh: dict[ServedAgent, duty.DueWork] = {}
        for served in self.roster.all():
            if served.needs_step(now):
                due = None
                with self._reporting(served):
                    due = self._take_step(served)
                served.next = due.entries[0].position if due is not None else None
                if due is not None:
                    fresh[served] = due
            self._end_kept_if_due(served)
            if served.next is not None and not served.is_busy:
                ready.append((served.started, served.next, served))
        self._end_surplus_processes()
        room = self.cap - sum(served.is_busy for served in self.roster.all())
        # The agent whose last turn began longest ago comes first, so that a long queue keeps no other agent waiting.
        for count, (_, _, served) in enumerate(sorted(ready, key=lambda each: each[:2])):
            if count < room:
                with self._reporting(served):
                    self._start_turn(served, fresh.get(served))
            elif served in fresh:
                self._expire_without_room(served)
        if ready or self._is_any_busy() or self._is_anything_left():
            self._worked_at = now
        elif now - self._worked_at >= self.idle:
            if self.idle:
                self.say(f"nothing to do for {durations.show(self.idle)}")
            self.ask_to_stop()

    def _is_anything_left(self) -> bool:
        """Return whether something waits that this server will handle later. A lease counts if the server holds leases
        only as long as there is something to do."""
        return any(served.waits or (served.lease and not self.kind.holds) for served in self.roster.all())

    def _pause_s(self) -> float:
        """Return the seconds until the next poll, if nothing happens."""
        idle = (served for served in self.roster.all() if not served.is_busy)
        due = min((max(served.due_at(), served.not_before) for served in idle), default=math.inf)
        due = min(due, self._worked_at + (self.idle or math.inf))  # without a time, the poll that finds no work ends it
        return max(0.0, min(self.poll, due - self.context.clock.monotonic()))

    def _mark_changed(self) -> None:
        """Add new agents and lanes, read a changed configuration again, and mark the agents that need a step. These are
        the agents whose directories a notification named and, once every `poll` seconds, all agents whose directories
        have changed."""
        now = self.context.clock.monotonic()
        changed = self._wake.take_changed()
        is_time = changed is None or now - self._polled_all >= self.poll
        if self.kind.serves_root:
            self._adopt_agents_and_lanes(changed or (), everything=is_time)
        if is_time:
            self._polled_all = now
            for lane in self.roster.lanes.values():
                lane.is_dirty = True
        if self.kind.claims:
            self._read_config(retry=is_time)
        now_ns = self.context.clock.now_ns()
        for served in self.roster.agents.values():
            if changed is None or (is_time and not self._wake.can_notify) or not changed.isdisjoint(served.directories):
                self._mark_dirty(served)
            elif is_time:
                served.compare_stamps(now_ns)

    def _adopt_agents_and_lanes(self, changed: Collection[Path], *, everything: bool) -> None:
        """Add new agents and lanes if `everything` or one of the changed directories requires that. If that fails, log
        the error and continue with the known ones: the next poll of all agents tries again."""
        try:
            if everything or self.context.home.root / "agents" in changed:
                self.roster.adopt_agents(self.context, self._wake)
            if everything or self.roster.has_new_lanes(changed):
                self.roster.adopt_lanes(self.context, self._wake, self._lane_began)
        except (BeamError, OSError) as error:
            if str(error) != self._roster_trouble:
                self.say(f"can't look for new agents and lanes: {error}")
            self._roster_trouble = str(error)
        else:
            if everything:
                self._roster_trouble = ""

    def _mark_dirty(self, served: ServedAgent) -> None:
        """Mark the agent as needing a step, and make its running turn, if there is one, handle its requests."""
        served.is_dirty = True
        if served.lease is not None:
            served.lease.wake_turn()

    def _handle_answer(self, served: ServedAgent) -> None:
        self._mark_dirty(served)
        self._wake.end_wait()

    def _read_config(self, *, retry: bool) -> None:
        context = self._config.read_again(self.context, retry=retry)
        if context is not None:
            self.context = context
            for served in self.roster.all():
                served.is_dirty = True

    # -- one agent -------------------------------------------------------------------------------------------------

    def _acquire_lease(self, served: ServedAgent) -> AgentLease | None:
        """Return the lease of the agent or lane; acquire it first if this server does not hold it. Return None if
        another process has the lease, if the agent was removed, or if the server already holds as many lanes as it may
        run turns (each lane needs open files)."""
        if served.lease is not None:
            return served.lease
        served.waits = False
        is_lane = served.paths.lane is not None
        if is_lane and self.roster.held_lanes() >= self.cap:
            served.is_dirty, served.is_deferred = False, True
            return None
        is_archived = self.kind.serves_root and served.paths.archived.exists()
        if not is_lane and (is_archived or not served.paths.dir.is_dir()):
            served.is_dirty = False
            return None
        if not is_lane:
            discovery.create(self.context.home, served.paths)
            watch_directories(served, self._wake)
        served.lease = AgentLease.acquire(self.context, served.paths)
        if served.lease is None:
            served.missed += 1
            again = _TRY_SOON_S if served.missed <= _MAX_SOON_TRIES else min(_TRY_AGAIN_S, self.poll)
            served.not_before = self.context.clock.monotonic() + again
            served.waits = is_lane and served.missed <= _MAX_SOON_TRIES
            if not (self.kind.holds or served.waits):
                self.roster.forget(served, self._wake)
            return None
        served.missed = 0
        served.lease.keeper.keeps = self.kind.serves_root and not (self.stopping or is_lane)
        served.lease.keeper.on_exit = self._wake.end_wait
        served.lease.calls.on_answer = lambda: self._handle_answer(served)
        return served.lease

    def _take_step(self, served: ServedAgent) -> duty.DueWork | None:
        """Take a step for the agent if its lease can be acquired. Return the step's result if a message may be claimed,
        else None."""
        served.look_at = math.inf
        lease = None if self._is_left_to_sender(served) else self._acquire_lease(served)
        if lease is None:
            return None
        served.is_dirty = False
        lease.log.context = self.context
        due = duty.step(lease)
        if due.blocked is not None:
            raise BeamError(f"blocked: {due.blocked}")
        served.trouble = ""
        served.waits = False
        if lease.is_wanted:
            self._yield(served, _YIELD_S)
            return None
        if lease.log.context.is_mailbox(lease.log.paths.agent):
            self.roster.release(served)
            return None
        if due.entries and self.kind.claims:
            return due
        if self.kind.claims:
            served.waits = due.untrusted is None and due.pause_s is not None
        wait_s = _TRUST_S if due.untrusted is not None else due.pause_s
        self._look_again_in(served, wait_s if self.kind.claims else None, due.deadline_s)
        if served.paths.lane is not None and self.kind.holds:
            self.roster.release(served)
        elif not (self.kind.holds or served.waits or lease.keeper.process):
            self._let_go(served)
        return None

    def _let_go(self, served: ServedAgent) -> None:
        """Release an agent or lane for which there is nothing to do. What came in the last moment gets a worker or is
        handled here, because its sender saw the lock taken and relies on this process."""
        if self.kind.starts_workers:
            self._hand_over(served)
        else:
            self._yield(served, 0.0)

    def _hand_over(self, served: ServedAgent) -> None:
        """Release the agent, start workers for what waits, and serve the agent no longer."""
        lease, served.lease = served.lease, None
        self.roster.forget(served, self._wake)
        if lease is not None:
            lease.hand_over_after_turn()
        elif self._waiting_positions(served):
            launch.try_ensure_worker(self.context, served.paths)

    def _yield(self, served: ServedAgent, seconds: float) -> None:
        """Release the agent and leave it to another process for so many seconds. Then serve it again if something
        waits, or if this server holds agents that have nothing to do."""
        lease = served.lease
        self.roster.release(served)
        is_left = lease is not None and lease.has_runnable_work()
        served.next = None
        served.waits = is_left and not self.kind.holds
        served.is_dirty = is_left or self.kind.holds
        served.not_before = self.context.clock.monotonic() + seconds

    # -- what is left for its sender ---------------------------------------------------------------------------------

    def _is_left_to_sender(self, served: ServedAgent) -> bool:
        """Return whether a message was left for its sender, who may still run it: no process has acquired the lease
        yet, and the message still waits."""
        now = self.context.clock.monotonic()
        if now < served.left_until and is_free(served.paths.lock) and self._waiting_positions(served):
            served.not_before = now + _SENDERS_LOOK_S
            return True
        served.left_until = -math.inf
        return False

    # -- one agent's turns -------------------------------------------------------------------------------------------

    def _look_again_in(self, served: ServedAgent, wait_s: float | None, deadline_s: float | None) -> None:
        """Have the next step taken when one of these times (in seconds) is over or, without any, after a change."""
        waits = [wait_s] if wait_s is not None else []
        waits += [min(deadline_s, _DEADLINE_S)] if deadline_s is not None else []
        if waits:
            served.look_at = self.context.clock.monotonic() + min(waits)

    def _expire_without_room(self, served: ServedAgent) -> None:
        """Close the expired messages of an agent whose next turn waits for the end of other agents' turns."""
        assert served.lease is not None
        with self._reporting(served):
            self._look_again_in(served, None, served.lease.waiting.expire())

    @contextlib.contextmanager
    def _reporting(self, served: ServedAgent) -> Iterator[None]:
        """Report an error of this agent and leave the agent alone, because an error stops only its agent. In a server
        that an error ends, one that is unexpected does so only at the fourth time in a row."""
        try:
            yield
        except (BeamError, OSError) as error:
            self._report_error(served, error)
        except MemoryError:
            self._report_error(served, memory_error())
        except Exception as error:  # noqa: BLE001 - a bug in one turn must not stop the other agents; it is logged whole
            import traceback

            served.bugs += 1
            is_retried = self.kind.raises and served.bugs < _MAX_BUGS
            if is_retried or not self.kind.raises:
                self.say("".join(traceback.format_exception(error)))
            if is_retried:
                self._leave_alone(served, 0.0)
                served.waits = True
            else:
                self._report_error(served, error)

    def _report_error(self, served: ServedAgent, error: BaseException) -> None:
        text = str(error)
        if self.kind.raises:
            self._error, self.stopping = error, True
        elif text != served.trouble:
            lane = f" (once {served.paths.lane})" if served.paths.lane is not None else ""
            self.say(f"{served.paths.agent}{lane}: {text}")
        served.trouble = text
        self._leave_alone(served, _ERROR_PAUSE_S)

    def _leave_alone(self, served: ServedAgent, seconds: float) -> None:
        """Release the agent after an error, and try again after so many seconds. A program leaves it to a worker."""
        served.next, served.is_dirty = None, True
        served.not_before = self.context.clock.monotonic() + seconds
        if self.kind.starts_workers and not self.kind.holds:
            self._hand_over(served)
        else:
            self.roster.release(served)

    def _end_kept_if_due(self, served: ServedAgent) -> None:
        """End the agent's kept process if it may no longer stay."""
        if served.lease is None or served.is_busy:
            return
        why_release = self.kind.why_released(served.lease) if served.lease.keeper.process is not None else ""
        why = why_release or served.lease.why_kept_ends()
        if why:
            self._start_ending(served, why, leaves_s=_YIELD_S if why_release else None)

    def _end_surplus_processes(self) -> None:
        """End the least recently used kept processes until their number is within the limit."""
        kept = [
            (served.lease.keeper.last_used, served)
            for served in self.roster.all()
            if served.lease is not None and served.lease.keeper.process is not None and not served.is_busy
        ]
        limit = self.context.config.limits.kept if self.kind.serves_root else len(kept)
        for _, served in sorted(kept, key=lambda each: each[0])[: max(0, len(kept) - limit)]:
            if served.next is None:  # else it is used now
                self._start_ending(served, f"the broker keeps no more than {limit} processes")

    def _start_ending(self, served: ServedAgent, why: str, *, leaves_s: float | None = None) -> None:
        served.task = asyncio.get_running_loop().create_task(self._end_kept_process(served, why, leaves_s=leaves_s))

    async def _end_kept_process(self, served: ServedAgent, why: str, *, leaves_s: float | None = None) -> None:
        """End the agent's kept process. With `leaves_s`, then leave the agent to another process for so many
        seconds."""

        async def end() -> None:
            assert served.lease is not None
            await served.lease.end_kept_process(why, hard=lambda: self.forced)
            served.is_dirty = True
            if leaves_s is not None:
                self._yield(served, leaves_s)

        await self._run_reported(served, end())

    def _start_turn(self, served: ServedAgent, due: duty.DueWork | None) -> None:
        """Begin the agent's next turn, or leave its message for its sender. `due` is the step's result from this poll;
        None if it is from an earlier one."""
        lease = served.lease
        assert lease is not None
        served.next = None
        if due is not None and not self.kind.holds:
            due = duty.DueWork(entries=due.entries[:1])
            message = lease.waiting.read(due.entries[0])
            if message is None:
                served.is_dirty = True
                return
            why = self.kind.why_left_to_sender(lease, message, self._declined)
            if why:
                self._declined.add(message.id)
                served.left_until = self.context.clock.monotonic() + _SENDERS_S
                self._start_ending(served, why, leaves_s=_SENDERS_LOOK_S)
                return
        served.stop = Stop()
        served.started = self.context.clock.monotonic()
        if served.paths.lane is not None:
            self._lane_began[served.paths.agent] = served.started
        turn = self._run_turn(served, lease, served.stop, due)
        served.task = asyncio.get_running_loop().create_task(self._run_reported(served, turn))

    async def _run_turn(self, served: ServedAgent, lease: AgentLease, stop: Stop, due: duty.DueWork | None) -> None:
        try:
            if due is not None:
                await duty.run_first(
                    lease, due, stop, begun=lambda message: self.kind.prepare_turn(lease, message, self._declined)
                )
            else:
                await duty.run_next(lease, stop)
            served.bugs = 0
            if lease.keeper.process is not None and not self.kind.holds:
                # As long as the process is kept, no other process releases the agent and does this.
                launch.start_lane_workers(lease.log.context, lease.log.paths)
        finally:
            served.stop, served.is_dirty = None, True

    async def _run_reported(self, served: ServedAgent, work: Coroutine[Any, Any, None]) -> None:
        try:
            with self._reporting(served):
                await work
        finally:
            self._wake.end_wait()

    # -- agents that are held for somebody ---------------------------------------------------------------------------

    async def hold(self, paths: AgentPaths, *, patience_s: float = 0.0) -> ServedAgent | None:
        """Serve the agent from now on, and return it; return None if another process has the lease for `patience_s`
        seconds. Meanwhile a broker is asked to release the agent. Raises DiskError."""
        served = self.roster.add(paths)
        if served.lease is None:
            discovery.create(self.context.home, paths)
        served.left_until = -math.inf
        until = self.context.clock.monotonic() + patience_s
        try:
            while not served.is_busy and self._acquire_lease(served) is None:
                if self.context.clock.monotonic() >= until:
                    self.roster.forget(served, self._wake)
                    return None
                await self._ask_for_release(paths)
                await asyncio.sleep(_HOLD_POLL_S)
        except BaseException:
            self.roster.forget(served, self._wake)
            raise
        served.not_before = 0.0
        self._wake.end_wait()
        return served

    async def _ask_for_release(self, paths: AgentPaths) -> None:
        from beam.broker.asking.requests import request

        if registry.broker_serves_root(self.context.home):
            with contextlib.suppress(UnfinishedError):
                await run_async(request(self.context, paths, "release", by="human"))

    async def lend(
        self,
        paths: AgentPaths,
        work: Callable[[AgentLease], Coroutine[Any, Any, _Result]],
        stop: Stop,
        *,
        patience_s: float,
    ) -> _Result:
        """Hold the agent, run this work under its lease once nothing else is done for the agent, and return the result.
        `stop` is a request to the work to stop. Raises UnfinishedError if another process has the lease for
        `patience_s` seconds."""
        while (served := await self.hold(paths, patience_s=patience_s)) is not None and served.is_busy:
            assert served.task is not None
            await asyncio.wait((served.task,))
        if served is None or served.lease is None:
            raise UnfinishedError(
                f"{paths.agent} is held by another process",
                "wait for it; a scenario that runs already can be run under another name: --name NAME",
                subject=paths.agent,
            )
        served.stop = stop
        served.task = task = asyncio.get_running_loop().create_task(work(served.lease))
        try:
            return await task
        finally:
            served.stop, served.is_dirty = None, True
            self._wake.end_wait()

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _finish(self, grace: float) -> None:
        for served in self.roster.all():
            if served.lease is not None:
                served.lease.keeper.keeps = False
        await self._finish_turns(grace)
        while self.kind.starts_workers and any(map(self._is_left_to_sender, self.roster.all())):
            await asyncio.sleep(_SENDERS_LOOK_S)
        await asyncio.gather(
            *(self._end_kept_process(served, self.kind.ends) for served in self.roster.all() if served.lease)
        )

    async def _finish_turns(self, grace: float) -> None:
        busy = [served.task for served in self.roster.all() if served.task is not None and not served.task.done()]
        if not busy:
            return
        if grace:
            self.say(f"stopping; {len(busy)} turns have {grace:g} s")
        until = self.context.clock.monotonic() + grace
        while not self.forced and self._is_any_busy() and (left := until - self.context.clock.monotonic()) > 0:
            await self._wake.wait(left)
        asked = 0
        while self._is_any_busy():
            if asked == 0 or (self.forced and asked == 1):
                asked += 1
                for served in self.roster.all():
                    if served.is_busy and served.stop is not None:
                        served.stop.request("interrupted", by=self.kind.stopped_by)
            await self._wake.wait(0.2)

    def _is_any_busy(self) -> bool:
        return any(served.is_busy for served in self.roster.all())

    def _release_all(self) -> None:
        """Release every agent. An agent of a broker gets a worker if a message was put while the agents were released,
        because the sender saw the lock taken and relies on this process. An agent that a broker did not hold gets a
        worker if any message waits, because a reply from this broker may have created the agent. If the root belongs to
        another broker now, only close the leases."""
        if self.lost or not self.kind.serves_root:
            for served in self.roster.agents.values() if self.lost else self.roster.all():
                if self.kind.starts_workers:
                    self._hand_over(served)
                else:
                    self.roster.release(served)
            return
        agents = self.roster.agents
        held = [served for served in agents.values() if served.lease is not None]
        before = {served.paths.agent: self._last_waiting_position(served) for served in held}
        for served in self.roster.all():
            self.roster.release(served)
        try:
            names = self.context.home.agents()
        except (BeamError, OSError) as error:
            self.say(f"can't look for new agents: {error}")
            names = []
        for name in set(names).difference(agents):
            agents[name] = ServedAgent(self.context.agent_paths(name))
        for name, served in agents.items():
            if self._last_waiting_position(served) > before.get(name, 0):
                why = launch.try_ensure_worker(self.context, served.paths)
                if why:
                    self.say(f"{name}: no process could be started for what waits: {why}")
        left = sum(1 for served in self.roster.all() for _ in self._waiting_positions(served))
        if left:
            self.say(f"{left} messages wait; beam broker start, or beam wait ID, goes on with them")

    def _waiting_positions(self, served: ServedAgent) -> list[int]:
        try:
            entries = Queue(served.paths.queue, served.paths.put_lock).entries("new")
        except BeamError:
            return []
        return [entry.position for entry in entries]

    def _last_waiting_position(self, served: ServedAgent) -> int:
        return max(self._waiting_positions(served), default=0)


def _ignore_line(text: str) -> None:
    """Ignore a line of the log, because the next command reports what is wrong with the configuration."""
