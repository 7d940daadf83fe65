"""Waits as a sender while another process holds the agent: until that process takes the sender's message or releases
the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from beam.broker.holder import registry
from beam.store.lock import is_free
from beam.store.queue import Queue

if TYPE_CHECKING:
    from beam.base.clock import Steps
    from beam.broker.inbox.context import RootContext
    from beam.model.message import Message
    from beam.root.paths import AgentPaths

_CLOSING_S = 6.0  # a process that is asked to quit has four seconds
_MOMENT_S = 0.5  # in this time, a holder without a kept process claims a message or releases the agent
_POLL_S = 0.02


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
