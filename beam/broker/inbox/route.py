"""Routes a reply: into the queue of the message's sender, to the process that waits for it, or nowhere."""

from __future__ import annotations

from msgspec import UNSET

from beam.base.clock import rfc3339
from beam.base.errors import BeamError, CorruptError, DiskError
from beam.base.faults import crash_point
from beam.broker.inbox import failure, launch
from beam.broker.inbox.context import RootContext
from beam.model.events import TurnClosed, TurnFinished
from beam.model.message import Message, Payload, SessionContext, access_word, reply_id
from beam.model.outcome import Status
from beam.model.state import State
from beam.root import discovery
from beam.store.queue import Queue
from beam.store.segment import read_state

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
