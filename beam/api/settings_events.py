"""Records in an agent's journal that a command changed the agent's settings: who changed them, and the new values.

A journal has one writer at a time. If this process gets the agent's lock, it writes; otherwise it sends a request to
the agent's holder and does not wait. The change is already in agent.json, so a failure to record it undoes nothing.
"""

from __future__ import annotations

import contextlib

import msgspec

from beam.base.clock import rfc3339
from beam.base.errors import BeamError
from beam.broker.asking.follow import held_briefly
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.model.message import new_id
from beam.model.settings import AgentSettings
from beam.root.paths import AgentPaths
from beam.store import control
from beam.store.control import ControlRequest
from beam.store.journal import Journal
from beam.store.lock import try_lock

_EXPIRES_NS = 30 * 86_400 * 1_000_000_000


def differences(before: AgentSettings, after: AgentSettings) -> dict[str, str | None]:
    """Return the new value of each changed setting as JSON text; None for a setting that has its default value now.

    Variables are listed by name without their values, which may be secrets.
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


def record_changes(context: RootContext, paths: AgentPaths, changes: dict[str, str | None], *, by: str) -> None:
    """Record the changes in the agent's journal, now or as soon as its holder handles the request."""
    if not changes:
        return
    with contextlib.suppress(BeamError):
        lock = try_lock(paths.lock)
        if lock is None:
            _request_recording(context, paths, changes, by=by)
            return
        with (
            held_briefly(context, paths, lock),
            contextlib.closing(
                Journal.open(paths.journal, paths.agent, context.clock, context.config.limits)
            ) as journal,
        ):
            journal.append(events.SettingsChanged(changes=changes, by=by), sync=True)


def _request_recording(context: RootContext, paths: AgentPaths, changes: dict[str, str | None], *, by: str) -> None:
    now = context.clock.now_ns()
    wish = ControlRequest(
        id=new_id(paths.agent, now, context.clock.random(4)),
        verb="settings",
        sender=by,
        timestamp=rfc3339(now),
        expires=rfc3339(now + _EXPIRES_NS),
        text=msgspec.json.encode(changes).decode(),
    )
    control.publish(paths.control, wish)
