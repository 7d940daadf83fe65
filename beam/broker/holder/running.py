"""The turn that runs under a lease, for code that stops it, decides its asks, or forwards requests to its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from beam.turns.asks import Asks
    from beam.turns.handle import Stop, TurnHandle


class RunningTurn:
    """The turn that runs under a lease. `handle` is None until its agent is started."""

    def __init__(self, message_id: str, stop: Stop) -> None:
        self.message_id = message_id
        self.stop = stop
        self.handle: TurnHandle | None = None
        self.news: asyncio.Event | None = None  # set when a request came

    @property
    def asks(self) -> Asks | None:
        """Return the asks of the turn; None before its agent is started."""
        return self.handle.asks if self.handle is not None else None
