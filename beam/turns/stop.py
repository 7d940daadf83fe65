"""A request to stop a turn, with its reason. Signals, timeouts and control requests make it; the turn checks it."""

from __future__ import annotations

import asyncio
from typing import Literal

StopReason = Literal["timeout", "idle", "cancelled", "interrupted", "retries", "broken", "budget", "unmatched"]


class Stop:
    """A request to stop, which may come at any time. The first reason counts. A second request by a person or a signal
    means "immediately"."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.by: str | None = None
        self.why = ""  # which budget is used up, or which model call was not recorded
        self.hard = False
        self._wake = asyncio.Event()

    def request(self, reason: StopReason, *, by: str | None = None, why: str = "") -> None:
        """Ask the turn to end. A later call with the reason `interrupted` or `cancelled` ends it immediately."""
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
