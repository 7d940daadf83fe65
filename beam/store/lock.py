"""The lock of an agent: the process that has it holds the agent. The lock is released when that process ends, in
whatever way it ends.

beam never removes or replaces the lock file. If somebody else does so while a process takes the lock, that process
locks the new file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from beam.base import files
from beam.base.errors import DiskError, RefusedFileError


class Lock:
    """A lock (flock) that this process has. The descriptor is closed on exec, so no child process keeps the lock."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    def is_in_place(self) -> bool:
        """Return whether the locked file is still the file at the path. It is not if somebody removed or replaced the
        file; others would then lock another file. Raises OSError."""
        return _is_in_place(self.path, self._handle)

    def release(self) -> None:
        """Release the lock, even if a forked process still has a copy of the descriptor."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            try:
                fcntl.flock(handle, fcntl.LOCK_UN)
            finally:
                os.close(handle)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def try_lock(path: Path) -> Lock | None:
    """Return the lock; None if somebody else has it. Does not wait."""
    return _take_lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_free(path: Path) -> bool:
    """Return whether nobody has the lock at this moment. To find out, take the lock and release it."""
    lock = try_lock(path)
    if lock is None:
        return False
    lock.release()
    return True


def is_held(path: Path) -> bool:
    """Return whether somebody has the lock. Creates no file.

    Use it only for locks that other processes retry to take: the check holds the lock for an instant, in which others
    are refused. A path that is not a regular file counts as not locked, because no process can lock it.
    """
    try:
        handle = files.open_to_read(path)
    except (FileNotFoundError, NotADirectoryError, RefusedFileError):
        return False
    except OSError as error:
        raise files.disk_error("open", path, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        raise files.disk_error("lock", path, error) from error
    finally:
        os.close(handle)
    return False


def _take_lock(path: Path, how: int) -> Lock | None:
    while True:
        try:
            handle = files.open_to_write(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise files.disk_error("open", path, error) from error
        try:
            fcntl.flock(handle, how)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError as error:
            os.close(handle)
            raise files.disk_error("lock", path, error) from error
        try:
            if _is_in_place(path, handle):
                return Lock(path, handle)
        except OSError as error:
            os.close(handle)
            raise files.disk_error("lock", path, error) from error
        os.close(handle)


@contextlib.contextmanager
def short_lock(path: Path, timeout: float = 10.0) -> Iterator[int]:
    """Wait for the lock and hold it for a moment; yield the descriptor of the lock file.

    No holder of this lock waits for anything else meanwhile. Raises DiskError if the lock can't be taken within
    `timeout` seconds.
    """
    lock = try_lock(path) or (_wait_for_lock(path, timeout) if timeout > 0 else None)
    if lock is None:
        raise files.disk_error("lock", path, TimeoutError(0, f"held by another process for {timeout:g} s"))
    with lock:
        yield lock._handle


def _wait_for_lock(path: Path, timeout: float) -> Lock | None:
    """Wait for the lock in the order of the kernel's queue and return it; return None after `timeout` seconds.

    With polling, a process might never get the lock while others take it in quick succession. flock has no timeout, so
    a thread waits for the lock. If the thread gets the lock too late, it releases the lock immediately.
    """
    came, handing_over = threading.Event(), threading.Lock()
    taken: list[Lock | None] = []
    failed: list[BaseException] = []
    has_left = False

    def stand() -> None:
        try:
            lock = _take_lock(path, fcntl.LOCK_EX)
        except DiskError as error:
            failed.append(error)
        else:
            with handing_over:
                if has_left and lock is not None:
                    lock.release()
                else:
                    taken.append(lock)
        came.set()

    try:
        threading.Thread(target=stand, daemon=True).start()
        came.wait(timeout)
    except BaseException:
        with handing_over:
            has_left = True
            for lock in filter(None, taken):
                lock.release()
        raise
    with handing_over:
        has_left = True
    if failed:
        raise failed[0]
    return taken[0] if taken else None


def _is_in_place(path: Path, handle: int) -> bool:
    held = os.fstat(handle)
    try:
        named = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
