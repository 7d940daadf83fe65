"""The lease of an agent: the agent's lock, its running turn, the process that is kept between its turns, and the lock
of the session that this process uses.

Only the process that has an agent's lease claims the agent's messages, runs its turns and appends to its journal. That
process must also recover after the previous holder, answer requests, and start a worker at the end if a message still
waits (`beam.broker.holder.duty`). Does not depend on how turns run or how requests are answered.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from beam.base import files
from beam.base.digest import sha256
from beam.base.errors import BeamError, LimitError
from beam.broker.holder import recovery
from beam.broker.holder.calls import ForwardedCalls, RunningTurn
from beam.broker.inbox.context import RootContext
from beam.broker.inbox.log import AgentLog, Watcher, ignore_event
from beam.broker.inbox.outbox import Outboxes
from beam.broker.inbox.waiting import WaitingMessages
from beam.root import directories
from beam.root.paths import AgentPaths, state_dir
from beam.store import control, lanes
from beam.store.journal import Journal
from beam.store.lock import Lock, try_lock
from beam.store.reserve import Reserve
from beam.store.segment import Fold
from beam.turns.process import ProcessKeeper

if TYPE_CHECKING:
    from beam.broker.holder.room import Room


class KeptSessionLock:
    """The lock of the session that a kept process uses. The lock is held from turn to turn."""

    def __init__(self) -> None:
        self._session: tuple[str, str] | None = None  # adapter, session id
        self._lock = contextlib.ExitStack()

    def has(self, adapter: str, session_id: str) -> bool:
        """Return whether this object has the lock of that session."""
        return self._session == (adapter, session_id)

    def keep(self, adapter: str, session_id: str, lock: contextlib.ExitStack) -> None:
        """Keep the lock of this session, and release the lock of the previous session."""
        self._lock.close()
        self._session, self._lock = (adapter, session_id), lock

    def close(self) -> None:
        """Release the lock."""
        self._session = None
        self._lock.close()


class AgentLease:
    """The lease of one agent or lane. Get a lease with `acquire`; end it with `hand_over` or `close`.

    `blocked`: why the agent may run nothing; None if it is not blocked. `turn`: the running turn; None between turns.
    """

    def __init__(self, log: AgentLog, lock: Lock) -> None:
        self.log = log
        self.waiting = WaitingMessages(log)
        self.outboxes = Outboxes(log)
        self.keeper = ProcessKeeper(log.paths.dir, log.record, log.context.clock)
        self.kept_session = KeptSessionLock()
        self.room: Room | None = None  # its place among those that work, or wait until they may (`limits: agents`)
        self.blocked: str | None = None
        self.turn: RunningTurn | None = None
        self.calls = ForwardedCalls(log, self.keeper, lambda: self.turn)
        self.calls.on_answer = self.wake_turn
        self.closing: dict[str, str] = {}  # request id -> the answer to give when the kept process has ended
        self.is_wanted = False  # whether a command has to hold the agent itself for a moment
        self._lock = lock

    @classmethod
    def acquire(
        cls,
        context: RootContext,
        paths: AgentPaths,
        watcher: Watcher = ignore_event,
        fold: Fold | None = None,
        *,
        watched: str | None = None,
    ) -> AgentLease | None:
        """Take the agent's lock and recover after the previous holder; return None if another process has the lock.

        `watcher` is called with each event that is recorded from now on or, with `watched`, only with the events of the
        message with that id. `fold` has the part of the journal that the caller has read already. Raises DiskError,
        CorruptError.
        """
        directories.check_paths(context.home, paths)
        lock = try_lock(paths.lock)
        if lock is None:
            return None
        try:
            journal = Journal.open(
                paths.journal, paths.agent, context.clock, context.config.limits, Reserve(paths.reserve), fold
            )
        except BaseException:
            lock.release()
            raise
        lease = cls(AgentLog(context, paths, journal, watcher, watched), lock)
        try:
            lease.blocked = recovery.recover(lease.log)
        except BaseException:
            lease.close()
            raise
        return lease

    def hand_over(self) -> bool:
        """Close the lease, start a worker if a message or a request waits that it could handle, and workers for the
        agent's lanes whose own workers died. Return whether such a message or request waits.

        Raises DiskError if the system starts no more processes.
        """
        from beam.broker.inbox import launch

        self.close()
        is_left = self.has_runnable_work()
        if is_left:
            launch.start_worker(self.log.context, self.log.paths)
        launch.start_lane_workers(self.log.context, self.log.paths)
        return is_left

    def hand_over_after_turn(self) -> None:
        """Do what `hand_over` does, but raise no error if no worker can be started.

        The turn is over, and its outcome must reach the caller. What still waits then waits until another process
        checks the agent.
        """
        with contextlib.suppress(BeamError, OSError):
            self.hand_over()

    def has_runnable_work(self) -> bool:
        """Return whether a message or a request waits that a worker could handle, and the agent is not blocked. The
        answer also holds for a lease that is closed."""
        return self.blocked is None and self.has_waiting_work()

    def close(self) -> None:
        """Close the journal and release the lock. A kept process is killed; to let it quit, call `end_kept_process`
        first."""
        paths = self.log.paths
        self.keeper.drop()
        self.leave_room()
        self.outboxes.close()
        self.kept_session.close()
        if paths.lane is not None and self.blocked is None and self.log.state.is_over():
            lanes.remove_from_index(paths)
        self.log.journal.close()
        self._lock.release()

    def has_room(self, most: float) -> bool:
        """Return whether this holder may work now, if at most so many holders of the root may. If not, it has a place
        in their line until `leave_room`."""
        from beam.broker.holder.room import Room

        context = self.log.context
        self.room = self.room or Room(context.home.root / "locks" / "at-work", context.clock)
        return self.room.is_there(most)

    def leave_room(self) -> None:
        """Let the next holder of the root work."""
        if self.room is not None:
            self.room.leave()

    def has_waiting_work(self) -> bool:
        """Return whether a message or a request waits that a worker could handle."""
        if control.waiting_names(self.log.paths.control):
            return True
        if self.log.state.paused or self.log.context.is_mailbox(self.log.paths.agent):
            return False
        head = self.log.queue.first("new")
        return head is not None and self.waiting.why_waits_for_trust(head) is None

    def wake_turn(self) -> None:
        """Make the running turn, if there is one, handle its requests immediately."""
        if self.turn is not None and self.turn.news is not None:
            self.turn.news.set()

    def is_in_place(self) -> bool:
        """Return whether the lock file is still in place. It is not if the root was removed or replaced."""
        try:
            return self._lock.is_in_place()
        except OSError:
            return False

    # -- the kept process --------------------------------------------------------------------------------------------

    def why_kept_ends(self) -> str:
        """Return why the kept process has to end now; "" if it may stay, or there is none."""
        if self.keeper.process is None:
            return ""
        state = self.log.state
        if state.paused:
            return "its queue was paused"
        if not self.log.context.is_agent(self.log.paths.agent):
            return "the agent is not declared any more"
        return self.keeper.reason_to_end(state.session.session_id if state.session is not None else None)

    async def end_kept_process(self, why: str, *, hard: Callable[[], bool] = lambda: False) -> None:
        """Ask the kept process, if there is one, to quit, and wait until it is gone; kill it once `hard` returns
        True."""
        try:
            await self.keeper.end(why, hard=hard)
        finally:
            self.kept_session.close()


@contextlib.contextmanager
def session_lock(context: RootContext, adapter: str, session_id: str | None, *, scope: str = "") -> Iterator[None]:
    """Keep the session locked as long as the context lasts, so that no other process resumes it. If `session_id` is
    None, lock nothing. Raises LimitError if another process has the lock.

    `scope` separates sessions with the same id, for programs whose ids are not unique (such as ids that count from 1).
    """
    if session_id is None:
        yield
        return
    name = session_id
    if scope or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", session_id):
        name = sha256(f"{scope}\0{session_id}".encode("utf-8", "surrogatepass")).hexdigest()
    directory = state_dir(context.environ) / "sessions"
    files.make_directory(directory)
    lock = try_lock(directory / f"{adapter}-{name}")
    if lock is None:
        raise LimitError(
            f"{adapter} session {session_id} is in a turn of another root",
            "wait for it, or start your own: beam send --new",
            subject=session_id,
        )
    with lock:
        yield
