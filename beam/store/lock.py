"""An agent's lock: whoever has it holds the agent. It ends with the process, however the process ends.

The lock file is never removed or replaced; if somebody does so anyway, the lock is taken again on the new file.
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
    """A held flock. Closed on exec, so no child keeps it."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    def is_still(self) -> bool:
        """Return whether the locked file is still the one that others lock. Raises OSError."""
        return _is_still(self.path, self._handle)

    def release(self) -> None:
        """Release the lock, also where a forked process has not closed its copy yet."""
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
    """Return the lock, or None if somebody else has it."""
    return _take(path, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_free(path: Path) -> bool:
    """Return whether nobody has the lock at this moment; takes and releases it to find out."""
    lock = try_lock(path)
    if lock is None:
        return False
    lock.release()
    return True


def is_held(path: Path) -> bool:
    """Return whether somebody has the lock; creates no file.

    Only for locks whose takers retry: this check holds the lock for an instant, in which a taker is refused. Anything
    but a plain file counts as no lock: a taker refuses it too.
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


def _take(path: Path, how: int) -> Lock | None:
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
            if _is_still(path, handle):
                return Lock(path, handle)
        except OSError as error:
            os.close(handle)
            raise files.disk_error("lock", path, error) from error
        os.close(handle)


@contextlib.contextmanager
def short_lock(path: Path, timeout: float = 10.0) -> Iterator[int]:
    """Wait for the lock and hold it for a moment; yield the file's descriptor.

    Its holders never wait for anything else. Raises DiskError if it can't be taken within that time (seconds).
    """
    lock = try_lock(path) or (_wait_for(path, timeout) if timeout > 0 else None)
    if lock is None:
        raise files.disk_error("lock", path, TimeoutError(0, f"held by another process for {timeout:g} s"))
    with lock:
        yield lock._handle


def _wait_for(path: Path, timeout: float) -> Lock | None:
    """Return the lock, in the order of the kernel's queue; None after that time.

    Polling would starve beside writers that take it in quick succession. flock has no timeout, so a thread waits for
    it; if it gets the lock too late, it releases it immediately.
    """
    came, handing_over = threading.Event(), threading.Lock()
    taken: list[Lock | None] = []
    failed: list[BaseException] = []
    has_left = False

    def stand() -> None:
        try:
            lock = _take(path, fcntl.LOCK_EX)
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


def _is_still(path: Path, handle: int) -> bool:
    held = os.fstat(handle)
    try:
        named = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
