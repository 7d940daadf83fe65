"""Tells the journal of an agent that a command changed its settings: who, and to what.

The journal has one writer: this process where it gets the agent's lock, else whoever has it, by a request that nobody
waits for. The change itself is in agent.json already, so what can't be told takes nothing back.
"""

from __future__ import annotations

import contextlib

import msgspec

from beam.base.clock import rfc3339
from beam.base.errors import BeamError
from beam.broker.context import RootContext
from beam.model import events
from beam.model.message import new_id
from beam.model.settings import AgentSettings
from beam.root.paths import AgentPaths
from beam.store import control
from beam.store.control import Control
from beam.store.journal import Journal
from beam.store.lock import try_lock

_EXPIRES_NS = 30 * 86_400 * 1_000_000_000


def differences(before: AgentSettings, after: AgentSettings) -> dict[str, str | None]:
    """Return the new value of each setting that differs, as JSON text; null for one that is at its default now.

    Variables are named one by one, and without their values, which may be keys.
    """
    found: dict[str, str | None] = {}
    default = AgentSettings()
    for name in after.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if name == "env":
            changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
            found |= {f"env.{key}": '"…"' if key in new else None for key in changed}
        elif old != new:
            found[name] = None if new == getattr(default, name) else msgspec.json.encode(new).decode()
    return found


def tell(context: RootContext, paths: AgentPaths, changes: dict[str, str | None], *, by: str) -> None:
    """Record the changes in the agent's journal, now or as soon as its holder looks."""
    if not changes:
        return
    with contextlib.suppress(BeamError):
        lock = try_lock(paths.lock)
        if lock is None:
            _ask(context, paths, changes, by=by)
            return
        with lock:
            journal = Journal.open(paths.journal, paths.agent, context.clock, context.config.limits)
            try:
                journal.append(events.SettingsChanged(changes=changes, by=by), sync=True)
            finally:
                journal.close()


def _ask(context: RootContext, paths: AgentPaths, changes: dict[str, str | None], *, by: str) -> None:
    now = context.clock.now_ns()
    wish = Control(
        id=new_id(paths.agent, now, context.clock.random(4)),
        verb="settings",
        sender=by,
        timestamp=rfc3339(now),
        expires=rfc3339(now + _EXPIRES_NS),
        text=msgspec.json.encode(changes).decode(),
    )
    control.publish(paths.control, wish)
