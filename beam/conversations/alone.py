"""Runs one message in this process instead of in a worker, because only this process has the recorded answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from beam.base.errors import SignalledError
from beam.broker.inbox.context import RootContext
from beam.conversations.held import HeldAgents, StopAll
from beam.model.events import Event
from beam.model.message import Message
from beam.model.outcome import Outcome
from beam.root.paths import AgentPaths
from beam.turns.signals import stop_on_signals


async def deliver_here(
    context: RootContext, paths: AgentPaths, message: Message, seen: Callable[[Event], None]
) -> Outcome:
    """Hold the agent, run the message in this process and return its outcome. `seen` is called with each event of the
    message. Raises UnfinishedError if another process holds the agent, SignalledError after a signal."""
    agents, stop = HeldAgents(context), StopAll()
    stop.reaches = agents.stop
    with stop_on_signals(stop, by="human (signal)") as came:
        await asyncio.sleep(0)
        try:
            outcome = await agents.deliver(message, paths, seen)
        finally:
            await agents.close()
    if came:
        raise SignalledError(came[0], outcome)
    return outcome
