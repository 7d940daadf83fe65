"""What a new holder does first: ends what is left of the last one's turn, and brings every message file to where the
journal says.

By the last durable step of each message: nothing sent, or its agent was never started: back to its place; sent: nobody
knows; finished: closed; closed: put away. Each step can be cut short and done again.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

import msgspec

from beam.base import files
from beam.base.errors import CorruptError
from beam.base.faults import crash_point
from beam.broker import closing
from beam.broker.sender import Sender
from beam.model import events
from beam.model.events import TurnFinished
from beam.model.message import Message, SessionContext, access_word
from beam.model.outcome import Status, exit_code
from beam.model.state import CLOSED, DEAD, FINISHED, SENT, MessageRecord
from beam.process import tree
from beam.store import asks, control
from beam.store.journal import read_event
from beam.store.queue import Entry

if TYPE_CHECKING:
    from beam.broker.hold import Holder

_OLD_NS = 3600 * 1_000_000_000


def recover(holder: Holder) -> None:
    """Ends what is left of the last holder's turn, and brings every message file to where the journal says."""
    _recover(holder)
    turn = holder.state.open_turn
    asks.rebuild(holder.place.asks, turn.asks if turn is not None else {})


def _recover(holder: Holder) -> None:
    if holder.is_leased():
        return
    if not _end_kept(holder):
        return
    turn = holder.state.open_turn
    has_processes = turn is not None and not (turn.finished or turn.cleared) and turn.lease_until is None
    if turn is not None and has_processes and not _clean(holder, turn.turn_key, turn.owner, turn.processes):
        return
    if turn is not None:
        for ask_id in list(turn.asks):
            cancelled = events.PermissionCancelled(ask_id=ask_id, why="its holder died")
            holder.record(cancelled, turn=turn.turn, message_id=turn.message_id, sync=True)
    _drain(holder)
    holder.queue.sweep()
    control.sweep(holder.place.control, holder.context.clock.now_ns() - _OLD_NS)
    for entry in holder.queue.entries("cur"):
        message = holder.waiting.read(entry)
        if message is not None:
            _recover_claimed(holder, entry, message)
    shutil.rmtree(holder.context.home.turns_of(holder.place), ignore_errors=True)
    remove_words(holder)
    turn = holder.state.open_turn
    if turn is not None and turn.message_id is None:
        holder.record(events.TurnClosed(attempt=turn.attempt), turn=turn.turn, sync=True)
    _account(holder)


def _drain(holder: Holder) -> None:
    """Carries out what the agent of the dead holder's turn had asked for and nobody took yet."""
    turn = holder.state.open_turn
    entry = next((one for one in holder.queue.entries("cur") if turn is not None and one.id == turn.message_id), None)
    message = holder.waiting.read(entry) if entry is not None else None
    if turn is None or message is None or turn.lease_until is not None:
        return
    session = holder.state.session
    sender = Sender(
        agent=message.to,
        message=message,
        turn_key=turn.turn_key,
        at_most=access_word(turn.at_most),
        context=SessionContext(session_id=session.session_id if session else None, turn_number=turn.turn),
        folder=holder.context.base,
    )
    holder.outboxes.drain_left(sender)


def _end_kept(holder: Holder) -> bool:
    """Ends the terminal that the last holder kept, if it is still there; False if it can't be ended."""
    kept = holder.state.kept
    (holder.place.dir / "terminal.sock").unlink(missing_ok=True)
    if kept is None:
        return True
    if not _end_processes(holder, kept.turn_key, kept.owner, kept.processes):
        return False
    if holder.state.kept is not None:
        holder.record(events.AgentExited(pid=kept.pid, stopped_by="its holder went"), sync=True)
    return True


def _account(holder: Holder) -> None:
    """A message that the journal knows, without an outcome and without a file, was taken away by hand: that is its
    outcome, so that nobody waits for ever."""
    still_open = [key for key, known in holder.state.known.items() if known.phase not in (CLOSED, DEAD)]
    if not still_open:
        return
    here = holder.queue.ids("new") | holder.queue.ids("cur") | holder.queue.ids("dead")
    why = "its file was taken out of the queue by hand"
    for message_id in still_open:
        known = holder.state.known[message_id]
        if message_id in here:
            continue
        if known.phase == FINISHED:
            closed = events.TurnClosed(attempt=known.attempt, reply="dead", detail=why)
            holder.record(closed, message_id=message_id, sync=True)
            continue
        status = Status.UNKNOWN if known.phase == SENT else Status.FAILED
        dead = events.MessageDead(attempt=known.attempt, reason="gone", detail=why, status=status)
        holder.record(dead, message_id=message_id, sync=True)


