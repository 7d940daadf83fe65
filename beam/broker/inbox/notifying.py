"""Puts notifications for a person into the spool of the root, and starts the process that delivers them.

Nothing here waits for a delivery, and no error here changes a turn: a notification that can't be stored is dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from beam.base.clock import rfc3339
from beam.base.errors import BeamError
from beam.model import events

if TYPE_CHECKING:
    from beam.broker.inbox.context import RootContext
    from beam.model.notification import Notification, NotifyTarget


def notify_ask(context: RootContext, asked: events.PermissionAsked) -> None:
    """Tell a person of an ask that waits for a decision."""
    if _targets(context):
        from beam.notify import occasions

        _run_safely(lambda: _put_into_spool(context, occasions.ask_notification(asked, str(context.home.project))))


def notify_end(
    context: RootContext,
    message_id: str,
    event: events.TurnFinished | events.MessageDead,
    *,
    is_last: Callable[[], bool],
) -> None:
    """Tell a person of a message that is over and, if no other message waits, of the idle agent. Idempotent.

    The holder calls this before it records that the message is closed. If the holder dies in between, the next holder
    calls this again.
    """
    if _targets(context):
        _run_safely(lambda: _notify_end(context, message_id, event, is_last))


def notify_budget(context: RootContext, key: str, *, agent: str, text: str) -> None:
    """Tell a person of a budget for several turns that is used up or nearly used up. `key` identifies the occasion: a
    repeated notification of the same occasion has the same key."""
    if _targets(context):
        from beam.notify import occasions

        now = rfc3339(context.clock.now_ns())
        _run_safely(
            lambda: _put_into_spool(
                context, occasions.budget_notification(key, now, agent, text, str(context.home.project))
            )
        )


def _notify_end(
    context: RootContext,
    message_id: str,
    event: events.TurnFinished | events.MessageDead,
    is_last: Callable[[], bool],
) -> None:
    from beam.notify import occasions

    project = str(context.home.project)
    if isinstance(event, events.MessageDead):
        found = occasions.dead_letter_notification(event, message_id, project)
    else:
        found = occasions.turn_notification(event, message_id, project)
    _put_into_spool(context, found, occasions.idle_notification(found) if is_last() else None)


def _targets(context: RootContext) -> list[NotifyTarget]:
    return [target for _, file in context.config.files for target in file.notify]


def _put_into_spool(context: RootContext, *notifications: Notification | None) -> None:
    """Put the notifications into the spool for each target that wants them, and start their delivery."""
    from beam.notify import spool

    is_new = False
    for notification in notifications:
        for target in _targets(context) if notification is not None else ():
            if notification is not None and target.wants(notification):
                is_new = spool.put(context.home.notify, target, notification) or is_new
    if is_new:
        start_delivery(context)


def start_delivery(context: RootContext) -> None:
    """Start the process that delivers notifications, if none runs. Raises DiskError."""
    from beam.broker.inbox import launch
    from beam.notify import spool
    from beam.store.lock import is_free

    if is_free(context.home.notify / spool.LOCK):
        log = context.home.notify / spool.LOG
        launch.start_module("beam.notify.deliver", [str(context.home.root)], context.home, context.environ, log=log)


def _run_safely(tell: Callable[[], None]) -> None:
    with contextlib.suppress(BeamError, OSError):
        tell()
