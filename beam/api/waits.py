"""Waits for several messages at the same time, and for a state of agents."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Literal, TypeVar, get_args

from beam.api import find
from beam.base.clock import Steps
from beam.base.errors import DiskError, NotFoundError, UnfinishedError, UsageError
from beam.broker.asking.follow import is_just_sent
from beam.broker.inbox.context import RootContext
from beam.model.events import MessageDead, MessageRequeued, Notice, TurnClosed, TurnFinished, outcome_of
from beam.model.outcome import Outcome
from beam.model.state import REMOVED_CODE
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.store.reader import Reader
from beam.store.segment import read_state

AwaitedState = Literal["idle", "asking", "finished"]
R = TypeVar("R")

_POLL_S = 0.1
_TAKE_OVER_S = 2.0  # how often this makes sure that somebody runs the queue


def run_waits(
    waits: Sequence[Steps[R]], *, only_first: bool, ended: Callable[[int, R], None]
) -> Generator[float, None, None]:
    """Run all these waits concurrently: yield how long to sleep (seconds), and call `ended` with the index and the
    result of each wait that ends.

    With `only_first`, abandon the other waits as soon as one has ended. Raises the first error of a wait.
    """
    left = dict(enumerate(waits))
    while left:
        pause = 60.0
        for paths, steps in list(left.items()):
            try:
                pause = min(pause, next(steps))
            except StopIteration as done:
                del left[paths]
                ended(paths, done.value)
                if only_first:
                    return
        if left:
            yield pause


def wait_for_state(
    context: RootContext, paths: AgentPaths, until: AwaitedState, *, timeout: float | None, looks_only: bool
) -> Steps[Outcome | None]:
    """Wait until the agent, including its `--once` messages, is in the state `until`.

    `idle`: no turn runs and no message waits. `asking`: a permission request waits for a person. `finished`: a turn has
    ended since the call. Return that turn's outcome for `finished`, else None. Raises UnfinishedError after `timeout`
    seconds, UsageError for an unknown state, NotFoundError if the agent is removed meanwhile.
    """
    if until not in get_args(AwaitedState):
        raise UsageError(
            f"--until {until}: unknown state", f"use one of {', '.join(get_args(AwaitedState))}", subject=until
        )
    clock, had_files = context.clock, paths.dir.is_dir()
    ended = _TurnEnds(paths) if until == "finished" else None
    journal = Reader(paths.journal, _last_seq(paths) if until == "idle" else 0)
    began = clock.monotonic()
    served = began
    while True:
        if had_files and not paths.dir.is_dir():
            raise _removed_error(paths)
        if ended is not None:
            outcome = ended.first_outcome()
            if outcome is not None:
                return outcome
        elif until == "idle" and is_idle(paths):
            if _is_removed(journal):
                raise _removed_error(paths)
            return None
        elif until == "asking" and _is_asking(paths):
            return None
        now = clock.monotonic()
        if timeout is not None and now - began >= timeout:
            raise UnfinishedError(
                f"{paths.agent} is not {until} after {timeout:g} s; nothing was stopped",
                f"beam status {paths.agent}",
                subject=paths.agent,
            )
        if now - served >= _TAKE_OVER_S and not looks_only and not context.is_mailbox(paths.agent):
            served = now
            from beam.broker.holder.duty import ensure_running

            for lane in _paths_with_lanes(paths):
                entry = find.queue_of(lane).first("new")
                if entry is not None and not is_just_sent(context, lane, entry):
                    ensure_running(context, lane)
        yield _POLL_S


def _paths_with_lanes(paths: AgentPaths) -> list[AgentPaths]:
    return [paths, *lanes.indexed_lanes(paths)]


def is_idle(paths: AgentPaths) -> bool:
    """Return whether the agent, including its `--once` messages, has no waiting and no running message. The waiting
    messages are checked first, because one may be claimed meanwhile."""
    return not any(find.queue_of(each).first(box) for each in _paths_with_lanes(paths) for box in ("new", "cur"))


def _last_seq(paths: AgentPaths) -> int:
    try:
        return read_state(paths.journal).seq
    except DiskError:
        return 0  # it is damaged; whoever runs the agent says so


def _is_removed(journal: Reader) -> bool:
    """Return whether the agent's messages were given up meanwhile because the agent is being removed."""
    try:
        return any(isinstance(event, Notice) and event.code == REMOVED_CODE for event in journal.poll())
    except DiskError:
        return False  # its files are being removed; the next check sees that


def _removed_error(paths: AgentPaths) -> NotFoundError:
    return NotFoundError(f"{paths.agent} was removed", "beam agent list", subject=paths.agent)


def _is_asking(paths: AgentPaths) -> bool:
    return any(read_state(each.journal).activity == "waiting" for each in _paths_with_lanes(paths))


class _TurnEnds:
    """Finds the turns of an agent that end from now on, including those of its `--once` messages."""

    def __init__(self, paths: AgentPaths) -> None:
        self._paths = paths
        self._journals = {
            each.dir: Reader(each.journal, read_state(each.journal).seq) for each in _paths_with_lanes(paths)
        }
        self._over = {lane.dir for lane in paths.lanes()} - set(self._journals)
        self._finished: dict[Path, TurnFinished] = {}  # turns that are not closed yet, by the directory of the lane

    def first_outcome(self) -> Outcome | None:
        """Return the outcome of the first turn that has ended; None if no turn has ended yet."""
        for each in (self._paths, *self._paths.lanes()):
            if each.dir not in self._over:
                outcome = self._next_outcome_in(each)
                if outcome is not None:
                    return outcome
        return None

    def _next_outcome_in(self, paths: AgentPaths) -> Outcome | None:
        """Return the outcome of the next turn in this journal whose message is over. A turn whose message is tried
        again is skipped, and so is the end of a message that had no turn."""
        journal = self._journals.setdefault(paths.dir, Reader(paths.journal))
        for event in journal.poll():
            if isinstance(event, TurnFinished):
                if event.turn is not None and event.message_id is not None:
                    self._finished[paths.dir] = event
            elif isinstance(event, TurnClosed | MessageDead | MessageRequeued):
                finished = self._finished.get(paths.dir)
                if finished is None or finished.message_id != event.message_id:
                    continue
                if not isinstance(event, MessageRequeued):
                    return outcome_of(finished, str(paths.agent_dir))
                del self._finished[paths.dir]
        return None
