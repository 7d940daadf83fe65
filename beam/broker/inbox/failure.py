"""Applies the configured policy to failed turns (retries, circuit breaker, budgets), and records the decisions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from beam.base.clock import parse_rfc3339, recorded_ns, rfc3339
from beam.base.digest import sha256
from beam.base.errors import PASSING, BeamError, DiskError, LimitError, ShortageError
from beam.broker.inbox import usage_limit
from beam.model import events
from beam.model.events import TurnFinished
from beam.model.message import Message, Spent
from beam.model.outcome import Status
from beam.model.settings import (
    Circuit,
    Policy,
    backoff_pause,
    circuit_after,
    exceeded_budget,
    has_root_budget,
    max_spent,
    retry_delay,
)
from beam.model.state import DIED_REASON, State
from beam.store.segment import read_state
from beam.store.thread import ThreadUsage

if TYPE_CHECKING:
    from beam.broker.inbox.context import RootContext
    from beam.broker.inbox.log import AgentLog

_NS = 1_000_000_000


def next_attempt(policy: Policy, message: Message, finished: TurnFinished) -> tuple[Message, str] | None:
    """Return the message of the next attempt, and the earliest time at which it may run (RFC 3339). Return None if the
    policy does not retry the message.

    The decision depends only on the policy and the recorded outcome, so after a crash the next process decides the
    same.
    """
    retried = msgspec.structs.replace(message, attempt=finished.attempt + 1, fallback=0, deadline=None)
    if usage_limit.is_waited_for(policy, finished):
        limited = msgspec.structs.replace(retried, limited=message.limited + 1)
        return limited, usage_limit.next_try(message, finished)
    chance = _stable_fraction(message.id, finished.attempt)
    pause = retry_delay(policy, finished.status, finished.class_, finished.attempt - message.limited, chance)
    if pause is None:
        return None
    return retried, rfc3339(parse_rfc3339(finished.ts) + int(pause * _NS))


def is_shortage(error: BeamError) -> bool:
    """Return whether the error means a temporary shortage of processes, memory or descriptors."""
    cause = error.__cause__
    return isinstance(error, ShortageError) or (isinstance(cause, OSError) and cause.errno in PASSING)


def retry_after_shortage(policy: Policy, message: Message, shortages: int, now_ns: int) -> tuple[str, float]:
    """Return when the agent may be started again (RFC 3339), and the seconds until then. `shortages` is the number of
    starts of this message that failed because of a shortage."""
    pause = backoff_pause(policy, shortages)
    pause *= 1 + policy.jitter * _stable_fraction(message.id, shortages)
    return rfc3339(now_ns + int(pause * _NS)), pause


def update_circuit(log: AgentLog, finished: TurnFinished) -> None:
    """Open or close the agent's circuit breaker after an outcome, which is the journal's last one, and record the
    change. A usage limit that is waited for changes nothing, and neither does a turn of another agent."""
    is_other = finished.stand_in is not UNSET and finished.stand_in.agent != log.paths.agent
    if is_other or usage_limit.is_waited_for(log.context.config.policy, finished):
        return
    state = log.state
    failures = tuple(_seconds(ts) for ts in state.failures[:-1])  # without this outcome, if it is a failure
    before = Circuit(failures=failures, until=_circuit_end_s(state))
    # The journal's times are ahead of a clock that was set back.
    now = min(_seconds(finished.ts), log.context.clock.now_ns() / _NS)
    after = circuit_after(log.context.config.policy, before, finished.status, finished.class_, now)
    if after.until == before.until:
        return
    if after.until is None:
        log.record(events.CircuitClosed())
    else:
        log.record(events.CircuitOpened(until=rfc3339(int(after.until * _NS)), failures=len(after.failures)))


def _stable_fraction(message_id: str, number: int) -> float:
    """Return a number in [0, 1), always the same for the same arguments."""
    return sha256(f"{message_id} {number}".encode()).digest()[0] / 256


def circuit_state(state: State, now_ns: int) -> str:
    """Return the state of the circuit breaker: closed, open, or half open."""
    until = None if state.circuit_until is None else now_ns / _NS + _circuit_pause_s(state, state.circuit_until, now_ns)
    return Circuit(until=until).state(now_ns / _NS)


def _circuit_end_s(state: State) -> float | None:
    return _seconds(state.circuit_until) if state.circuit_until is not None else None


def _circuit_pause_s(state: State, until: str, now_ns: int) -> float:
    return _remaining_s(until, state.failures[-1] if state.failures else "", now_ns)


def _remaining_s(until: str, since: str, now_ns: int) -> float:
    """Return the seconds until the time `until`, which was recorded at the time `since` ("": unknown). A pause that
    would last more than twice as long as it did then is over: the clock was ahead, and was set back since."""
    remaining = _seconds(until) - now_ns / _NS
    if since and remaining > 2 * abs(_seconds(until) - _seconds(since)):
        return 0.0
    return remaining


def _seconds(timestamp: str) -> float:
    return recorded_ns(timestamp) / _NS


def pause_s(
    state: State, head: str | None, now_ns: int, *, no_circuit: bool = False, pace: float | None = None
) -> float | None:
    """Return the seconds until the next message may be claimed (0: now); None while the queue is paused. `head` is the
    id of that message. With `no_circuit`, the message ignores an open circuit breaker. `pace` is the number of seconds
    that the agent rests after each turn."""
    if state.paused:
        return None
    until = [0.0]
    if state.circuit_until is not None and not no_circuit:
        until.append(_circuit_pause_s(state, state.circuit_until, now_ns))
    known = state.known.get(head) if head is not None else None
    if known is not None and known.not_before is not None:
        until.append(_remaining_s(known.not_before, known.at, now_ns))
    if pace and state.last is not None and state.last.at:
        rests_for_s = _seconds(state.last.at) + pace - now_ns / _NS
        # A rest that would last more than twice as long is over: the clock was ahead, and was set back since.
        until.append(0.0 if rests_for_s > 2 * pace else rests_for_s)
    return max(until)


def budget_used_up(context: RootContext, message: Message) -> str | None:
    """Return which budget is used up, that of the message's thread or that of the root; None if the message may run."""
    policy = context.config.policy
    spent = max_spent(message.spent, _thread_usage(context, message).spent()) if message.hops > 0 else message.spent
    return exceeded_budget(policy, spent, root_spent(context) if has_root_budget(policy) else None)


