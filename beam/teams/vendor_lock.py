"""Claude Code's own file lock: a directory beside the file, created to acquire the lock and removed to release it.

A process that dies while it holds the lock leaves the directory behind. A lock older than `STALE_S` is therefore
removed by the next process that waits for it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from beam.base.errors import DiskError, UnfinishedError

STALE_S = 30.0  # Claude Code takes over a lock of that age
PATIENCE_S = STALE_S + 5.0  # long enough for the lock of a dead process to become stale
_PAUSE_S = (0.002, 0.02)


@contextmanager
def hold_lock(path: str, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the lock of the file in a `with` block. Raises UnfinishedError if other processes hold it for longer than
    `patience_s`, DiskError if the lock's directory can't be created."""
    lock = f"{path}.lock"
    deadline = time.monotonic() + patience_s
    while not _make_lock(lock):
        _remove_stale(lock)
        if time.monotonic() >= deadline:
            raise UnfinishedError(f"{path} is locked by another process", "try again", subject=path)
        time.sleep(random.uniform(*_PAUSE_S))
    try:
        yield
    finally:
        with suppress(OSError):
            os.rmdir(lock)  # noqa: PTH106 - a text


def _make_lock(lock: str) -> bool:
    try:
        os.mkdir(lock, 0o755)  # noqa: PTH102 - a text
    except FileExistsError:
        return False
    except OSError as error:
        raise DiskError(f"can't lock {lock}: {error.strerror}", subject=lock) from error
    return True


def _remove_stale(lock: str) -> None:
    """Remove the lock if it is older than `STALE_S`. It is renamed first, so that only one of several processes removes
    it."""
    if not _is_stale(lock):
        return
    away = f"{lock}.{os.getpid()}.{time.monotonic_ns()}"
    with suppress(OSError):
        os.rename(lock, away)  # noqa: PTH104 - texts
        if not _is_stale(away):  # somebody took it over before, and holds it now
            os.rename(away, lock)  # noqa: PTH104
            return
        os.rmdir(away)  # noqa: PTH106


def _is_stale(lock: str) -> bool:
    try:
        return time.time() - os.lstat(lock).st_mtime > STALE_S
    except OSError:
        return False
