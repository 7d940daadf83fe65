"""Waits for a message's outcome by reading the journal, and makes sure that some process runs the message."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import takewhile

from beam.base import files
from beam.base.clock import Steps
from beam.base.errors import CorruptError, DiskError, NotFoundError, UnfinishedError
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.model.events import AnyEvent, Event
from beam.model.outcome import Outcome
from beam.model.state import CLOSED, DEAD, MessageRecord, State, apply
from beam.root.paths import AgentPaths
from beam.store import control
from beam.store.lock import Lock
from beam.store.queue import Entry, Queue
from beam.store.reader import Reader
from beam.store.segment import GONE_KIND, read_event, read_state

_POLL_S = 0.02
_TAKE_OVER_S = 0.5
_LONGEST_PAUSE_S = 8.0
_MAX_LOOKS = 25  # half a second in all
_SENDER_START_S = 5.0  # how long only the sender starts a worker, so that the worker has the sender's environment
_MAX_STARTS = 7  # half a minute in all, with the growing pauses


def outcome_in(paths: AgentPaths, state: State, message_id: str) -> Outcome | None:
    """Return the message's outcome. Return None as long as the message is neither closed nor a dead letter."""
    known = state.known.get(message_id)
    if known is None or known.phase not in (CLOSED, DEAD) or known.outcome_seq is None:
        return None
    return events.outcome_of(_outcome_event(paths, known, message_id), str(paths.agent_dir))


def _outcome_event(
    paths: AgentPaths, known: MessageRecord, message_id: str
) -> events.TurnFinished | events.MessageDead:
    """Return the event that has the message's outcome. Raises NotFoundError if `doctor --gc` removed the event, or if
    the agent was removed with all its messages. (A journal remembers a message for longer than its outcome.)"""
    try:
        event = read_event(paths.journal, known.outcome_seq or 0)
    except DiskError as error:
        if error.kind != GONE_KIND:
            raise
        _find_known_entry(paths, message_id)
        raise NotFoundError(
            f"{message_id} ended ({known.status}), but its outcome was removed with old parts of the journal",
            "beam doctor --gc keeps what is younger than --older-than",
            subject=message_id,
        ) from error
    if not isinstance(event, events.TurnFinished | events.MessageDead):
        raise CorruptError(f"event {known.outcome_seq} of {paths.journal} is not an outcome")
    return event


def replay_outcome(paths: AgentPaths, state: State, message_id: str, seen: Callable[[Event], None]) -> Outcome | None:
    """Return the message's outcome, and call `seen` with the event that has it. Return None if there is none yet."""
    outcome = outcome_in(paths, state, message_id)
    if outcome is not None:
        seen(_outcome_event(paths, state.known[message_id], message_id))
    return outcome


def follow(
    context: RootContext,
    paths: AgentPaths,
    message_id: str,
    *,
    seen: Callable[[Event], None],
    timeout: float | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
    after_seq: int | None = None,
    looks_only: bool = False,
    is_sender: bool = True,
) -> Steps[Outcome | None]:
    """Wait until the message has an outcome and its file has left `cur/`, and return the outcome. Return None as soon
    as `is_wanted` returns False. `seen` is called with each new event of the message; with `after_seq`, also with its
    earlier events after the event of that number.

    At most twice a second, this process checks whether the message still exists and, unless `looks_only`, whether some
    process holds the agent. If none does, this process takes one step itself and starts a worker. Without `is_sender`,
    a message that was sent a few seconds ago is left for its sender's worker, which runs it in the sender's
    environment.

    Raises UnfinishedError after `timeout` seconds, if the agent is blocked, or if its workers keep ending without a
    result; the message itself is not stopped then. Raises NotFoundError if the agent was removed with all its messages.
    """
    with not_found_if_removed(paths, message_id):
        outcome = yield from _follow(
            context,
            paths,
            message_id,
            seen=seen,
            timeout=timeout,
            is_wanted=is_wanted,
            after_seq=after_seq,
            looks_only=looks_only,
            is_sender=is_sender,
        )
    if outcome is not None:
        yield from _wait_until_moved(paths, message_id)
    return outcome


