"""How a message leaves a holder: its reply routed and its turn closed, offered again, or given up on.

Each function ends with the message's file where the journal says it is; each can be cut short and done again.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from beam.base.faults import crash_point
from beam.broker import failure, route
from beam.model import events
from beam.model.events import TurnFinished
from beam.model.message import Message
from beam.model.outcome import Class, Status
from beam.model.state import CLOSED, MessageRecord
from beam.store.journal import read_event
from beam.store.queue import Entry

if TYPE_CHECKING:
    from beam.broker.log import AgentLog

# A message that ended like this is given up on, and kept in dead/ for `beam queue retry`.
GIVEN_UP = frozenset({Status.FAILED, Status.TIMEOUT, Status.UNKNOWN, Status.LIMIT})


def close(log: AgentLog, entry: Entry, message: Message, finished: TurnFinished) -> None:
    """Routes the reply, says that all is done, and puts the file away; then a new segment begins if it is time. What
    the policy wants tried again goes back to its place instead."""
    failure.count_cost(log.context, message, finished)
    again = failure.next_attempt(log.context.policy, message, finished)
    if again is not None:
        log.queue.rewrite(entry, again[0])
        crash_point("offer.rewritten")
        requeue(log, entry, again[0], reason="retry", not_before=again[1])
        return
    crash_point("route.before")
    closed = route.reply(log.context, message, finished, log.state)
    crash_point("close.before")
    log.record(closed, turn=finished.turn, message_id=message.id, sync=True)
    crash_point("close.recorded")
    archive(log, entry, message, log.state.known[message.id])
    log.journal.rotate_if_due()


def requeue(log: AgentLog, entry: Entry, message: Message, *, reason: str, not_before: str | None = None) -> None:
    """Back to its place as the next attempt, which its file says already."""
    log.record(
        events.MessageRequeued(attempt=message.attempt, reason=reason, not_before=not_before),
        message_id=message.id,
        sync=True,
    )
    crash_point("offer.recorded")
    log.queue.move(entry, "new")
    crash_point("requeue.moved")


def archive(log: AgentLog, entry: Entry, message: Message, known: MessageRecord) -> None:
    """The file of a closed message goes: into `dead/` if it is given up on, which the journal says first."""
    if known.status in GIVEN_UP and known.phase == CLOSED:
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
    """Gives the message up, before any turn: said in the journal, then to an agent that counts on a reply (`tell`),
    then its file goes to dead/."""
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
    _finish_burial(log, entry, message, dead)


def finish_dead_letter(log: AgentLog, entry: Entry, message: Message, known: MessageRecord) -> None:
    """Does what is left to do for a message that the journal calls dead, and whose file is not in dead/ yet."""
    dead = read_event(log.place.journal, known.outcome_seq or 0)
    _finish_burial(log, entry, message, dead if isinstance(dead, events.MessageDead) else None)


def _finish_burial(log: AgentLog, entry: Entry, message: Message, dead: events.MessageDead | None) -> None:
    if dead is not None and dead.tell:
        told = TurnFinished(attempt=dead.attempt, status=dead.status, class_=dead.class_, reason=dead.detail)
        closed = route.reply(log.context, message, told, log.state)
        if closed.reply == "dead":
            log.record(events.Notice(code="reply_dead", text=closed.detail), message_id=message.id)
    move_to_dead(log, entry)


def move_to_dead(log: AgentLog, entry: Entry) -> None:
    """The file of a message that the journal calls dead is in `dead/`."""
    with contextlib.suppress(FileNotFoundError):
        log.queue.move(entry, "dead")
    log.forget(entry)
    crash_point("dead.moved")