def check_budget(context: RootContext, message: Message) -> None:
    """Raise LimitError if the thread of an agent's message or the root has used up its budget, because the message
    would never run."""
    used_up = budget_used_up(context, message)
    if used_up is not None:
        raise LimitError(
            f"the budget of thread {message.thread} is used up: {used_up}",
            "a person may start a new thread; `policy:` in beam.yaml has the bounds",
            subject=message.to,
        )


def count_turn(context: RootContext, message: Message) -> str | None:
    """Count the message's turn in its thread. If the thread has too many turns, return why the turn is refused, else
    None.

    A person's message begins a new thread and is not counted. Raises DiskError.
    """
    if message.hops == 0:
        return None
    number = _thread_usage(context, message).begin(message.id, message.attempt)
    return exceeded_budget(context.config.policy, Spent(turns=number - 1), None)


def count_cost(context: RootContext, message: Message, finished: TurnFinished) -> None:
    """Add the turn's cost to the total of the message's thread, if the policy limits the cost of a thread."""
    if context.config.policy.thread_cost_usd is None or not finished.cost_usd:
        return
    with contextlib.suppress(DiskError):  # an error must not stop the outcome; the usage in the message still counts
        _thread_usage(context, message).record_cost(message.id, finished.attempt, finished.cost_usd)


def _thread_usage(context: RootContext, message: Message) -> ThreadUsage:
    return ThreadUsage(context.home.threads, message.thread or message.id)


def root_spent(context: RootContext) -> Spent:
    """Return the usage of all agents of the root so far, from their journals. An unreadable journal is skipped."""
    turns, cost = 0, 0.0
    for name in context.home.agents():
        paths = context.agent_paths(name)
        for each in (paths, *paths.lanes()):
            try:
                totals = read_state(each.journal).totals
            except BeamError:
                continue
            turns += totals.turns
            cost += totals.cost_usd or 0.0
    return Spent(turns=turns, cost_usd=cost)


Refusal = tuple[str, str, Status]  # reason, detail, status


def find_refusal(message: Message, state: State, context: RootContext) -> Refusal | None:
    """Return why a message may not be claimed; None if it may be."""
    limits = context.config.limits
    if message.deadline is not None and context.clock.now_ns() > parse_rfc3339(message.deadline):
        return "expired", "its deadline passed before its turn came; nothing ran", Status.TIMEOUT
    if message.hops > limits.hops:
        detail = f"{message.hops} hops in thread {message.thread}: over the limit of {limits.hops}"
        return "hops", detail, Status.LIMIT
    if message.for_session is not None and message.for_session in state.archived:
        return "no_such_session", f"it answers session {message.for_session}, which was archived", Status.FAILED
    if message.only_by and _is_gone(message.only_by):
        detail = "the run that sent it is gone, and nobody else runs it with the run's settings; nothing ran"
        return DIED_REASON, detail, Status.CANCELLED
    used_up = budget_used_up(context, message)
    return budget_refusal(used_up) if used_up is not None else None


def _is_gone(process: str) -> bool:
    """Return whether the process that a text of `process.owned` identifies has ended."""
    from beam.process import owned, tree

    owner = owned.owner_in(process)
    return owner is not None and tree.is_alive(owner) is False


def budget_refusal(used_up: str) -> Refusal:
    """Return the refusal of a message because of a used-up budget; `used_up` says which budget."""
    return "budget", f"the budget is used up: {used_up}", Status.LIMIT