def _follow(
    context: RootContext,
    paths: AgentPaths,
    message_id: str,
    *,
    seen: Callable[[Event], None],
    timeout: float | None,
    is_wanted: Callable[[], bool],
    after_seq: int | None,
    looks_only: bool,
    is_sender: bool,
) -> Steps[Outcome | None]:
    state = read_state(paths.journal)
    if after_seq is None and (outcome := replay_outcome(paths, state, message_id, seen)) is not None:
        return outcome
    reader = Reader(paths.journal, state.seq if after_seq is None else after_seq)
    for event in reader.poll() if after_seq is not None else ():  # a turn of a kept process may be over by now
        if event.seq > state.seq:
            apply(state, event)
        if event.message_id == message_id:
            seen(event)
    began = context.clock.monotonic()
    pause, starts = _TAKE_OVER_S, 0
    looked_at = began - pause
    while True:
        now = context.clock.monotonic()
        outcome = outcome_in(paths, state, message_id)
        if outcome is not None:
            return outcome
        if not is_wanted():
            return None
        if timeout is not None and now - began >= timeout:
            raise UnfinishedError(
                f"{message_id} is not finished after {timeout:g} s; nothing was stopped",
                f"beam wait {message_id}",
                subject=message_id,
            )
        if now - looked_at >= pause:
            looked_at = now
            entry = _find_known_entry(paths, message_id, state.places.get(message_id))
            if looks_only or (not is_sender and entry is not None and is_just_sent(context, paths, entry)):
                continue
            from beam.broker.holder.duty import ensure_running  # not needed for a finished message

            if ensure_running(context, paths, message_id):
                pause, starts = min(2 * pause, _LONGEST_PAUSE_S), starts + 1
            if starts > _MAX_STARTS:
                raise UnfinishedError(
                    f"{starts} workers of {paths.agent} ended without running a message",
                    f"see {paths.log}",
                    subject=message_id,
                    kind="stalled",
                )
        new: list[AnyEvent] = reader.poll()
        for event in new:
            if event.seq > state.seq:
                apply(state, event)
            if event.message_id == message_id:
                seen(event)
        if new:
            pause, starts = _TAKE_OVER_S, 0
        else:
            yield _POLL_S


def _wait_until_moved(paths: AgentPaths, message_id: str) -> Steps[None]:
    """Wait until the holder has moved the message's file out of `cur/`. The holder does that just after it has recorded
    the message's end in the journal.

    Gives up after half a second: if the holder died in between, the next holder moves the file.
    """
    queue = Queue(paths.queue, paths.put_lock)
    with contextlib.suppress(DiskError):  # the outcome is known all the same
        for _ in range(_MAX_LOOKS):
            if queue.find_in("cur", message_id) is None:
                return
            yield _POLL_S


def is_just_sent(context: RootContext, paths: AgentPaths, entry: Entry) -> bool:
    """Return whether the message waits and is so new that the worker of its sender may still be starting."""
    if entry.box != "new" or context.is_mailbox(paths.agent):
        return False
    try:
        came_ns = Queue(paths.queue, paths.put_lock).path(entry).lstat().st_mtime_ns
    except OSError:  # it was taken just now
        return True
    return 0 <= context.clock.now_ns() - came_ns < _SENDER_START_S * 1e9


@contextlib.contextmanager
def held_briefly(context: RootContext, paths: AgentPaths, lock: Lock) -> Iterator[None]:
    """Hold the agent's lock inside the context and release it at the end. Then start a worker if it could handle a
    message or a request that was published meanwhile or a few seconds before.

    Its sender relies on that: the lock may have made the sender start no worker, or made the sender's worker give up.
    Older messages wait for another reason.
    """
    settled: set[str] = set()
    try:
        with lock:
            settled = _waiting_names(paths) - _just_sent_names(context, paths)
            yield
    finally:
        new = _waiting_names(paths) - settled
        if new and (not new.isdisjoint(control.waiting_names(paths.control)) or _may_run(paths)):
            from beam.broker.inbox import launch

            launch.ensure_worker(context, paths)


def _waiting_names(paths: AgentPaths) -> set[str]:
    """Return the names of the messages and requests that wait for the agent's holder."""
    return {*files.names(paths.queue / "new"), *control.waiting_names(paths.control)}


def _just_sent_names(context: RootContext, paths: AgentPaths) -> set[str]:
    newest_first = reversed(Queue(paths.queue, paths.put_lock).entries("new"))
    return {entry.name for entry in takewhile(lambda entry: is_just_sent(context, paths, entry), newest_first)}


def _may_run(paths: AgentPaths) -> bool:
    state = read_state(paths.journal)
    return not state.paused and state.blocked is None


def _find_known_entry(paths: AgentPaths, message_id: str, position: int | None = None) -> Entry | None:
    """Return the message's entry in the queue; None if only the journal still knows the message. Raise NotFoundError if
    neither the queue nor the journal has the message any more, or if it is a dead letter that the journal forgot."""
    entry = Queue(paths.queue, paths.put_lock).find(message_id, position)
    if entry is None:
        if message_id in read_state(paths.journal).known:
            return None
        raise NotFoundError(
            f"{message_id} is gone: {paths.agent} was removed with all its messages",
            "nothing will answer it; if it was not begun, send it to another agent",
            subject=message_id,
        )
    if entry.box == "dead" and message_id not in read_state(paths.journal).known:  # it is recorded before it is moved
        raise forgotten_error(message_id)
    return entry


def forgotten_error(message_id: str) -> NotFoundError:
    """Return the error for a dead letter that ended so long ago that the journal forgot its outcome."""
    return NotFoundError(
        f"{message_id} is a dead letter; it ended so long ago that its outcome is no longer known",
        f"beam queue retry {message_id} runs it again, beam queue drop {message_id} removes it",
        subject=message_id,
    )


@contextlib.contextmanager
def not_found_if_removed(paths: AgentPaths, message_id: str) -> Iterator[None]:
    """Raise NotFoundError in place of a DiskError from inside the context, if the message was removed together with all
    files of its agent."""
    try:
        yield
    except DiskError:
        with contextlib.suppress(DiskError):  # the first one says more
            _find_known_entry(paths, message_id)
        raise
