"""Starts workers: detached processes that drain one agent's queue.

Does not depend on the work of a worker.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from beam.base import files
from beam.broker.context import RootContext
from beam.root.paths import AgentPaths, RootPaths
from beam.store.lock import is_free

_LOG_BYTES = 256 * 1024

served_here: set[Path] = set()  # the roots whose agents a broker in this process takes, new ones as well


def ensure(context: RootContext, paths: AgentPaths) -> None:
    """Make sure that somebody drains the queue: start a worker if nobody has the agent's lock.

    The owner of the lock checks the queue again after releasing it. A broker in this process takes the agent itself. A
    mailbox needs no worker: its messages are asked for. A lane always gets one, because other processes hold its lock
    briefly, too.
    """
    if context.is_mailbox(paths.agent):
        return
    if paths.lane is not None or (is_free(paths.lock) and context.home.root not in served_here):
        start(context, paths)


def start(context: RootContext, paths: AgentPaths) -> None:
    """Start a worker, detached from this process and its terminal."""
    start_process(context.home, paths, context.environ)


def start_process(home: RootPaths, paths: AgentPaths, environ: Mapping[str, str]) -> None:
    """Start the worker's process. Its output goes to the agent's worker.log.

    Raises DiskError where the system starts no more processes.
    """
    import subprocess

    from beam.process import tree

    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with files.disk("open", paths.log):
        if paths.log.exists() and paths.log.stat().st_size > _LOG_BYTES:
            mode |= os.O_TRUNC
        log = files.open_stream(paths.log, mode)
    argv = [sys.executable, "-P", "-m", "beam.broker.worker", str(home.root), paths.agent]
    if paths.lane is not None:
        argv.append(paths.lane)
    try:
        with files.disk("start a worker in", home.project):
            started = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=home.project,
                env=dict(environ),
                start_new_session=True,
            )
    finally:
        os.close(log)
    tree.spared.add(started.pid)
    started.returncode = 0  # it may outlive this process on purpose
    threading.Thread(target=_see_off, args=(started.pid,), daemon=True).start()


def _see_off(pid: int) -> None:
    """Wait for the worker, so that one that ends before this process leaves no entry in the table of processes."""
    from beam.process import tree

    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    tree.spared.discard(pid)
