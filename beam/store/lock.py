"""An agent's lock: whoever has it is the holder. It lasts as long as the process, whatever way the process ends.

The lock file is never removed or replaced; if somebody did so all the same, the lock is taken again on the new file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from beam import files


class Lock:
    """A held flock. Closed on exec, so no child keeps it."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    def release(self) -> None:
        """Somebody else may have it now."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def try_lock(path: Path) -> Lock | None:
    """The lock, or None if somebody else has it."""
    while True:
        with files.disk("open", path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError as error:
            os.close(handle)
            raise files.disk_error("lock", path, error) from error
        if _is_still(path, handle):
            return Lock(path, handle)
        os.close(handle)


@contextlib.contextmanager
def short_lock(path: Path, timeout: float = 10.0) -> Iterator[int]:
    """The lock for a moment, waiting for it; yields the file's descriptor. Its holders never wait for anything else.

    Raises DiskError if it is not to be had in that time (seconds).
    """
    deadline = time.monotonic() + timeout
    pause = 0.0005
    while (lock := try_lock(path)) is None:
        if time.monotonic() > deadline:
            raise files.disk_error("lock", path, TimeoutError(0, f"held by another process for {timeout:g} s"))
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    with lock:
        yield lock._handle


def _is_still(path: Path, handle: int) -> bool:
    held = os.fstat(handle)
    try:
        named = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
