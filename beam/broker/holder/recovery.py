"""Recovers an agent after its last holder: ends the processes of the last turn, and moves each message's file to the
directory that the journal implies.

What happens to a claimed message depends on its last durable step. If its prompt was not sent, or its agent was never
started, the message is requeued. If its prompt was sent, its outcome is recorded as unknown. A message with an outcome
is closed. The file of a closed message is removed. Each step is idempotent.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from beam.base import files
from beam.base.directory_tree import remove_tree
from beam.base.errors import BeamError, CorruptError, DiskError
from beam.base.faults import crash_point
from beam.broker.inbox import closing, standing
from beam.broker.inbox.context import Sender
from beam.broker.inbox.outbox import Outboxes
from beam.broker.inbox.waiting import WaitingMessages
from beam.model import events
from beam.model.events import TurnFinished
from beam.model.message import Message, SessionContext, access_word
from beam.model.outcome import Status, Verdict
from beam.model.state import CLOSED, DEAD, DIED_REASON, FINISHED, SENT, MessageRecord
from beam.process import tree
from beam.store import control
from beam.store.queue import Entry
from beam.store.segment import read_event

if TYPE_CHECKING:
    from beam.broker.inbox.log import AgentLog

_OLD_NS = 3600 * 1_000_000_000
_FEW_MESSAGES = 20  # so many messages are looked for one by one, by their names


def recover(log: AgentLog) -> str | None:
    """End the processes of the last holder's turn, and move every message's file to the directory that the journal
    implies. Idempotent.

    Return why the agent is blocked if processes of that turn can't be ended, else None. Raises DiskError, CorruptError.
    """
    blocked = _recover(log)
    turn = log.state.open_turn
    control.rebuild_ask_files(log.paths.asks, turn.asks if turn is not None else {})
    return blocked


def _recover(log: AgentLog) -> str | None:
    if log.has_lent_message():
        return None
    blocked = _end_kept_process(log)
    if blocked is not None:
        return blocked
    turn = log.state.open_turn
    has_processes = turn is not None and not (turn.finished or turn.cleared) and turn.lease_until is None
    if turn is not None and has_processes and turn.owner != tree.this_process():
        blocked = _end_processes(log, turn.turn_key, turn.owner, turn.processes)
        if blocked is not None:
            return blocked
    if turn is not None:
        for ask_id in list(turn.asks):
            cancelled = events.PermissionDecided(ask_id=ask_id, decision="cancelled", why="its holder died")
            log.record(cancelled, turn=turn.turn, message_id=turn.message_id, sync=True)
    try:
        _drain_outbox(log)
    except (DiskError, CorruptError):
        raise
    except Exception as error:  # noqa: BLE001 - what an agent left must not keep its messages from being recovered
        said = f"the requests that its last turn left can't be carried out ({type(error).__name__})"
        log.record(events.Notice(code="bad_request", text=said))
    log.queue.sweep()
    control.sweep(log.paths.control, log.context.clock.now_ns() - _OLD_NS)
    for entry in log.queue.entries("cur"):
        message = WaitingMessages(log).read(entry)
        if message is not None:
            _recover_claimed(log, entry, message)
    remove_tree(log.context.home.turns_of(log.paths), ignore_errors=True)
    remove_unstarted_notes(log)
    turn = log.state.open_turn
    if turn is not None and turn.message_id is None:
        log.record(events.TurnClosed(attempt=turn.attempt), turn=turn.turn, sync=True)
    _close_messages_without_file(log)
    return None


def _drain_outbox(log: AgentLog) -> None:
    """Carry out the requests that the dead holder's turn left in its outbox."""
    turn = log.state.open_turn
    if turn is None or turn.lease_until is not None:
        return
    entry = next((one for one in log.queue.entries("cur") if one.id == turn.message_id), None)
    message = WaitingMessages(log).read(entry) if entry is not None else None
    if message is None:
        return
    session = log.state.session
    sender = Sender(
        agent=message.to,
        message=message,
        turn_key=turn.turn_key,
        at_most=access_word(turn.at_most),
        rules=turn.rules,
        context=SessionContext(session_id=session.session_id if session else None, turn_number=turn.turn),
        folder=_folder_of(log, message, turn.turn_key),
    )
    Outboxes(log).drain_leftovers(sender)


