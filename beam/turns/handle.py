"""The interface between a running turn and its lease: the turn's handle for the lease, and the lease's services for the
turn.

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
    """Do nothing, because there are no requests to handle at the end of the turn."""


class TurnServices(Struct, frozen=True, kw_only=True):
    """The services of a lease for its running turn. `record` writes the turn's events. `poll` handles control requests
    and the outbox: it is called ten times a second while the turn runs, and immediately when `news` is set. `poll_last`
    is called after the agent's end, before the turn's folders are removed and its outcome is recorded. `keeper` keeps
    the agent's process between turns."""

    record: Record
    clock: Clock
    poll: Callable[[], None]
    news: asyncio.Event | None = None
    poll_last: Callable[[], Awaitable[None]] = _no_last_poll
    keeper: ProcessKeeper | None = None


class TurnHandle(Struct, frozen=True, kw_only=True):
    """A running turn, for code that stops it, decides its asks, or forwards requests to its process."""

    stop: Stop
    asks: Asks
    calls: AgentCalls
