"""Keeps the starts of turns of one account apart (`pace`), also those of `--once` messages, which run at once.

CLIs of one login that start at the same moment may refresh its token twice, and lose it. One file in this user's state
directory has the time of the account's last start. Does not depend on how a turn is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam.base import files
from beam.base.clock import parse_rfc3339, rfc3339
from beam.base.errors import DiskError
from beam.broker.inbox.usage_limit import account_file
from beam.store.lock import short_lock

if TYPE_CHECKING:
    from pathlib import Path

    from beam.broker.inbox.context import RootContext
    from beam.model.settings import AgentSettings

_NS = 1_000_000_000


def pause_s(context: RootContext, settings: AgentSettings, pace: float) -> float:
    """Return the seconds until a turn of an agent with these settings may start (0: now)."""
    return _remaining_s(_started(context, settings), pace, context.clock.now_ns())


def begin(context: RootContext, settings: AgentSettings, pace: float) -> bool:
    """Record that a turn of an agent with these settings starts now. Return whether it may: False if another process
    started one a moment ago. Raises DiskError."""
    path = _started(context, settings)
    files.make_directory(path.parent)
    with short_lock(path.with_suffix(".lock")):
        now_ns = context.clock.now_ns()
        if _remaining_s(path, pace, now_ns) > 0:
            return False
        files.replace(path, f"{rfc3339(now_ns)}\n".encode())
    return True


def _started(context: RootContext, settings: AgentSettings) -> Path:
    return account_file(context, settings, ".started")


def _remaining_s(path: Path, pace: float, now_ns: int) -> float:
    """Return for how long the pace still lasts after the recorded start. A start in the future is of a clock that was
    set back since."""
    try:
        started_ns = parse_rfc3339(files.read(path, 64).decode().strip())
    except (OSError, DiskError, ValueError):
        return 0.0
    return max(0.0, started_ns / _NS + pace - now_ns / _NS) if started_ns <= now_ns else 0.0
