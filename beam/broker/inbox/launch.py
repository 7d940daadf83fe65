"""Starts detached processes: workers, which run the waiting messages of one agent, also for `--once` messages whose
worker died; and the process that delivers notifications for a person, which are put into the spool of the root before.

Every lane (the queue of one `--once` message) has its own worker. If that worker dies, no other process opens the lane
by itself. So unfinished lanes are searched for by every process that releases an agent, by every worker that ends, and
by the broker. Nothing here waits for a delivery, and no error of it changes a turn: a notification that can't be stored
is dropped. Does not depend on what these processes do.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from beam.base import files, own_program
from beam.base.clock import rfc3339
from beam.base.errors import BeamError
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.root.paths import AgentPaths, RootPaths
from beam.store import lanes
from beam.store.lock import is_free, is_held
from beam.store.queue import Queue
from beam.store.segment import read_state

if TYPE_CHECKING:
    from beam.broker.inbox.context import RootContext
    from beam.model.notification import Notification, NotifyTarget


_LOG_BYTES = 256 * 1024

served_roots: set[Path] = set()  # the roots that a broker in this process serves, including their new agents


def ensure_worker(context: RootContext, paths: AgentPaths) -> None:
    """Make sure that some process runs the waiting messages: start a worker if no process has the agent's lock.

    A process that has the lock checks the queue again after releasing the lock. A broker in this process takes the
    agent itself. A mailbox needs no worker, because `beam recv` takes its messages. A lane always gets a worker,
    because its lock may be held only for a brief check.
    """
    if context.is_mailbox(paths.agent):
        return
    if paths.lane is not None or (is_free(paths.lock) and context.home.root not in served_roots):
        start_worker(context, paths)


def try_ensure_worker(context: RootContext, paths: AgentPaths) -> str:
    """Do what `ensure_worker` does for messages that are already in the queue. If no process could be started, return
    why; else "".

    The messages then wait until another process checks the agent. The caller must not report them as not sent, because
    their sender would send them again.
    """
    try:
        ensure_worker(context, paths)
    except (BeamError, OSError) as error:
        return str(error)
    return ""


def start_worker(context: RootContext, paths: AgentPaths) -> None:
    """Start a worker for the agent or lane, detached from this process and its terminal."""
    start_worker_process(context.home, paths, context.environ)


def start_worker_process(home: RootPaths, paths: AgentPaths, environ: Mapping[str, str]) -> None:
    """Start the process of a worker for the agent or lane. Its stderr goes to the agent's worker.log.

    Raises DiskError if the system starts no more processes.
    """
    words = [str(home.root), paths.agent, *([paths.lane] if paths.lane is not None else [])]
    start_module("beam.broker.serving.worker", words, home, environ, log=paths.log)


def start_module(module: str, words: list[str], home: RootPaths, environ: Mapping[str, str], *, log: Path) -> None:
    """Start a module of beam as a detached process in the project folder. The process gets `words` as its arguments.
    Its stderr is appended to `log`, which is emptied first if it is large.

    Raises DiskError if the system starts no more processes.
    """
    import subprocess

    from beam.process import tree

    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with files.disk_action("open", log):
        if log.exists() and log.stat().st_size > _LOG_BYTES:
            mode |= os.O_TRUNC
        stderr = files.open_stream(log, mode)
    argv, options = own_program.command(module, *words, environ=environ)
    try:
        with files.disk_action("start a process in", home.project):
            started = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=home.project,
                start_new_session=True,
                **options,
            )
    finally:
        os.close(stderr)
    tree.spared_pids.add(started.pid)
    started.returncode = 0  # it may outlive this process on purpose
    with contextlib.suppress(RuntimeError):  # without a thread, the process becomes a zombie when it ends
        threading.Thread(target=_reap, args=(started.pid,), daemon=True).start()


def _reap(pid: int) -> None:
    """Wait for the end of this child process, so that it leaves no zombie process if it ends before this process."""
    from beam.process import tree

    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    tree.spared_pids.discard(pid)


OWN_WORKER_S = 2.0  # how long a new lane is left to the worker that was started for it
_MAX_WORKERS = 4  # workers that are started for stranded lanes; each drains one lane after the other
_RETRY_S = 5.0


def stranded_lanes(agent: AgentPaths) -> Iterator[AgentPaths]:
    """Yield the agent's unfinished lanes that no process holds, the oldest first.

    A finished lane is removed from the index: its holder died after the lane's last message had ended, and before it
    removed the lane.
    """
    for lane in lanes.indexed_lanes(agent):
        if is_held(lane.lock):
            continue
        if lanes.has_work_left(lane):
            yield lane
        else:
            lanes.remove_from_index(lane)


def own_worker_seconds(lane: AgentPaths, now_ns: int) -> float:
    """Return for how many more seconds the lane is reserved for its own worker, because its message is new; 0 if it is
    not."""
    waiting = Queue(lane.queue, lane.put_lock).entries("new")
    age_s = max(((now_ns - entry.position) / 1e9 for entry in waiting), default=OWN_WORKER_S)
    return max(0.0, OWN_WORKER_S - age_s) if age_s >= 0 else 0.0  # a negative age means that the clock was set back


def start_lane_workers(context: RootContext, left: AgentPaths) -> None:
    """Start workers for unfinished lanes of an agent. `left` is the agent or lane that was just released; no worker is
    started for it.

    A blocked or unreadable lane is skipped. A lane gets at most one worker in a few seconds, because a worker that can
    do nothing would otherwise be restarted endlessly.
    """
    agent = context.home.agent(left.agent)
    if context.is_mailbox(agent.agent):
        return
    now_ns = context.clock.now_ns()
    able = (lane for lane in stranded_lanes(agent) if lane != left and _can_run(lane))
    due = (lane for lane in able if lanes.claim_retry(lane, now_ns, after_s=_RETRY_S))
    for lane in islice(due, _MAX_WORKERS):
        start_worker(context, lane)


def _can_run(lane: AgentPaths) -> bool:
    try:
        return read_state(lane.journal).blocked is None
    except BeamError:
        return False


def notify_ask(context: RootContext, asked: events.PermissionAsked) -> None:
    """Tell a person of an ask that waits for a decision."""
    if _targets(context):
        from beam.notify import occasions

        _run_safely(lambda: _put_into_spool(context, occasions.ask_notification(asked, str(context.home.project))))


def notify_end(
    context: RootContext,
    message_id: str,
    event: events.TurnFinished | events.MessageDead,
    *,
    is_last: Callable[[], bool],
) -> None:
    """Tell a person of a message that is over and, if no other message waits, of the idle agent. Idempotent.

    The holder calls this before it records that the message is closed. If the holder dies in between, the next holder
    calls this again.
    """
    if _targets(context):
        _run_safely(lambda: _notify_end(context, message_id, event, is_last))


def notify_budget(context: RootContext, key: str, *, agent: str, text: str) -> None:
    """Tell a person of a budget for several turns that is used up or nearly used up. `key` identifies the occasion: a
    repeated notification of the same occasion has the same key."""
    if _targets(context):
        from beam.notify import occasions

        now = rfc3339(context.clock.now_ns())
        _run_safely(
            lambda: _put_into_spool(
                context, occasions.budget_notification(key, now, agent, text, str(context.home.project))
            )
        )


def _notify_end(
    context: RootContext,
    message_id: str,
    event: events.TurnFinished | events.MessageDead,
    is_last: Callable[[], bool],
) -> None:
    from beam.notify import occasions

    project = str(context.home.project)
    if isinstance(event, events.MessageDead):
        found = occasions.dead_letter_notification(event, message_id, project)
    else:
        found = occasions.turn_notification(event, message_id, project)
    _put_into_spool(context, found, occasions.idle_notification(found) if is_last() else None)


def _targets(context: RootContext) -> list[NotifyTarget]:
    return [target for _, file in context.config.files for target in file.notify]


def _put_into_spool(context: RootContext, *notifications: Notification | None) -> None:
    """Put the notifications into the spool for each target that wants them, and start their delivery."""
    from beam.notify import spool

    is_new = False
    for notification in notifications:
        for target in _targets(context) if notification is not None else ():
            if notification is not None and target.wants(notification):
                is_new = spool.put(context.home.notify, target, notification) or is_new
    if is_new:
        start_delivery(context)


def start_delivery(context: RootContext) -> None:
    """Start the process that delivers notifications, if none runs. Raises DiskError."""
    from beam.notify import spool
    from beam.store.lock import is_free

    if is_free(context.home.notify / spool.LOCK):
        log = context.home.notify / spool.LOG
        start_module("beam.notify.deliver", [str(context.home.root)], context.home, context.environ, log=log)


def _run_safely(tell: Callable[[], None]) -> None:
    with contextlib.suppress(BeamError, OSError):
        tell()