def _clean(holder: Holder, turn_key: str, owner: events.Owner, processes: list[events.Owner]) -> bool:
    return owner == tree.this_process() or _end_processes(holder, turn_key, owner, processes)


def _end_processes(holder: Holder, turn_key: str, owner: events.Owner, processes: list[events.Owner]) -> bool:
    if tree.is_alive(owner) is None:
        where = f"host {owner.host or '?'} (pid {owner.pid})"
        _block(holder, f"its last turn ran on {where}, whose processes can't be seen from here")
        return False
    from beam.process.spawn import marker

    cleaned = tree.clean(marker(turn_key), processes)
    if cleaned.left:
        _block(holder, f"processes of its last turn can't be ended: {', '.join(map(str, cleaned.left))}")
        return False
    if holder.state.blocked:
        holder.record(events.Notice(code="unblocked", text="what blocked the agent is gone"))
    return True


def _block(holder: Holder, why: str) -> None:
    holder.blocked = why
    if holder.state.blocked != why:
        holder.record(events.Notice(code="blocked", text=why), sync=True)


def _recover_claimed(holder: Holder, entry: Entry, message: Message) -> None:
    known = holder.state.known.get(message.id)
    if known is not None and known.attempt < message.attempt:
        closing.requeue(holder, entry, message, reason="retry" if known.phase == FINISHED else "lease_over")
        return
    if known is None:
        holder.waiting.see(entry, message)
        known = holder.state.known[message.id]
    if known.attempt > message.attempt:
        holder.queue.remove(entry)
    elif known.phase == SENT and not _was_never_started(holder):
        _recover_sent(holder, entry, message, known)
    elif known.phase == FINISHED:
        closing.close(holder, entry, message, _finished(holder, known))
    elif known.phase == CLOSED:
        closing.archive(holder, entry, message, known)
    elif known.phase == DEAD:
        closing.finish_dead_letter(holder, entry, message, known)
    else:
        _back(holder, entry, message, known)


def _finished(holder: Holder, known: MessageRecord) -> TurnFinished:
    event = read_event(holder.place.journal, known.outcome_seq or 0)
    if not isinstance(event, TurnFinished):
        raise CorruptError(f"event {known.outcome_seq} of {holder.place.journal} is no outcome")
    return event


def _back(holder: Holder, entry: Entry, message: Message, known: MessageRecord) -> None:
    """Claimed, and its agent was not started: back to its place, up to three times."""
    deaths = holder.context.limits.deaths_before_prompt
    if known.deaths + 1 >= deaths:
        detail = f"holder died {deaths} times before the prompt was sent"
        closing.dead_letter(holder, entry, message, "holder_died", detail, tell=True)
        return
    holder.record(
        events.MessageRequeued(attempt=message.attempt, reason="holder_died"), message_id=message.id, sync=True
    )
    crash_point("requeue.recorded")
    holder.queue.move(entry, "new")
    crash_point("requeue.moved")


def _was_never_started(holder: Holder) -> bool:
    """Whether the guard of the open turn, which is gone now, left word that it never let the agent go."""
    turn = holder.state.open_turn
    return turn is not None and holder.place.unstarted(turn.turn_key).is_file()


def remove_words(holder: Holder) -> None:
    """Removes what guards left word of, where the journal says what came of it."""
    for name in files.names(holder.place.dir):
        if name.endswith(".unstarted"):
            with contextlib.suppress(OSError):
                (holder.place.dir / name).unlink()


def _recover_sent(holder: Holder, entry: Entry, message: Message, known: MessageRecord) -> None:
    turn = holder.state.open_turn
    if turn is not None and turn.lease_until is not None:
        _offer_again(holder, entry, message)
        return
    number = turn.turn if turn is not None else holder.state.turn
    finished = TurnFinished(
        attempt=message.attempt,
        status=Status.UNKNOWN,
        reason="its holder died after the prompt was sent; nobody knows what the agent did",
        session_id=holder.state.session.session_id if holder.state.session else None,
        via=turn.via if turn is not None else None,
        exit_code=exit_code(Status.UNKNOWN, None),
    )
    if turn is not None:
        for call_id in list(turn.tools):
            holder.record(events.ToolReturned(call_id=call_id, unfinished=True), turn=number, message_id=message.id)
    written = holder.record(finished, turn=number, message_id=message.id, sync=True)
    crash_point("finish.recorded")
    closing.close(holder, entry, message, written)


def _offer_again(holder: Holder, entry: Entry, message: Message) -> None:
    again = msgspec.structs.replace(message, attempt=message.attempt + 1)
    holder.queue.rewrite(entry, again)
    crash_point("offer.rewritten")
    closing.requeue(holder, entry, again, reason="lease_over")
