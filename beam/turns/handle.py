"""A running turn as others see it: the handle that its lease gives to whoever may use it, and what the turn in its turn
needs of the lease.

Does not depend on queues, locks or faces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from beam.base.clock import Clock
from beam.turns.asks import Asks
from beam.turns.calls import AgentCalls
from beam.turns.keeper import ProcessKeeper
from beam.turns.request import Record
from beam.turns.stop import Stop


async def _no_last_poll() -> None:
    """Do nothing: there are no requests to handle at the end of the turn."""


class TurnServices(Struct, frozen=True, kw_only=True):
    """What a turn needs of the lease that runs it. `record` writes the turn's events. `poll` is called ten times a
    second while the turn runs (control requests, the outbox), and at once when `news` is set; `poll_last` when the
    agent is over, before its folders go and the outcome is known. `keeper` has the agent's process between turns, where
    one may stay."""

    record: Record
    clock: Clock
    poll: Callable[[], None]
    news: asyncio.Event | None = None
    poll_last: Callable[[], Awaitable[None]] = _no_last_poll
    keeper: ProcessKeeper | None = None


class TurnHandle(Struct, frozen=True, kw_only=True):
    """A running turn for whoever may stop it, decide what its agent asks for, or have a request for its process."""

    stop: Stop
    asks: Asks
    calls: AgentCalls
