"""Ends a message: routes its reply (into the queue of the message's sender, to the process that waits for it, or
nowhere), and closes it, requeues it, or makes it a dead letter.

After each function, the message's file is in the directory that the journal implies. Each function is idempotent:
recovery calls it again after a crash.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from msgspec import UNSET

from beam.base.clock import rfc3339
from beam.base.errors import BeamError, CorruptError, DiskError
from beam.base.faults import crash_point
from beam.broker.inbox import failure, fallback, launch, usage_limit
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.model.events import TurnClosed, TurnFinished
from beam.model.message import Message, Payload, SessionContext, access_word, reply_id
from beam.model.outcome import Class, Status, Verdict
from beam.model.state import CLOSED, MessageRecord, State
from beam.root import discovery
from beam.store.queue import Entry, Queue
from beam.store.segment import read_event, read_state

if TYPE_CHECKING:
    from beam.broker.inbox.log import AgentLog


_ANSWERED_STATUSES = frozenset({Status.COMPLETED, Status.TRUNCATED, Status.REFUSED, Status.DENIED})
_END_DECORATION = " \t\r\n.*_`\"'"  # characters that models put around a word


def route_reply(context: RootContext, message: Message, finished: TurnFinished, state: State) -> TurnClosed:
    """Deliver the reply and return the `turn.closed` event for it. Idempotent. Raises DiskError."""
    if message.reply == "wait":
        return TurnClosed(attempt=finished.attempt, reply="waited", to=message.sender)
    if message.reply != "queue":
        detail = "the exchange is over" if message.type == "reply" else ""
        return TurnClosed(attempt=finished.attempt, reply="none", detail=detail)
    to = message.sender
    if message.type == "reply" and finished.turn is None and not context.is_agent(message.to):
        detail = f"a reply to {message.to}, which is gone, is not answered"
        return TurnClosed(attempt=finished.attempt, reply="dead", to=to, detail=detail)
    if not context.is_agent(to) and to not in context.home.agents():
        return TurnClosed(attempt=finished.attempt, reply="dead", to=to, detail=f"no agent is called {to}")
    answer = reply_message(context, message, finished, state)
    if answer is None:
        detail = "it said END" if (finished.reply or "").strip() else "nothing was said"
        return TurnClosed(attempt=finished.attempt, reply="none", to=to, detail=detail)
    try:
        put_and_run(context, answer)
        why_dead = _why_dead(context, answer)
    except CorruptError as error:
        why_dead = f"it can't be delivered: {error.message}"
    except DiskError:
        raise
    except BeamError as error:
        why_dead = error.message
    if why_dead is not None:
        return TurnClosed(attempt=finished.attempt, reply="dead", to=to, reply_id=answer.id, detail=why_dead)
    return TurnClosed(attempt=finished.attempt, reply="queued", to=to, reply_id=answer.id)


def _why_dead(context: RootContext, answer: Message) -> str | None:
    """Return, as text, why this reply will become a dead letter at its receiver; None if it will not."""
    if not context.is_agent(answer.to):
        return f"no agent is called {answer.to} any more"
    if answer.hops > context.config.limits.hops:
        return f"{answer.hops} hops in thread {answer.thread}: over the limit of {context.config.limits.hops}"
    used_up = failure.budget_used_up(context, answer)
    if used_up is not None:
        return f"the budget is used up: {used_up}"
    if (
        answer.for_session is not None
        and answer.for_session in read_state(context.agent_paths(answer.to).journal).archived
    ):
        return f"it answers session {answer.for_session}, which was archived"
    return None


def reply_message(context: RootContext, message: Message, finished: TurnFinished, state: State) -> Message | None:
    """Return the reply as a message to the sender; None if its text is empty, or only END. If the turn has no answer,
    the message reports that, and the exchange ends with it."""
    answered = finished.status in _ANSWERED_STATUSES
    text = finished.reply or ""
    if answered and text.strip(_END_DECORATION) in ("", "END"):
        return None
    left = (context.config.limits.replies if message.replies is None else message.replies) - 1
    if not answered:
        what = finished.status if finished.class_ is None else f"{finished.status} ({finished.class_})"
        text = f"[beam] {message.to} did not answer {message.id}: {what}: {finished.reason or 'no reason given'}"
    return Message(
        id=reply_id(message.sender, message.id, message.attempt),
        timestamp=rfc3339(context.clock.now_ns()),
        sender=message.to,
        to=message.sender,
        type="reply",
        payload=Payload(text=text),
        session_context=SessionContext(
            session_id=state.session.session_id if state.session else None, turn_number=finished.turn
        ),
        reply_to=message.id,
        reply="queue" if answered and left > 0 else "none",
        replies=max(left, 0),
        thread=message.thread,
        hops=message.hops + 1,
        for_session=message.session_context.session_id,
        at_most=access_word(finished.at_most),
        rules_at_most=None if finished.rules is UNSET else finished.rules,
        spent=message.spent.plus(finished.cost_usd) if finished.turn is not None else message.spent,
    )


def put_and_run(context: RootContext, message: Message) -> None:
    """Put a message with a deterministic id into its receiver's queue, and make sure that it runs. Idempotent.

    If no process can be started for the message, it waits until another process checks its receiver.
    """
    paths = context.agent_paths(message.to)
    discovery.create(context.home, paths)
    queue = Queue(paths.queue, paths.put_lock)
    queue.put(
        message,
        context.clock,
        context.config.limits,
        exempt=True,
        known=lambda: message.id in read_state(paths.journal).known,
    )
    crash_point("route.put")
    entry = queue.find(message.id)
    if entry is not None and entry.box == "new":
        launch.try_ensure_worker(context, paths)
    crash_point("route.told")


DROPPED = "dropped"  # the reason of a message that a person took out of its queue
# A message that ended with one of these statuses is given up. Its file is kept in dead/ for `beam queue retry`.
GIVEN_UP_STATUSES = frozenset({Status.FAILED, Status.TIMEOUT, Status.UNKNOWN, Status.LIMIT})


def close_message(log: AgentLog, entry: Entry, message: Message, finished: TurnFinished) -> None:
    """Route the reply, record that the message is closed, and remove its file or move it to `dead/`. Then begin a new
    segment of the journal if one is due. If the policy retries the message, requeue it instead."""
    failure.count_cost(log.context, message, finished)
    policy, who = log.context.config.policy, log.paths.agent
    if finished.stand_in is not UNSET:
        who = finished.stand_in.agent
    if usage_limit.is_waited_for(policy, finished):
        usage_limit.record(log.context, who, finished, usage_limit.next_try(message, finished))
    place = fallback.next_stand_in(log, message, finished)
    if place is not None:
        stood_in = fallback.passed_on(message, finished, place)
        log.queue.rewrite(entry, stood_in)
        crash_point("offer.rewritten")
        requeue(log, entry, stood_in, reason="fallback")
        return
    retried = failure.next_attempt(policy, message, finished) or fallback.after_all(log, message, finished)
    if retried is not None:
        log.queue.rewrite(entry, retried[0])
        crash_point("offer.rewritten")
        requeue(log, entry, retried[0], reason=why_retried(log, finished), not_before=retried[1])
        return
    usage_limit.forget(log.context, who, finished)
    crash_point("route.before")
    closed = route_reply(log.context, message, finished, log.state)
    launch.notify_end(log.context, message.id, finished, is_last=log.is_last)
    crash_point("close.before")
    log.record(closed, turn=finished.turn, message_id=message.id, sync=True)
    crash_point("close.recorded")
    clear_closed_message(log, entry, message, log.state.known[message.id])
    log.journal.rotate_if_due()


def why_retried(log: AgentLog, finished: TurnFinished) -> str:
    """Return the reason for the next attempt of a message that ended so, if its own agent makes it."""
    is_limited = usage_limit.is_waited_for(log.context.config.policy, finished) or finished.stand_in is not UNSET
    return "usage_limit" if is_limited else "retry"


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
    _remove(log, entry)


def _remove(log: AgentLog, entry: Entry) -> None:
    crash_point("remove.before")
    log.queue.remove(entry)
    log.checked.discard(entry)
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
    """Give up a message that did not run: record that, notify the person, and move the message's file to `dead/`. If a
    person dropped it, remove its file instead, and notify nobody. With `tell`, a sender that wants a reply gets one
    that reports the failure."""
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
    """Finish an interrupted `dead_letter`: the journal has the dead letter, but the file is still where it was."""
    dead = read_event(log.paths.journal, known.outcome_seq or 0)
    _complete_dead_letter(log, entry, message, dead if isinstance(dead, events.MessageDead) else None)


def _complete_dead_letter(log: AgentLog, entry: Entry, message: Message, dead: events.MessageDead | None) -> None:
    if dead is not None and dead.tell:
        verdict = Verdict(status=dead.status, class_=dead.class_, reason=dead.detail)
        finished = events.turn_finished(verdict, attempt=dead.attempt)
        closed = route_reply(log.context, message, finished, log.state)
        if closed.reply == "dead":
            log.record(events.Notice(code="reply_dead", text=closed.detail), message_id=message.id)
    if dead is not None and dead.reason == DROPPED:
        _remove(log, entry)
        return
    if dead is not None:
        launch.notify_end(log.context, message.id, dead, is_last=log.is_last)
    move_to_dead(log, entry)


def move_to_dead(log: AgentLog, entry: Entry) -> None:
    """Move the file of a recorded dead letter to `dead/`."""
    with contextlib.suppress(FileNotFoundError):
        log.queue.move(entry, "dead")
    log.checked.discard(entry)
    crash_point("dead.moved")
