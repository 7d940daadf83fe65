"""Starts detached processes: workers, which run the waiting messages of one agent, and the process that delivers
notifications.

Does not depend on what these processes do.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from beam.base import files, own_program
from beam.base.errors import BeamError
from beam.broker.inbox.context import RootContext
from beam.root.paths import AgentPaths, RootPaths
from beam.store.lock import is_free

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
