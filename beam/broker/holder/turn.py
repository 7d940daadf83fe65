"""Runs one turn of an agent under its lease, from a claimed message to its outcome, and closes the message.

The order of durable steps is that of docs/files.md. Does not depend on when a message is claimed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET, structs

from beam.base import durations
from beam.base.errors import MEMORY_KIND, BeamError, DiskError, ShortageError, memory_error
from beam.base.faults import crash_point
from beam.broker.holder import recovery
from beam.broker.holder.calls import RunningTurn
from beam.broker.holder.lease import AgentLease, session_lock
from beam.broker.inbox import closing, failure, fallback
from beam.model import events
from beam.model.events import TurnFinished
from beam.model.message import Message
from beam.model.outcome import Outcome, Status, Verdict
from beam.model.state import QUEUED, SENT, SHORTAGE_REASON
from beam.store.queue import Entry

if TYPE_CHECKING:
    from beam.broker.holder.renewal import Renewal
    from beam.turns.handle import Stop
    from beam.turns.request import TurnRequest


async def run(lease: AgentLease, entry: Entry, message: Message, stop: Stop) -> Outcome | None:
    """Run a claimed message, close it, and remove its file. Return its outcome; None if it waits for its next attempt.

    Raises DiskError if the outcome could not be written: the next lease recovers the turn.
    """
    log = lease.log
    lease.turn = RunningTurn(message.id, stop)
    try:
        finished = await _Turn(lease, lease.turn, message).run()
    finally:
        lease.turn = None
    if isinstance(finished, BeamError):
        _requeue(lease, entry, message, finished)
        return None
    failure.update_circuit(log, finished)
    closing.close_message(log, entry, message, finished)
    known = log.state.known.get(message.id)
    return (
        None if known is not None and known.phase == QUEUED else events.outcome_of(finished, str(log.paths.agent_dir))
    )


def _requeue(lease: AgentLease, entry: Entry, message: Message, error: BeamError) -> None:
    """Requeue a message whose turn could not begin because of a shortage, and record why. It is tried again after a
    pause."""
    log = lease.log
    tries = log.state.known[message.id].shortages + 1
    not_before, pause = failure.retry_after_shortage(
        log.context.config.policy, message, tries, log.context.clock.now_ns()
    )
    text = f"{error.message}: nothing ran; tried again in {durations.show(pause)}"
    turn = log.state.open_turn.turn if log.state.open_turn is not None else None
    log.record(events.Notice(code=SHORTAGE_REASON, text=text), turn=turn, message_id=message.id)
    closing.requeue(log, entry, message, reason=SHORTAGE_REASON, not_before=not_before)
    recovery.remove_unstarted_notes(log)


class _Turn:
    """The turn of one attempt of a message."""

    def __init__(self, lease: AgentLease, turn: RunningTurn, message: Message) -> None:
        self.lease = lease
        self.log = lease.log
        self.turn = turn
        self.message = message

    async def run(self) -> TurnFinished | BeamError:
        """Run the turn and return its outcome, which is then on disk. If a shortage prevented the start, return its
        error; the message then waits for another try."""
        import asyncio

        from beam.broker.holder.control import answer_requests
        from beam.broker.holder.renewal import Renewal
        from beam.broker.inbox.build_request import build_turn_request, sender_of
        from beam.turns.asks import AgentCalls, Asks
        from beam.turns.handle import TurnHandle, TurnServices
        from beam.turns.run import run

        lease, log, message = self.lease, self.log, self.message
        context, outboxes = log.context, lease.outboxes
        with contextlib.ExitStack() as held:
            try:
                order = build_turn_request(log, message, lease.waiting.last_check)
                stand_in = fallback.stand_in_of(log, message)
                is_own = stand_in is None or stand_in.agent == message.to
                is_kept = order.recorded is None and is_own and lease.keeper.idle_s(order.keep) > 0
                order = structs.replace(order, is_kept=is_kept)
                if message.options.new:
                    lease.keeper.unwanted = "a new session was asked for"
                scope = str(context.home.project) if order.adapter.card.runs_code else ""
                driven = None if order.fork else order.session_id  # a copy is made by reading
                if driven is None or not lease.kept_session.has(order.adapter_name, driven):
                    held.enter_context(session_lock(context, order.adapter_name, driven, scope=scope))
                sender = sender_of(log, order)
                if order.recorded is None:  # a recorded turn has no agent that could make requests
                    outboxes.make(order.scratch)
                outboxes.begin(sender)
            except BeamError as error:
                return error if self._is_retried(error) else self._record_not_begun(error)

            record: fallback.Record = partial(log.record, turn=order.turn, message_id=message.id)
            if stand_in is not None:
                record = fallback.recorder(record, stand_in, message.to)

            def poll() -> None:
                for step in (
                    partial(answer_requests, lease),
                    lease.waiting.expire,
                    asks.expire,
                    partial(outboxes.poll, sender),
                ):
                    _skip_on_shortage(step)

            async def poll_last() -> None:
                answer_requests(lease)  # also those whose calls were answered by the end of the turn
                for pause in outboxes.end(sender):
                    await asyncio.sleep(pause)

            renewal = Renewal(log, order)
            asks = Asks(log.paths.agent, record, context.clock, context.config.limits.ask_timeout)
            self.turn.news = asyncio.Event()
            services = TurnServices(
                record=record,
                clock=context.clock,
                poll=poll,
                news=self.turn.news,
                poll_last=poll_last,
                keeper=lease.keeper,
            )
            self.turn.handle = TurnHandle(stop=self.turn.stop, asks=asks, calls=AgentCalls(context.clock))
            try:
                finished = await run(order, services, self.turn.handle)
                self._renew_trust(renewal, asks.always)
                await self._keep_session(order.adapter_name, scope, held, driven)
                return finished
            except (DiskError, ShortageError, MemoryError) as raised:
                cause = memory_error() if isinstance(raised, MemoryError) else raised
                if self._is_retried(cause):
                    return cause
                if isinstance(cause, ShortageError) and not self._has_begun(cause):
                    finished = self._record_not_begun(cause, turn=order.turn)
                    recovery.remove_unstarted_notes(log)
                    return finished
                return self._record_cut_short(order, cause)
            finally:
                self.turn.handle = None
                outboxes.forget_removed()

    def _is_retried(self, error: BeamError) -> bool:
        """Return whether the error is a shortage that came before anything ran, and the message may still be tried
        again."""
        known = self.log.state.known[self.message.id]
        is_unstarted = not self._has_begun(error)
        limit = self.log.context.config.limits.start_attempts
        return is_unstarted and failure.is_shortage(error) and known.shortages + 1 < limit

    def _has_begun(self, error: BeamError) -> bool:
        """Return whether the agent may have begun when the error came. If the system refused to start it, it has
        not."""
        is_refusal = isinstance(error, ShortageError) and error.kind != MEMORY_KIND
        return not is_refusal and self.log.state.known[self.message.id].phase == SENT

    def _renew_trust(self, renewal: Renewal, decisions: Sequence[str]) -> None:
        try:
            renewal.renew_trust(decisions)
        except BeamError as error:  # the outcome is on disk; the only effect is that a person is asked again
            text = f"trust could not be renewed: {error.message}"
            self.log.record(events.Notice(code="trust_renewed", text=text))

    async def _keep_session(self, adapter: str, scope: str, held: contextlib.ExitStack, driven: str | None) -> None:
        """Keep the vendor's session locked after the turn while a kept process uses it."""
        lease, session = self.lease, self.log.state.session
        if lease.keeper.process is None or session is None:
            lease.kept_session.close()
        elif not lease.kept_session.has(adapter, session.session_id):
            lock = contextlib.ExitStack()
            try:
                if driven == session.session_id:
                    lock.push(held.pop_all())
                else:
                    lock.enter_context(session_lock(self.log.context, adapter, session.session_id, scope=scope))
            except BeamError as error:
                await lease.keeper.end(error.message)
            lease.kept_session.keep(adapter, session.session_id, lock)

    def _record_cut_short(self, order: TurnRequest, error: DiskError | ShortageError) -> TurnFinished:
        """Record the outcome of a turn that was ended because its events could not be written.

        Raises the error if that fails, too, or if the agent was not started: then the next lease records the outcome.
        """
        state = self.log.state
        open_turn = state.open_turn
        is_unstarted = order.unstarted is not None and order.unstarted.exists()
        if open_turn is None or state.known[self.message.id].phase != SENT or is_unstarted:
            raise error
        verdict = Verdict(
            status=Status.UNKNOWN,
            reason=f"the turn was ended: {error.message}; nobody knows what the agent did until then",
            session_id=state.session.session_id if state.session else None,
        )
        finished = events.turn_finished(verdict, attempt=self.message.attempt, via=open_turn.via)
        try:
            written = self.log.record(finished, turn=order.turn, message_id=self.message.id, sync=True)
        except DiskError:
            raise error from None
        crash_point("finish.recorded")
        return written

    def _record_not_begun(self, error: BeamError, turn: int | None = None) -> TurnFinished:
        """Record the outcome of a message whose turn could not begin: its agent was removed, its settings are
        invalid, its session is in use, or there were too many shortages."""
        from beam.turns.outcome import refusal_verdict

        finished = events.turn_finished(
            refusal_verdict(error),
            attempt=self.message.attempt,
            stand_in=fallback.stand_in_of(self.log, self.message) or UNSET,
        )
        crash_point("finish.before")
        written = self.log.record(finished, turn=turn, message_id=self.message.id, sync=True)
        crash_point("finish.recorded")
        return written


def _skip_on_shortage(step: Callable[[], object]) -> None:
    """Take one step of a poll. If the system lacks descriptors or memory, leave the step to the next poll, because a
    shortage must not end the running turn."""
    try:
        step()
    except DiskError as error:
        if not failure.is_shortage(error):
            raise