def _folder_of(log: AgentLog, message: Message, turn_key: str) -> Path:
    """Return the agent's own folder, from which it may attach files. If its settings are invalid now or need trust,
    return the directory of the turn, because the agent could have changed them."""
    try:
        check = standing.check_for_message(log.context, message)
    except BeamError:
        return log.context.home.turns_of(log.paths) / turn_key
    if check.standing.refusal is not None:
        return log.context.home.turns_of(log.paths) / turn_key
    return Path(os.path.realpath(log.context.home.project / (check.resolved.settings.cwd or "")))


def _end_kept_process(log: AgentLog) -> str | None:
    """End the process that the last holder kept, if it still runs; return why it can't be ended, else None."""
    kept = log.state.kept
    (log.paths.dir / "terminal.sock").unlink(missing_ok=True)
    for name in files.names(log.paths.dir):
        if name.endswith(".typing"):  # left by a viewer whose keys the last holder no longer read
            with contextlib.suppress(OSError):
                (log.paths.dir / name).unlink()
    if kept is None:
        return None
    blocked = _end_processes(log, kept.turn_key, kept.owner, kept.processes)
    if blocked is None and log.state.kept is not None:
        log.record(events.AgentExited(pid=kept.pid, stopped_by="its holder went"), sync=True)
    return blocked


def _close_messages_without_file(log: AgentLog) -> None:
    """Close each message that is open in the journal but has no file in the queue, so that nobody waits forever.
    (Somebody removed the file by hand.) A message without an outcome becomes a dead letter."""
    still_open = [key for key, known in log.state.known.items() if known.phase not in (CLOSED, DEAD)]
    if not still_open:
        return
    if len(still_open) <= _FEW_MESSAGES:  # this is cheap, however many unrecorded messages wait
        still_open = [key for key in still_open if not _has_file_in_place(log, key)]
        if not still_open:
            return
    here = log.queue.ids("new") | log.queue.ids("cur") | log.queue.ids("dead")
    why = "its file was taken out of the queue by hand"
    for message_id in still_open:
        known = log.state.known[message_id]
        if message_id in here:
            continue
        if known.phase == FINISHED:
            closed = events.TurnClosed(attempt=known.attempt, reply="dead", detail=why)
            log.record(closed, message_id=message_id, sync=True)
            continue
        status = Status.UNKNOWN if known.phase == SENT else Status.FAILED
        dead = events.MessageDead(attempt=known.attempt, reason="gone", detail=why, status=status)
        log.record(dead, message_id=message_id, sync=True)


def _has_file_in_place(log: AgentLog, message_id: str) -> bool:
    position = log.state.places.get(message_id)
    return position is not None and log.queue.find_by_name(message_id, position) is not None


def _end_processes(log: AgentLog, turn_key: str, owner: events.Owner, processes: list[events.Owner]) -> str | None:
    """End the processes of a turn; return why the agent is blocked if some can't be ended, else None."""
    if tree.is_alive(owner) is None:
        where = f"host {owner.host or '?'} (pid {owner.pid})"
        return _block(log, f"its last turn ran on {where}, whose processes can't be seen from here")
    from beam.process.spawn import marker_name

    cleaned = tree.end_processes(marker_name(turn_key), processes)
    if cleaned.left:
        return _block(log, f"processes of its last turn can't be ended: {', '.join(map(str, cleaned.left))}")
    if log.state.blocked:
        log.record(events.Notice(code="unblocked", text="what blocked the agent is gone"))
    return None


def _block(log: AgentLog, why: str) -> str:
    if log.state.blocked != why:
        log.record(events.Notice(code="blocked", text=why), sync=True)
    return why


