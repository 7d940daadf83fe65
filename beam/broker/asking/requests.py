"""Publishes control requests to the process that has an agent's lease, and waits for their answers. If no process has
the lease, the caller acquires it for one step. A sender waits here, too, while another process holds the agent: until
that process takes the sender's message or releases the agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET

from beam.base.clock import Steps, rfc3339
from beam.base.errors import BeamError, UnfinishedError, exit_code_of
from beam.broker.asking.follow import outcome_in
from beam.broker.holder import registry
from beam.broker.inbox.context import RootContext
from beam.model.events import ControlDone
from beam.model.message import new_id
from beam.model.outcome import Outcome
from beam.root import discovery
from beam.root.paths import AgentPaths
from beam.store import control, lanes
from beam.store.control import ControlRequest, Verb
from beam.store.lock import is_free
from beam.store.queue import Queue
from beam.store.reader import Reader
from beam.store.segment import read_state

if TYPE_CHECKING:
    from beam.base.clock import Steps
    from beam.broker.inbox.context import RootContext
    from beam.model.message import Message
    from beam.root.paths import AgentPaths


_POLL_S = 0.02
_TAKE_OVER_S = 0.3
_OUTCOME_WAIT_S = 2.0
_EXPIRES_NS = 60 * 1_000_000_000


def request(
    context: RootContext,
    paths: AgentPaths,
    verb: Verb,
    target: str | None = None,
    *,
    by: str,
    text: str | None = None,
    always: bool = False,
    stop: bool = False,
    timeout: float = 10.0,
) -> Steps[str]:
    """Publish a control request, wait for its answer, and return what was done, as text. Raises the same errors as
    `request_answer`."""
    done = yield from request_answer(
        context, paths, verb, target, by=by, text=text, always=always, stop=stop, timeout=timeout
    )
    return done.message


def request_answer(
    context: RootContext,
    paths: AgentPaths,
    verb: Verb,
    target: str | None = None,
    *,
    by: str,
    text: str | None = None,
    always: bool = False,
    stop: bool = False,
    timeout: float = 10.0,
) -> Steps[ControlDone]:
    """Publish a control request, wait for its answer, and return the answer.

    Raises BeamError if the request is refused, UnfinishedError after `timeout` seconds.
    """
    from beam.broker.holder.duty import ensure_running  # loads what a turn needs

    discovery.create(context.home, paths)
    now = context.clock.now_ns()
    wish = ControlRequest(
        id=new_id(paths.agent, now, context.clock.random(4)),
        verb=verb,
        sender=by,
        timestamp=rfc3339(now),
        expires=rfc3339(now + _EXPIRES_NS),
        target=target,
        text=text,
        always=always,
        stop=stop,
    )
    reader = Reader(paths.journal, read_state(paths.journal).seq)
    if paths.lane is not None:
        lanes.add_to_index(paths)
    control.publish(paths.control, wish)
    if paths.lane is not None:
        lanes.add_to_index(paths)
    began = context.clock.monotonic()
    checked_at = began - _TAKE_OVER_S
    while True:
        now_s = context.clock.monotonic()
        if now_s - checked_at >= _TAKE_OVER_S:
            checked_at = now_s
            ensure_running(context, paths)
        for event in reader.poll():
            if isinstance(event, ControlDone) and event.control_id == wish.id:
                if event.ok:
                    return event
                raise BeamError(
                    event.message, subject=target or paths.agent, kind=event.code, exit_code=exit_code_of(event.code)
                )
        if now_s - began > timeout:
            raise UnfinishedError(
                f"the process that runs {paths.agent} did not answer within {timeout:g} s",
                "try again; beam status",
                subject=paths.agent,
            )
        yield _POLL_S


def withdraw(
    context: RootContext,
    paths: AgentPaths,
    message_id: str,
    *,
    by: str,
    hurry: Callable[[], bool] = lambda: False,
    timeout: float = 20.0,
) -> Steps[Outcome | None]:
    """Interrupt the message if it runs, or withdraw it if it waits. Return its outcome, or None if it has no outcome
    after `timeout` seconds.

    Once `hurry` returns True, the request is repeated, which ends the turn forcibly.
    """
    until = context.clock.monotonic() + timeout
    requests_made = 0
    while context.clock.monotonic() < until:
        if requests_made == 0 or (requests_made == 1 and hurry()):
            requests_made += 1
            try:
                yield from request(context, paths, "interrupt", message_id, by=by, timeout=timeout / 2)
            except BeamError:
                requests_made = 2  # it is over, or about to be
                until = min(until, context.clock.monotonic() + _OUTCOME_WAIT_S)
        outcome = outcome_in(paths, read_state(paths.journal), message_id)
        if outcome is not None:
            return outcome
        yield _POLL_S
    return None


_CLOSING_S = 6.0  # a process that is asked to quit has four seconds
_MOMENT_S = 0.5  # in this time, a holder without a kept process claims a message or releases the agent


def keep_seconds(message: Message) -> float | None:
    """Return for how many seconds the message asks to keep the agent's process after the turn; None if it does not ask.
    Only a person's message may ask."""
    return message.options.keep if message.options.keep is not UNSET and message.hops == 0 else None


def wait_until_released(context: RootContext, paths: AgentPaths, message: Message) -> Steps[bool]:
    """Wait as long as a holder that runs no turn may still take this waiting message or release the agent.

    Return whether the agent has no holder afterwards. Does not wait for a broker, because a broker takes every message.
    """
    if is_free(paths.lock):
        return True
    from beam.process import tree
    from beam.store.segment import Fold  # not needed if nobody holds the agent

    fold, queue = Fold(paths.journal), Queue(paths.queue, paths.put_lock)
    began, limit_s = context.clock.monotonic(), _MOMENT_S
    while True:
        state = fold.state()
        if state.open_turn is not None and not state.open_turn.finished:  # a finished turn need not be closed yet
            return False
        if state.kept is not None:
            if not tree.is_alive(state.kept.owner):
                return False
            limit_s = _CLOSING_S
        if registry.broker_serves_root(context.home):
            return False
        entry = queue.find(message.id)
        if entry is None or entry.box != "new":
            return False
        if is_free(paths.lock):
            return True
        if context.clock.monotonic() >= began + limit_s:
            return False
        yield _POLL_S
