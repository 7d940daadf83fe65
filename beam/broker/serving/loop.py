"""The broker: it runs the messages of each agent in order, and several agents at the same time, up to a cap.

The broker acquires the lease of every agent that has files in the root, including agents that are added later. If
another process has a lease, the broker tries again. It acquires the lease of a lane only while the lane is unfinished,
and only after the time that is reserved for the lane's own worker. An error of one agent stops only that agent.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from pathlib import Path

from beam.base import durations
from beam.base.errors import BeamError, memory_error
from beam.broker.holder import duty
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import launch
from beam.broker.inbox.context import RootContext
from beam.broker.serving.reload import ConfigWatch
from beam.broker.serving.roster import Roster, watch_directories
from beam.broker.serving.served import ServedAgent
from beam.broker.serving.wake import Wake
from beam.root import discovery
from beam.turns.handle import Stop

_TRY_AGAIN_S = 1.0
_TRUST_S = 5.0  # until a folder that is not trusted is checked again: somebody may have undone the change
_TRY_SOON_S = 0.02  # a sender tries the lock, too, and holds it for a moment
_MAX_SOON_TRIES = 5
_YIELD_S = 1.0  # how long an agent is left to the command that asked for it
_ERROR_PAUSE_S = 5.0
_DEADLINE_S = 60.0  # until deadlines are checked again: the clock may be set, or the machine may sleep
Say = Callable[[str], None]


class Broker:
    """Serves one root until it is asked to stop, or has had nothing to do for `idle` seconds. `cap` is the largest
    number of concurrent turns. `poll` is the number of seconds between polls if nothing wakes the broker. With
    `poll_only`, it uses no file notifications. `say` is called with each line for the log."""

    def __init__(
        self,
        context: RootContext,
        *,
        cap: int,
        poll: float,
        poll_only: bool = False,
        idle: float = math.inf,
        say: Say,
    ) -> None:
        self.context = context
        self.cap = cap
        self.poll = poll
        self.poll_only = poll_only
        self.idle = idle
        self.say = say
        self.roster = Roster()
        self.why_lost: Callable[[], str] = _not_lost
        self.lost = ""  # why the root no longer belongs to this broker
        self.stopping = False
        self.forced = False
        self._wake: Wake | None = None
        self._polled_all = -math.inf
        self._roster_trouble = ""  # why the last search for new agents and lanes failed
        self._worked_at = context.clock.monotonic()
        self._lane_began: dict[str, float] = {}
        self._config = ConfigWatch(context, say)

    # -- the loop --------------------------------------------------------------------------------------------------

    async def serve(self, *, grace: float) -> None:
        """Serve the root until `ask_to_stop` is called. Then running turns get `grace` seconds, and those that still
        run are interrupted."""
        self._wake = Wake(poll_only=self.poll_only)
        launch.served_roots.add(self.context.home.root)
        try:
            while not self.stopping:
                self._poll()
                await self._wake.wait(self._pause_s())
            launch.served_roots.discard(self.context.home.root)
            await self._finish(grace)
        finally:
            launch.served_roots.discard(self.context.home.root)
            self._release_all()
            self._wake.close()

    def ask_to_stop(self) -> None:
        """Stop claiming messages; a second call ends running turns forcibly."""
        self.forced = self.stopping
        self.stopping = True
        if self._wake is not None:
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
                due = self._try_step(served)
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
                self._start_turn(served, fresh.get(served))
            elif served in fresh:
                self._expire_without_room(served)
        if ready or self._is_any_busy() or any(served.waits for served in self.roster.all()):
            self._worked_at = now
        elif now - self._worked_at >= self.idle:
            self.say(f"nothing to do for {durations.show(self.idle)}")
            self.ask_to_stop()

    def _pause_s(self) -> float:
        """Return the seconds until the next poll, if nothing happens."""
        idle = (served for served in self.roster.all() if not served.is_busy)
        due = min((max(served.due_at(), served.not_before) for served in idle), default=math.inf)
        due = min(due, self._worked_at + self.idle)
        return max(0.0, min(self.poll, due - self.context.clock.monotonic()))

    def _mark_changed(self) -> None:
        """Add new agents and lanes, read a changed configuration again, and mark the agents that need a step. These are
        the agents whose directories a notification named and, once every `poll` seconds, all agents whose directories
        have changed."""
        assert self._wake is not None
        now = self.context.clock.monotonic()
        changed = self._wake.take_changed()
        is_time = changed is None or now - self._polled_all >= self.poll
        self._adopt_agents_and_lanes(changed or (), everything=is_time)
        if is_time:
            self._polled_all = now
            for lane in self.roster.lanes.values():
                lane.is_dirty = True
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
        assert self._wake is not None
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
        if self._wake is not None:
            self._wake.end_wait()

    def _read_config(self, *, retry: bool) -> None:
        context = self._config.read_again(self.context, retry=retry)
        if context is not None:
            self.context = context
            for served in self.roster.all():
                served.is_dirty = True

    # -- one agent -------------------------------------------------------------------------------------------------

    def _acquire_lease(self, served: ServedAgent) -> AgentLease | None:
        """Return the lease of the agent or lane; acquire it first if this broker does not hold it. Return None if
        another process has the lease, if the agent was removed, or if the broker already holds as many lanes as it may
        run turns (each lane needs open files)."""
        if served.lease is not None:
            return served.lease
        assert self._wake is not None
        is_lane = served.paths.lane is not None
        if is_lane and self.roster.held_lanes() >= self.cap:
            served.is_dirty, served.is_deferred = False, True
            return None
        if not is_lane and (served.paths.archived.exists() or not served.paths.dir.is_dir()):
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
            return None
        served.missed = 0
        served.lease.keeper.keeps = not (self.stopping or is_lane)
        served.lease.keeper.on_exit = self._wake.end_wait
        served.lease.calls.on_answer = lambda: self._handle_answer(served)
        return served.lease

    def _take_step(self, served: ServedAgent) -> duty.DueWork | None:
        """Take a step for the agent if its lease can be acquired. Return the step's result if a message may be claimed,
        else None."""
        served.look_at = math.inf
        lease = self._acquire_lease(served)
        if lease is None:
            return None
        served.is_dirty = False
        lease.log.context = self.context
        due = duty.step(lease)
        if due.blocked is not None:
            raise BeamError(f"blocked: {due.blocked}")
        if lease.log.context.is_mailbox(lease.log.paths.agent) or lease.is_wanted:
            if lease.is_wanted:
                served.not_before, served.is_dirty = self.context.clock.monotonic() + _YIELD_S, True
            self.roster.release(served)
            return None
        served.trouble = ""
        served.waits = False
        if due.entries:
            return due
        wait_s = _TRUST_S if due.untrusted is not None else due.pause_s
        served.waits = due.untrusted is None and due.pause_s is not None
        self._look_again_in(served, wait_s, due.deadline_s)
        if served.paths.lane is not None:
            self.roster.release(served)
        return None

    def _look_again_in(self, served: ServedAgent, wait_s: float | None, deadline_s: float | None) -> None:
        """Have the next step taken when one of these times (in seconds) is over or, without any, after a change."""
        waits = [wait_s] if wait_s is not None else []
        waits += [min(deadline_s, _DEADLINE_S)] if deadline_s is not None else []
        if waits:
            served.look_at = self.context.clock.monotonic() + min(waits)

    def _expire_without_room(self, served: ServedAgent) -> None:
        """Close the expired messages of an agent whose next turn waits for the end of other agents' turns."""
        assert served.lease is not None
        try:
            self._look_again_in(served, None, served.lease.waiting.expire())
        except (BeamError, OSError) as error:
            self._report_error(served, error)
        except Exception as error:  # noqa: BLE001 - see `_run_turn`
            self._report_bug(served, error)

    def _try_step(self, served: ServedAgent) -> duty.DueWork | None:
        """Return the result of `_take_step`. If that fails, log the error and return None: an error stops only this
        agent."""
        try:
            return self._take_step(served)
        except (BeamError, OSError) as error:
            self._report_error(served, error)
        except Exception as error:  # noqa: BLE001 - see `_run_turn`
            self._report_bug(served, error)
        return None

    def _report_error(self, served: ServedAgent, error: BaseException) -> None:
        text = str(error)
        if text != served.trouble:
            lane = f" (once {served.paths.lane})" if served.paths.lane is not None else ""
            self.say(f"{served.paths.agent}{lane}: {text}")
        served.trouble = text
        served.next, served.is_dirty = None, True
        served.not_before = self.context.clock.monotonic() + _ERROR_PAUSE_S
        self.roster.release(served)

    def _end_kept_if_due(self, served: ServedAgent) -> None:
        """End the agent's kept process if it may no longer stay."""
        if served.lease is None or served.is_busy:
            return
        why = served.lease.why_kept_ends()
        if why:
            self._start_ending(served, why)

    def _end_surplus_processes(self) -> None:
        """End the least recently used kept processes until their number is within the limit."""
        kept = [
            (served.lease.keeper.last_used, served)
            for served in self.roster.all()
            if served.lease is not None and served.lease.keeper.process is not None and not served.is_busy
        ]
        limit = self.context.config.limits.kept
        for _, served in sorted(kept, key=lambda each: each[0])[: max(0, len(kept) - limit)]:
            if served.next is None:  # else it is used now
                self._start_ending(served, f"the broker keeps no more than {limit} processes")

    def _start_ending(self, served: ServedAgent, why: str) -> None:
        served.task = asyncio.get_running_loop().create_task(self._end_kept_process(served, why))

    async def _end_kept_process(self, served: ServedAgent, why: str) -> None:
        assert served.lease is not None
        try:
            await served.lease.end_kept_process(why, hard=lambda: self.forced)
        except (BeamError, OSError) as error:
            self._report_error(served, error)
        except Exception as error:  # noqa: BLE001 - see `_run_turn`
            self._report_bug(served, error)
        finally:
            served.is_dirty = True
            if self._wake is not None:
                self._wake.end_wait()

    def _start_turn(self, served: ServedAgent, due: duty.DueWork | None) -> None:
        """Begin the agent's next turn. `due` is the step's result from this poll; None if it is from an earlier one."""
        served.stop = Stop()
        served.started = self.context.clock.monotonic()
        if served.paths.lane is not None:
            self._lane_began[served.paths.agent] = served.started
        served.next = None
        served.task = asyncio.get_running_loop().create_task(self._run_turn(served, served.stop, due))

    async def _run_turn(self, served: ServedAgent, stop: Stop, due: duty.DueWork | None) -> None:
        assert served.lease is not None
        try:
            if due is not None:
                await duty.run_first(served.lease, due, stop)
            else:
                await duty.run_next(served.lease, stop)
        except (BeamError, OSError) as error:
            self._report_error(served, error)
        except Exception as error:  # noqa: BLE001 - a bug in one turn must not stop the other agents; it is logged whole
            self._report_bug(served, error)
        finally:
            served.stop, served.is_dirty = None, True
            if self._wake is not None:
                self._wake.end_wait()

    def _report_bug(self, served: ServedAgent, error: Exception) -> None:
        import traceback

        if isinstance(error, MemoryError):
            self._report_error(served, memory_error())
            return
        self.say("".join(traceback.format_exception(error)))
        self._report_error(served, error)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _finish(self, grace: float) -> None:
        for served in self.roster.all():
            if served.lease is not None:
                served.lease.keeper.keeps = False
        await self._finish_turns(grace)
        await asyncio.gather(
            *(self._end_kept_process(served, "the broker stops") for served in self.roster.all() if served.lease)
        )

    async def _finish_turns(self, grace: float) -> None:
        busy = [served.task for served in self.roster.all() if served.task is not None and not served.task.done()]
        if not busy:
            return
        self.say(f"stopping; {len(busy)} turns have {grace:g} s")
        assert self._wake is not None
        until = self.context.clock.monotonic() + grace
        while not self.forced and self._is_any_busy() and (left := until - self.context.clock.monotonic()) > 0:
            await self._wake.wait(left)
        asked = 0
        while self._is_any_busy():
            if asked == 0 or (self.forced and asked == 1):
                asked += 1
                for served in self.roster.all():
                    if served.is_busy and served.stop is not None:
                        served.stop.request("interrupted", by="the broker's stop")
            await self._wake.wait(0.2)

    def _is_any_busy(self) -> bool:
        return any(served.is_busy for served in self.roster.all())

    def _release_all(self) -> None:
        """Release every agent. An agent gets a worker if a message was put while the agents were released, because the
        sender saw the lock taken and relies on this process. An agent that this broker did not hold gets a worker if
        any message waits, because a reply from this broker may have created the agent. If the root belongs to another
        broker now, only close the leases."""
        if self.lost:
            for served in self.roster.agents.values():
                if served.lease is not None:
                    served.lease.close()
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
        from beam.store.queue import Queue

        try:
            entries = Queue(served.paths.queue, served.paths.put_lock).entries("new")
        except BeamError:
            return []
        return [entry.position for entry in entries]

    def _last_waiting_position(self, served: ServedAgent) -> int:
        return max(self._waiting_positions(served), default=0)


def _not_lost() -> str:
    return ""
