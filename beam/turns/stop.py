"""A request to stop a turn, with its reason. Signals, timeouts and control requests make it; the turn checks it."""

from __future__ import annotations

import asyncio
from typing import Literal

Reason = Literal["timeout", "idle", "cancelled", "interrupted", "retries", "broken", "budget", "unmatched"]


class Stop:
    """A request to stop, which may come at any time. The first reason counts. A second request by a person or a signal
    means "immediately"."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self.by: str | None = None
        self.why = ""  # of a budget that is used up, or a model call that was not recorded
        self.hard = False
        self._wake = asyncio.Event()

    def ask(self, reason: Reason, *, by: str | None = None, why: str = "") -> None:
        """End the turn politely. A later call with the reason `interrupted` or `cancelled` ends it immediately."""
        if self.reason is None:
            self.reason, self.by, self.why = reason, by, why
        elif reason in ("interrupted", "cancelled"):
            self.hard = True
        self._wake.set()

    async def wait(self, timeout: float) -> None:
        """Wait for `timeout` seconds, or until a new request comes."""
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
