"""The holder of an agent: it alone claims messages, runs turns, and appends to the journal.

Whoever takes the lock has a holder's whole duty: recover what the last one left, answer requests, and on leaving look
once more and start a worker if anything waits. The order of durable steps is that of docs/files.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from beam.base import durations
from beam.base.clock import recorded_ns, rfc3339
from beam.base.errors import BeamError, DiskError, ShortageError
from beam.base.faults import crash_point
from beam.broker import closing, failure, recovery
from beam.broker.context import RootContext
from beam.broker.outbox import Outboxes
from beam.broker.sessions import session_lock
from beam.broker.waiting import Waiting
from beam.model import events
from beam.model.events import Event, TurnFinished
from beam.model.message import Message
from beam.model.outcome import Outcome, Status, exit_code
from beam.model.state import QUEUED, SENT, SHORTAGE, State
from beam.root import directories
from beam.root.paths import AgentPaths
from beam.store import asks as ask_files
from beam.store import control, lanes
from beam.store.journal import Journal
from beam.store.lock import Lock, try_lock
from beam.store.queue import Entry, Queue
from beam.store.reserve import Reserve
from beam.turns.keeper import ProcessKeeper

if TYPE_CHECKING:
    from beam.broker.renewal import Renewal
    from beam.turns.asks import Asks
    from beam.turns.request import TurnRequest
    from beam.turns.stop import Stop

Watcher = Callable[[Event], None]


def _nobody(event: Event) -> None:
    """A watcher that does not look."""


class Holder:
    """A held agent (or one lane of it). Make one with `take`; call `leave` in the end."""

    def __init__(self, context: RootContext, place: AgentPaths, lock: Lock, journal: Journal) -> None:
        self.context = context
        self.place = place
        self.journal = journal
        self.reserve = Reserve(place.reserve)
        self.queue = Queue(place.queue, place.put_lock)
        self.waiting = Waiting(self)
        self.outboxes = Outboxes(self)
        self.blocked: str | None = None
        self.running: tuple[str, Stop] | None = None
        self.asks: Asks | None = None  # of the turn that runs here
        self.keeper = ProcessKeeper(place.dir, self.record, context.clock)
        self.watcher: Watcher = _nobody
        self._lock = lock
        self._driven: tuple[str, str] | None = None  # the vendor's session of the kept terminal
        self._driving = contextlib.ExitStack()  # its lock

    @property
    def state(self) -> State:
        return self.journal.state

    # -- taking and leaving ----------------------------------------------------------------------------------------

    @classmethod
    def take(cls, context: RootContext, place: AgentPaths, watcher: Watcher = _nobody) -> Holder | None:
        """The holder, after recovery; None if somebody else is. Raises DiskError, CorruptError."""
        directories.check_place(context.home, place)
        lock = try_lock(place.lock)
        if lock is None:
            return None
        try:
            journal = Journal.open(place.journal, place.agent, context.clock, context.limits, Reserve(place.reserve))
        except BaseException:
            lock.release()
            raise
        holder = cls(context, place, lock, journal)
        holder.watcher = watcher
        try:
            recovery.recover(holder)
        except BaseException:
            holder.release()
            raise
        return holder

    def leave(self, *, start_worker: bool = True) -> bool:
        """Nobody holds the agent any more; whether something waits that nobody has taken since.

        With `start_worker` a worker is started for that, and for lanes of the agent whose own died.
        """
        from beam.broker import stranded, worker

        self.release()
        waits = self.blocked is None and self.waits()
        if waits and start_worker:
            worker.start(self.context, self.place)
        if start_worker:
            stranded.rescue(self.context, self.place)
        return waits

    def release(self) -> None:
        """Closes the journal and gives the lock away. A kept terminal is ended at once (`end_terminal` is politer)."""
        self.keeper.drop()
        self.outboxes.close()
        self._driving.close()
        if self.place.lane is not None and self.blocked is None and self.state.is_over():
            lanes.leave(self.place)
        self.journal.close()
        self._lock.release()

    def waits(self) -> bool:
        """Whether a message or a request waits that a worker could do something about."""
        if control.waiting(self.place.control):
            return True
        if self.state.paused or self.is_mailbox():
            return False
        head = self.queue.first("new")
        return head is not None and self.waits_for_trust(head) is None

    def pause_s(self, head: Entry | None = None) -> float | None:
        """Seconds until the next message, which is `head`, may be claimed (0: now); None where the queue is paused."""
        head = head or self.queue.first("new")
        return failure.pause_s(self.state, head.id if head is not None else None, self.context.clock.now_ns())

    def is_held_back(self) -> bool:
        """Whether nothing may be claimed now: paused, the circuit open, or the next attempt not due."""
        return self.pause_s() != 0

    def waits_for_trust(self, entry: Entry) -> str | None:
        """Why this message waits until a person trusts the folder; None where it need not."""
        from beam.broker import standing

        return standing.waits_for_trust(self.context, self.queue, entry)

    def is_mailbox(self) -> bool:
        """Whether its messages are taken by `recv`, never run."""
        return self.context.is_mailbox(self.place.agent)

    # -- leases -----------------------------------------------------------------------------------------------------

    def is_leased(self) -> bool:
        """Whether somebody took the message by `recv` and may still answer it."""
        turn = self.state.open_turn
        if turn is None or turn.lease_until is None or turn.finished or not turn.sent:
            return False
        return self.context.clock.now_ns() < recorded_ns(turn.lease_until)

    def cancel_lease(self, entry: Entry, by: str) -> None:
        """Takes a message back that `recv` gave out; who answers it now is told that it is over."""
        turn, message = self.state.open_turn, self.waiting.read(entry)
        if turn is None or message is None:
            return
        finished = TurnFinished(
            attempt=turn.attempt,
            status=Status.CANCELLED,
            reason=f"stopped by {by}",
            via=turn.via,
            exit_code=exit_code(Status.CANCELLED, None),
        )
        written = self.record(finished, turn=turn.turn, message_id=message.id, sync=True)
        crash_point("finish.recorded")
        closing.close(self, entry, message, written)

    # -- the journal -----------------------------------------------------------------------------------------------

    def record(
        self, body: events.E, *, turn: int | None = None, message_id: str | None = None, sync: bool = False
    ) -> events.E:
        """Appends to the journal, and shows it to the watcher."""
        event = self.journal.append(body, turn=turn, message_id=message_id, sync=sync)
        ask_files.follow(self.place.asks, event)
        self.watcher(event)
        return event

    # -- running ---------------------------------------------------------------------------------------------------

    async def run(self, entry: Entry, message: Message, stop: Stop) -> Outcome | None:
        """Runs a claimed message to its outcome, closed and put away; None if it waits for its next attempt."""
        self.running = (message.id, stop)
        try:
            finished = await self._turn(message, stop)
        finally:
            self.running = None
        if isinstance(finished, BeamError):
            self._put_back(entry, message, finished)
            return None
        failure.judge_circuit(self, finished)
        closing.close(self, entry, message, finished)
        known = self.state.known.get(message.id)
        return None if known is not None and known.phase == QUEUED else events.outcome_of(finished)

    async def _turn(self, message: Message, stop: Stop) -> TurnFinished | BeamError:
        """The outcome, on disk; or the shortage for which nothing was started, so that the message goes on waiting."""
        import asyncio

        from beam.broker.build_request import order_of, sender_of
        from beam.broker.control import Requests
        from beam.broker.renewal import Renewal
        from beam.turns.asks import Asks
        from beam.turns.calls import AgentCalls
        from beam.turns.handle import TurnHandle, TurnServices
        from beam.turns.run import run

        with contextlib.ExitStack() as held:
            try:
                order = order_of(self, message)
                if message.options.new:
                    self.keeper.unwanted = "a new session was asked for"
                scope = str(self.context.base) if order.adapter.card.runs_code else ""
                driven = None if order.fork else order.session_id  # a copy is made by reading
                if driven is None or self._driven != (order.adapter_name, driven):  # the kept terminal has the lock
                    held.enter_context(session_lock(self.context, order.adapter_name, driven, scope=scope))
                sender = sender_of(self, order)
                self.outboxes.make(order.turn_key)
                self.outboxes.begin(sender)
            except BeamError as error:
                return error if self._passes(message, error) else self._could_not_begin(message, error)

            def record(body: Event, *, sync: bool = False) -> Event:
                return self.record(body, turn=order.turn, message_id=message.id, sync=sync)

            def look() -> None:
                Requests(self).look()
                self.waiting.expire()
                asks.expire()
                self.outboxes.look(sender)

            async def last_look() -> None:
                for pause in self.outboxes.end(sender):
                    await asyncio.sleep(pause)

            renewal = Renewal(self, order)
            self.asks = asks = Asks(self.place.agent, record, self.context.clock, self.context.limits.ask_timeout)
            try:
                services = TurnServices(
                    record=record, clock=self.context.clock, poll=look, poll_last=last_look, keeper=self.keeper
                )
                finished = await run(
                    order, services, TurnHandle(stop=stop, asks=asks, calls=AgentCalls(services.clock))
                )
                self._renew(renewal, asks.always)
                await self._drive(order.adapter_name, scope, held, driven)
                return finished
            except (DiskError, ShortageError) as error:
                if self._passes(message, error):
                    return error
                if isinstance(error, ShortageError):
                    finished = self._could_not_begin(message, error, turn=order.turn)
                    recovery.remove_words(self)
                    return finished
                return self._cut_short(message, order, error)
            finally:
                self.asks = None
                self.outboxes.forget_gone()

    def _passes(self, message: Message, error: BeamError) -> bool:
        """Whether it is a shortage before anything ran, and the message may be tried once more."""
        known = self.state.known[message.id]
        is_unstarted = isinstance(error, ShortageError) or known.phase != SENT
        return is_unstarted and failure.is_shortage(error) and known.shortages + 1 < self.context.limits.start_attempts

    def _put_back(self, entry: Entry, message: Message, error: BeamError) -> None:
        """The message waits for the time after a shortage, which the journal says."""
        tries = self.state.known[message.id].shortages + 1
        not_before, pause = failure.after_shortage(self.context.policy, message, tries, self.context.clock.now_ns())
        text = f"{error.message}: nothing ran; tried again in {durations.show(pause)}"
        turn = self.state.open_turn.turn if self.state.open_turn is not None else None
        self.record(events.Notice(code=SHORTAGE, text=text), turn=turn, message_id=message.id)
        closing.requeue(self, entry, message, reason=SHORTAGE, not_before=not_before)
        recovery.remove_words(self)

    def _renew(self, renewal: Renewal, decisions: Sequence[str]) -> None:
        try:
            renewal.settle(decisions)
        except BeamError as error:  # the outcome is on disk; a person is asked once more, that is all
            self.record(events.Notice(code="trust_renewed", text=f"trust could not be renewed: {error.message}"))

    async def _drive(self, adapter: str, scope: str, held: contextlib.ExitStack, driven: str | None) -> None:
        """After a turn: the vendor's session stays locked as long as a kept terminal is in it."""
        session = self.state.session
        if self.keeper.process is None or session is None:
            self._driven = None
            self._driving.close()
        elif self._driven != (adapter, session.session_id):
            lock = contextlib.ExitStack()
            try:
                if driven == session.session_id:
                    lock.push(held.pop_all())
                else:
                    lock.enter_context(session_lock(self.context, adapter, session.session_id, scope=scope))
            except BeamError as error:
                await self.keeper.end(error.message)
            self._driving.close()
            self._driven, self._driving = (adapter, session.session_id), lock

    def why_terminal_ends(self) -> str:
        """Why the kept terminal has to go now; "" while it may stay, or where there is none."""
        if self.keeper.process is None:
            return ""
        if self.state.paused:
            return "its queue was paused"
        if not self.context.is_agent(self.place.agent):
            return "the agent is not declared any more"
        return self.keeper.over(self.state.session.session_id if self.state.session is not None else None)

    async def end_terminal(self, why: str, *, hard: Callable[[], bool] = lambda: False) -> None:
        """The kept terminal, if there is one, is asked to quit and gone."""
        try:
            await self.keeper.end(why, hard=hard)
        finally:
            self._driven = None
            self._driving.close()

    def _cut_short(self, message: Message, order: TurnRequest, error: DiskError) -> TurnFinished:
        """The outcome of a turn that was ended because its events could not be written, if that can be. Raises the
        error where it can't, or the agent was not started: the next holder says what is known."""
        open_turn = self.state.open_turn
        if open_turn is None or self.state.known[message.id].phase != SENT or self._was_unstarted(order):
            raise error
        finished = TurnFinished(
            attempt=message.attempt,
            status=Status.UNKNOWN,
            reason=f"the turn was ended: {error.message}; nobody knows what the agent did until then",
            session_id=self.state.session.session_id if self.state.session else None,
            via=open_turn.via,
            exit_code=exit_code(Status.UNKNOWN, None),
        )
        try:
            written = self.record(finished, turn=order.turn, message_id=message.id, sync=True)
        except DiskError:
            raise error from None
        crash_point("finish.recorded")
        return written

    @staticmethod
    def _was_unstarted(order: TurnRequest) -> bool:
        return order.unstarted is not None and order.unstarted.exists()

    def _could_not_begin(self, message: Message, error: BeamError, turn: int | None = None) -> TurnFinished:
        """The outcome of a message that got no turn, or whose turn came to nothing: its agent is gone, its settings
        wrong, its session taken, the system had no room too often."""
        from beam.turns.run import refusal

        verdict = refusal(error)
        finished = TurnFinished(
            attempt=message.attempt,
            status=verdict.status,
            class_=verdict.class_,
            reason=verdict.reason,
            exit_code=exit_code(verdict.status, verdict.class_),
        )
        crash_point("finish.before")
        written = self.record(finished, turn=turn, message_id=message.id, sync=True)
        crash_point("finish.recorded")
        return written

    async def run_next(self, stop: Stop) -> bool:
        """Runs the first message that waits; False if none does, or none may be claimed now."""
        if self.is_held_back() or self.is_mailbox():
            return False
        for entry in self.waiting.look():
            if self.waits_for_trust(entry) is not None:
                return False
            claimed = self.waiting.claim(entry)
            if claimed is not None:
                await self.run(*claimed, stop)
                return True
        return False

    def now(self) -> str:
        """The time, as it is written."""
        return rfc3339(self.context.clock.now_ns())
