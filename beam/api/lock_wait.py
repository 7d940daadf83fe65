"""Waits a moment for an agent's lock or lease that another process holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Acquired = TypeVar("Acquired")
_TIMEOUT_S = 1.0
_RETRY_S = 0.02


def wait_for_lock(acquire: Callable[[], Acquired | None]) -> Acquired | None:
    """Acquire a lock or lease by calling `acquire`. If another process has it, repeat for one second, because some
    processes hold a lock only briefly, such as a waiting sender that checks the queue. Return None if that does not
    help."""
    until = time.monotonic() + _TIMEOUT_S
    while (taken := acquire()) is None and time.monotonic() < until:
        time.sleep(_RETRY_S)
    return taken
