"""The wish that a turn end: who has it and why. The turn looks at it; signals, clocks and control requests make it."""

from __future__ import annotations

import asyncio
from typing import Literal

Reason = Literal["timeout", "idle", "cancelled", "interrupted", "retries", "broken"]


class Stop:
    """Nobody wants the turn to end, until somebody does. The first reason counts; a second wish means "at once"."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self.by: str | None = None
        self.hard = False
        self._wake = asyncio.Event()

    def ask(self, reason: Reason, *, by: str | None = None) -> None:
        """End the turn politely; asked again, at once."""
        if self.reason is None:
            self.reason, self.by = reason, by
        elif reason in ("interrupted", "cancelled"):
            self.hard = True
        self._wake.set()

    async def wait(self, timeout: float) -> None:
        """Return after `timeout` seconds, or sooner if there is a new wish."""
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
