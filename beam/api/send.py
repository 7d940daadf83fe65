"""Sends a message and waits for its outcome. The message is put into the queue. This process runs it if no other
message is ahead of it, and otherwise follows the process that runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from beam.base.clock import local_time, run_async
from beam.base.errors import LimitError, SignalledError
from beam.broker.asking.follow import follow, not_found_if_removed, replay_outcome
from beam.broker.asking.requests import keep_seconds, wait_until_released, withdraw
from beam.broker.holder import duty, registry
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.context import RootContext
from beam.broker.inbox.failure import circuit_state
from beam.broker.inbox.put import put
from beam.model.events import Event
from beam.model.message import Message
from beam.model.outcome import Outcome
from beam.model.state import State
from beam.root.paths import AgentPaths
from beam.store.segment import Fold, read_state
from beam.turns.handle import Stop, stop_on_signals

_FRESH_S = 1.0  # how old a check of the folder may be when the message is claimed


async def send(
    context: RootContext,
    paths: AgentPaths,
    message: Message,
    seen: Callable[[Event], None],
    fold: Fold | None = None,
    *,
    looked_at: float | None = None,
    hold: Callable[[AgentPaths], Awaitable[None]] | None = None,
) -> Outcome:
    """Put the message into its queue, run it or wait for the process that runs it, and return its outcome. `seen` is
    called with each event of the message as it is recorded. `hold` makes another part of this process hold the agent
    and run the message.

    A signal withdraws or interrupts this message only (a second signal: immediately). After that, SignalledError is
    raised. A signal does not affect a message that somebody else already sent with the same key. `fold`: the part of
    the journal that the caller has read already. `looked_at`: when the caller found the folder trusted for this message
    (monotonic seconds; None: the caller did not check).
    """
    stop = Stop()
    by = f"{message.actor or message.sender} (signal)"
    seen = _each_once(seen)
    fold = fold or Fold(paths.journal)
    before = fold.last_state()
    if message.options.no_circuit is not True and not context.config.policy.fallback:
        _check_circuit(context, paths, before)
    after = before.seq
    with stop_on_signals(stop, by=by) as came:
        await asyncio.sleep(0)  # a ^C that came before the handlers were set ends the call here, before `put`
        is_new = put(context, paths, message)
        if not is_new and (outcome := replay_outcome(paths, read_state(paths.journal), message.id, seen)) is not None:
            return outcome
        outcome = None
        if stop.reason is None and paths.lane is None:
            await run_async(registry.yield_to_broker(context, paths))
        if stop.reason is None and hold is not None and paths.lane is None:
            if await run_async(wait_until_released(context, paths, message)):
                await hold(paths)
        elif stop.reason is None and keep_seconds(message) is None:  # a kept process needs a holder that lives on
            with not_found_if_removed(paths, message.id):
                lease = await _acquire_lease(context, paths, message, stop, seen=seen, fold=fold)
                if lease is not None:
                    outcome = await _run_here(lease, message, stop, seen, looked_at=looked_at)
        if outcome is None and stop.reason is None:
            outcome = await run_async(
                follow(
                    context,
                    paths,
                    message.id,
                    seen=seen,
                    is_wanted=lambda: stop.reason is None,
                    after_seq=after if is_new else None,
                )
            )
        if outcome is None and is_new:
            outcome = await run_async(withdraw(context, paths, message.id, by=by, hurry=lambda: len(came) > 1))
    if came:
        hint = f"beam wait {message.id}"
        raise SignalledError(came[0], outcome, message=f"{message.id} was not stopped and goes on", hint=hint)
    assert outcome is not None
    return outcome


def _each_once(seen: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a function that calls `seen` with each event once: with no event that is not newer than the last one. An
    event that is in no journal has no number, and is never left out."""
    last = 0

    def once(event: Event) -> None:
        nonlocal last
        if event.seq == 0 or event.seq > last:
            last = max(last, event.seq)
            seen(event)

    return once


def _check_circuit(context: RootContext, paths: AgentPaths, state: State) -> None:
    """Raise LimitError if the agent's circuit breaker is open. Messages that wait already are not affected: one of them
    is tried when the circuit breaker lets it through."""
    if circuit_state(state, context.clock.now_ns()) == "open":
        last = f", the last one with: {state.last.reason}" if state.last is not None and state.last.reason else ""
        count = len(state.failures)
        raise LimitError(
            f"{paths.agent} failed {count} time{'s' if count != 1 else ''} in a row{last}; nothing is sent to it until "
            f"{local_time(state.circuit_until or '')} (its circuit is open)",
            "wait until then, send with --no-wait (it is tried then), or with --no-circuit (now)",
            subject=paths.agent,
        )


async def _acquire_lease(
    context: RootContext, paths: AgentPaths, message: Message, stop: Stop, *, seen: Callable[[Event], None], fold: Fold
) -> AgentLease | None:
    """Return the agent's lease. If a holder has it only to keep a process, first wait until the holder releases it.
    Return None if another process will run the message, or if `stop` was asked for."""
    lease = AgentLease.acquire(context, paths, seen, fold, watched=message.id)
    if lease is None and await run_async(wait_until_released(context, paths, message)) and stop.reason is None:
        lease = AgentLease.acquire(context, paths, seen, fold, watched=message.id)
    return lease


async def _run_here(
    lease: AgentLease, message: Message, stop: Stop, seen: Callable[[Event], None], *, looked_at: float | None
) -> Outcome | None:
    """Run the message if no other message is ahead of it, and return its outcome; None if another process will run it.
    Release the lease in either case."""
    try:
        is_fresh = looked_at is not None and lease.log.context.clock.monotonic() - looked_at < _FRESH_S
        due = duty.step(lease, trusted=message.id if is_fresh else None)
        if not due.entries or due.entries[0].id != message.id:
            return None
        claimed = lease.waiting.claim(due.entries[0])
        if claimed is None:
            return replay_outcome(lease.log.paths, lease.log.state, message.id, seen)
        from beam.broker.holder.turn import run
        from beam.broker.serving.wake import wake_turn_on_requests
        from beam.process import tree

        tree.become_subreaper()
        with wake_turn_on_requests(lease):
            return await run(lease, *claimed, stop)
    finally:
        lease.hand_over_after_turn()