def _recover_claimed(log: AgentLog, entry: Entry, message: Message) -> None:
    known = log.state.known.get(message.id)
    if known is not None and known.attempt < message.attempt:
        is_retried = known.phase == FINISHED
        why = closing.why_retried(log, _read_finished(log, known)) if is_retried else "lease_over"
        why = "fallback" if is_retried and message.fallback else why
        closing.requeue(log, entry, message, reason=why)
        return
    if known is None:
        WaitingMessages(log).record_queued(entry, message)
        known = log.state.known[message.id]
    if known.attempt > message.attempt:
        log.queue.remove(entry)
    elif known.phase == SENT and not _was_never_started(log):
        _recover_sent(log, entry, message, known)
    elif known.phase == FINISHED:
        closing.close_message(log, entry, message, _read_finished(log, known))
    elif known.phase == CLOSED:
        closing.clear_closed_message(log, entry, message, known)
    elif known.phase == DEAD:
        closing.resume_dead_letter(log, entry, message, known)
    else:
        _requeue_unsent(log, entry, message, known)


def _read_finished(log: AgentLog, known: MessageRecord) -> TurnFinished:
    event = read_event(log.paths.journal, known.outcome_seq or 0)
    if not isinstance(event, TurnFinished):
        raise CorruptError(f"event {known.outcome_seq} of {log.paths.journal} is not an outcome")
    return event


def _requeue_unsent(log: AgentLog, entry: Entry, message: Message, known: MessageRecord) -> None:
    """Requeue a claimed message whose agent was not started. If too many holders have died before the prompt was sent,
    make the message a dead letter instead."""
    deaths = log.context.config.limits.deaths_before_prompt
    if known.deaths + 1 >= deaths:
        detail = f"holder died {deaths} times before the prompt was sent"
        closing.dead_letter(log, entry, message, DIED_REASON, detail, tell=True)
        return
    log.record(events.MessageRequeued(attempt=message.attempt, reason=DIED_REASON), message_id=message.id, sync=True)
    crash_point("requeue.recorded")
    log.queue.move(entry, "new")
    crash_point("requeue.moved")


def _was_never_started(log: AgentLog) -> bool:
    """Return whether the guard of the open turn left a note that the agent was never started."""
    turn = log.state.open_turn
    return turn is not None and log.paths.unstarted_note(turn.turn_key).is_file()


def remove_unstarted_notes(log: AgentLog) -> None:
    """Remove the notes in which guards report that an agent was never started. Call this when recovery no longer needs
    the notes."""
    for name in files.names(log.paths.dir):
        if name.endswith(".unstarted"):
            with contextlib.suppress(OSError):
                (log.paths.dir / name).unlink()


def _recover_sent(log: AgentLog, entry: Entry, message: Message, known: MessageRecord) -> None:
    turn = log.state.open_turn
    if turn is not None and turn.lease_until is not None:
        _offer_again(log, entry, message)
        return
    number = turn.turn if turn is not None else log.state.turn
    verdict = Verdict(
        status=Status.UNKNOWN,
        reason="its holder died after the prompt was sent; nobody knows what the agent did",
        session_id=log.state.session.session_id if log.state.session else None,
    )
    via = turn.via if turn is not None else None
    finished = events.turn_finished(verdict, attempt=message.attempt, via=via)
    if turn is not None:
        for call_id in list(turn.tools):
            log.record(events.ToolReturned(call_id=call_id, unfinished=True), turn=number, message_id=message.id)
    written = log.record(finished, turn=number, message_id=message.id, sync=True)
    crash_point("finish.recorded")
    closing.close_message(log, entry, message, written)


def _offer_again(log: AgentLog, entry: Entry, message: Message) -> None:
    retried = msgspec.structs.replace(message, attempt=message.attempt + 1)
    log.queue.rewrite(entry, retried)
    crash_point("offer.rewritten")
    closing.requeue(log, entry, retried, reason="lease_over")
