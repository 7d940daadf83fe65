"""Closes a message after routing its reply, requeues it, or makes it a dead letter.

After each function, the message's file is in the directory that the journal implies. Each function is idempotent:
recovery calls it again after a crash.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from beam.base.faults import crash_point
from beam.broker.inbox import failure, notifying, route
from beam.model import events
from beam.model.events import TurnFinished
from beam.model.message import Message
from beam.model.outcome import Class, Status, Verdict
from beam.model.state import CLOSED, MessageRecord
from beam.store.queue import Entry
from beam.store.segment import read_event

if TYPE_CHECKING:
    from beam.broker.inbox.log import AgentLog

# A message that ended with one of these statuses is given up. Its file is kept in dead/ for `beam queue retry`.
GIVEN_UP_STATUSES = frozenset({Status.FAILED, Status.TIMEOUT, Status.UNKNOWN, Status.LIMIT})


def close_message(log: AgentLog, entry: Entry, message: Message, finished: TurnFinished) -> None:
    """Route the reply, record that the message is closed, and remove its file or move it to `dead/`. Then begin a new
    segment of the journal if one is due. If the policy retries the message, requeue it instead."""
    failure.count_cost(log.context, message, finished)
    retried = failure.next_attempt(log.context.config.policy, message, finished)
    if retried is not None:
        log.queue.rewrite(entry, retried[0])
        crash_point("offer.rewritten")
        requeue(log, entry, retried[0], reason="retry", not_before=retried[1])
        return
    crash_point("route.before")
    closed = route.route_reply(log.context, message, finished, log.state)
    notifying.notify_end(log.context, message.id, finished, is_last=log.is_last)
    crash_point("close.before")
    log.record(closed, turn=finished.turn, message_id=message.id, sync=True)
    crash_point("close.recorded")
    clear_closed_message(log, entry, message, log.state.known[message.id])
    log.journal.rotate_if_due()


def requeue(log: AgentLog, entry: Entry, message: Message, *, reason: str, not_before: str | None = None) -> None:
    """Record that the message is requeued, and move its file to `new/`. The file must already have the attempt number
    with which the message will run."""
    log.record(
        events.MessageRequeued(attempt=message.attempt, reason=reason, not_before=not_before),
        message_id=message.id,
        sync=True,
    )
    crash_point("offer.recorded")
    log.queue.move(entry, "new")
    crash_point("requeue.moved")


def clear_closed_message(log: AgentLog, entry: Entry, message: Message, known: MessageRecord) -> None:
    """Remove the file of a closed message. If the message failed (see `GIVEN_UP_STATUSES`), record it as a dead letter
    and move its file to `dead/` instead."""
    if known.status in GIVEN_UP_STATUSES and known.phase == CLOSED:
        status = known.status
        log.record(
            events.MessageDead(attempt=message.attempt, reason=status.value, status=status),
            message_id=message.id,
            sync=True,
        )
        crash_point("dead.recorded")
        move_to_dead(log, entry)
        return
    crash_point("remove.before")
    log.queue.remove(entry)
    crash_point("removed")


def dead_letter(
    log: AgentLog,
    entry: Entry,
    message: Message,
    reason: str,
    detail: str,
    *,
    status: Status = Status.FAILED,
    class_: Class | None = None,
    tell: bool = False,
) -> None:
    """Move a message that did not run to the dead letters: record that, notify the person, and move the message's file
    to `dead/`. With `tell`, a sender that wants a reply gets one that reports the failure."""
    dead = log.record(
        events.MessageDead(
            attempt=message.attempt,
            reason=reason,
            detail=detail,
            status=status,
            class_=class_,
            file=entry.name,
            tell=tell,
        ),
        message_id=message.id,
        sync=True,
    )
    crash_point("dead.recorded")
    _complete_dead_letter(log, entry, message, dead)


def resume_dead_letter(log: AgentLog, entry: Entry, message: Message, known: MessageRecord) -> None:
    """Finish an interrupted `dead_letter`: the journal has the dead letter, but the file is not in `dead/` yet."""
    dead = read_event(log.paths.journal, known.outcome_seq or 0)
    _complete_dead_letter(log, entry, message, dead if isinstance(dead, events.MessageDead) else None)


def _complete_dead_letter(log: AgentLog, entry: Entry, message: Message, dead: events.MessageDead | None) -> None:
    if dead is not None and dead.tell:
        verdict = Verdict(status=dead.status, class_=dead.class_, reason=dead.detail)
        finished = events.turn_finished(verdict, attempt=dead.attempt)
        closed = route.route_reply(log.context, message, finished, log.state)
        if closed.reply == "dead":
            log.record(events.Notice(code="reply_dead", text=closed.detail), message_id=message.id)
    if dead is not None and dead.reason != "dropped":  # the person who dropped it need not be notified
        notifying.notify_end(log.context, message.id, dead, is_last=log.is_last)
    move_to_dead(log, entry)


def move_to_dead(log: AgentLog, entry: Entry) -> None:
    """Move the file of a recorded dead letter to `dead/`."""
    with contextlib.suppress(FileNotFoundError):
        log.queue.move(entry, "dead")
    log.checked.discard(entry)
    crash_point("dead.moved")
