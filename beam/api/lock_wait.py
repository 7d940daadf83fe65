"""Acquires an agent's lock or lease that another process holds: waits a moment, or asks the broker to release it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from beam.base.clock import Steps
from beam.base.errors import UnfinishedError
from beam.broker.inbox.context import RootContext
from beam.root import discovery
from beam.root.paths import AgentPaths
from beam.store.lock import Lock, try_lock

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


def acquire_agent_lock(context: RootContext, paths: AgentPaths, *, by: str) -> Steps[Lock]:
    """Acquire the agent's lock; if a broker holds it, ask the broker to release it. Raises UnfinishedError while a turn
    holds the lock."""
    from beam.broker.asking.requests import request
    from beam.broker.holder.registry import running_broker

    lock = try_lock(paths.lock)
    if lock is None and running_broker(context.home) is not None and paths.dir.is_dir():
        yield from request(context, paths, "release", by=by)
    lock = lock or wait_for_lock(lambda: try_lock(paths.lock))
    if lock is None:
        raise in_turn_error(paths)
    return lock


def lock_new_agent(context: RootContext, paths: AgentPaths, *, by: str) -> Steps[Lock]:
    """Acquire the lock of an agent that is about to be made, before it has directories: a broker takes each agent that
    has some, and looks into it. If directories of that name are there already, ask the broker to release the agent.

    Raises UnfinishedError if another process uses the name.
    """
    discovery.create(context.home)
    try:
        return (yield from acquire_agent_lock(context, paths, by=by))
    except UnfinishedError as error:
        raise UnfinishedError(
            f"another process uses {paths.agent} at this moment", "give the agent another name", subject=paths.agent
        ) from error


def in_turn_error(paths: AgentPaths) -> UnfinishedError:
    """Return the error for an agent that another process holds."""
    return UnfinishedError(f"{paths.agent} is in a turn", "wait for it, or interrupt it", subject=paths.agent)
