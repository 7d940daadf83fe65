"""Makes notifications from events. All functions are pure: each takes an event and returns a notification."""

from __future__ import annotations

from beam.base.typed_values import one_line
from beam.model import events
from beam.model.notification import Notification
from beam.model.outcome import Status
from beam.secrets.redact import redact_beginning

_TEXT_LENGTH = 200  # characters of a reason or of what an agent asks for
_REPLY_LENGTH = 2000
_DONE_STATUSES = frozenset({Status.COMPLETED})


def ask_notification(asked: events.PermissionAsked, project: str) -> Notification | None:
    """Return the notification about a permission request that waits for a person; None if beam decides the request
    immediately."""
    if asked.expires is None:
        return None
    about = _line(asked.description)
    text = f"{asked.agent} asks to use {_line(asked.tool)}" + (f": {about}" if about else "")
    return Notification(
        id=f"ask-{asked.ask_id}",
        event="ask",
        at=asked.ts,
        agent=asked.agent,
        project=project,
        text=f"{text} (beam approve {asked.ask_id}, or beam deny {asked.ask_id})",
        message_id=asked.message_id,
        turn=asked.turn,
        ask_id=asked.ask_id,
        tool=_line(asked.tool),
        expires=asked.expires,
    )


def turn_notification(finished: events.TurnFinished, message_id: str, project: str) -> Notification:
    """Return the notification about a message whose turn is over and that will not be tried again."""
    done, limit = finished.status in _DONE_STATUSES, finished.status is Status.LIMIT
    word = "is done" if done else "reached a limit" if limit else f"ended {finished.status.value}"
    reason = _line(finished.reason or "")
    return Notification(
        id=f"turn-{message_id}-{finished.attempt}",
        event="finished" if done else "budget" if limit else "failed",
        at=finished.ts,
        agent=finished.agent,
        project=project,
        text=f"{finished.agent} {word}" + (f": {reason}" if reason and not done else ""),
        message_id=message_id,
        turn=finished.turn,
        status=finished.status.value,
        class_=finished.class_.value if finished.class_ else None,
        cost_usd=finished.cost_usd,
        reply=redact_beginning(finished.reply or "", _REPLY_LENGTH) or None,
    )


def dead_letter_notification(dead: events.MessageDead, message_id: str, project: str) -> Notification:
    """Return the notification about a message that became a dead letter before any turn."""
    detail = _line(dead.detail or dead.reason)
    return Notification(
        id=f"dead-{message_id}-{dead.attempt}",
        event="budget" if dead.reason == "budget" or dead.status is Status.LIMIT else "failed",
        at=dead.ts,
        agent=dead.agent,
        project=project,
        text=f"a message to {dead.agent} was given up: {detail}",
        message_id=message_id,
        status=dead.status.value,
        class_=dead.class_.value if dead.class_ else None,
    )


def budget_notification(key: str, at: str, agent: str, text: str, project: str) -> Notification:
    """Return the notification about a budget that several turns share. `agent` is the agent whose turn runs."""
    return Notification(id=f"budget-{key}", event="budget", at=at, agent=agent, project=project, text=_line(text))


def idle_notification(after: Notification) -> Notification:
    """Return the notification that the agent's queue is empty; `after` is the notification of its last message."""
    return Notification(
        id=f"idle-{after.id}",
        event="idle",
        at=after.at,
        agent=after.agent,
        project=after.project,
        text=f"{after.agent} is idle: nothing waits in its queue",
        message_id=after.message_id,
    )


def _line(text: str) -> str:
    """Return the text as one line without secrets and control characters, cut to 200 characters."""
    beginning = redact_beginning(text, 4 * _TEXT_LENGTH)
    words = "".join(character if character.isprintable() else " " for character in beginning)
    return one_line(words, _TEXT_LENGTH)
