"""Starts detached processes: workers, which drain one agent's queue, and the one that delivers notifications.

Does not depend on their work.
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

served_here: set[Path] = set()  # the roots that a broker in this process serves, including their new agents


def ensure(context: RootContext, paths: AgentPaths) -> None:
    """Make sure that somebody drains the queue: start a worker if nobody has the agent's lock.

    The owner of the lock checks the queue again after releasing it. A broker in this process takes the agent itself. A
    mailbox needs no worker: `beam recv` takes its messages. A lane always gets a worker: if its lock is held, that may
    be only a brief check of another process.
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

    Raises DiskError if the system starts no more processes.
    """
    words = [str(home.root), paths.agent, *([paths.lane] if paths.lane is not None else [])]
    start_module("beam.broker.worker", words, home, environ, log=paths.log)


def start_module(module: str, words: list[str], home: RootPaths, environ: Mapping[str, str], *, log: Path) -> None:
    """Start a module of beam's as a detached process in the project folder; its stderr is appended to `log`.

    Raises DiskError if the system starts no more processes.
    """
    import subprocess

    from beam.process import tree

    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with files.disk("open", log):
        if log.exists() and log.stat().st_size > _LOG_BYTES:
            mode |= os.O_TRUNC
        stderr = files.open_stream(log, mode)
    try:
        with files.disk("start a process in", home.project):
            started = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=home.project,
                env=dict(environ),
                start_new_session=True,
            )
    finally:
        os.close(stderr)
    tree.spared.add(started.pid)
    started.returncode = 0  # it may outlive this process on purpose
    threading.Thread(target=_see_off, args=(started.pid,), daemon=True).start()


def _see_off(pid: int) -> None:
    """Wait for the worker, so that it leaves no zombie process if it ends before this process."""
    from beam.process import tree

    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    tree.spared.discard(pid)
