"""Reports changes of files and directories: the only wrapper of Linux's inotify(7).

It calls the C library directly, because importing a package for it costs each turn 2 ms or more. Does not depend on
asyncio, threads, or the purpose of the files.
"""

from __future__ import annotations

import errno
import functools
import os
import struct
from collections.abc import Callable
from typing import NamedTuple

from beam.process import table

MODIFY = 0x2
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
OVERFLOW = 0x4000  # the kernel dropped events; its watch is -1
IGNORED = 0x8000  # the watch is gone, as its directory is
ONLYDIR = 0x1000000
DONT_FOLLOW = 0x2000000
ISDIR = 0x40000000

_HEAD = struct.Struct("iIII")  # watch, mask, cookie, bytes of the name
_READ_BYTES = 64 * 1024


class Change(NamedTuple):
    """One event of the kernel: the number of the watch, a mask of the constants above, and the name of the changed
    file.

    The name is "" if the watched path itself has changed.
    """

    watch: int
    mask: int
    name: str


class Inotify:
    """One non-blocking inotify instance.

    Raises OSError if the system has no inotify, or if this user has reached the limit of instances.
    """

    def __init__(self) -> None:
        self._handle = _call_libc(b"inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC) if table.LINUX else -1
        if self._handle < 0:
            raise OSError(errno.EMFILE if table.LINUX else errno.ENOSYS, "no inotify instance to be had")

    @property
    def is_closed(self) -> bool:
        """Return whether `close` was called."""
        return self._handle < 0

    def fileno(self) -> int:
        """Return the descriptor, which is readable when there are changes."""
        return self._handle

    def add(self, path: str | bytes | os.PathLike[str], mask: int) -> int:
        """Watch a path and return the number of its watch. Raises OSError (FileNotFoundError, NotADirectoryError …)."""
        name = os.fsencode(path)
        number = _call_libc(b"inotify_add_watch", self._handle, name, mask)
        if number < 0:
            raise _watch_error(name)
        return number

    def remove(self, watch: int) -> None:
        """End a watch. A watch that has already ended is not an error."""
        _call_libc(b"inotify_rm_watch", self._handle, watch)

    def read(self) -> list[Change]:
        """Return the changes since the last call, in order. Never waits."""
        try:
            data = os.read(self._handle, _READ_BYTES)
        except BlockingIOError:
            return []
        changes = []
        at = 0
        while at < len(data):
            watch, mask, _, size = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            changes.append(Change(watch, mask, os.fsdecode(data[at : at + size].rstrip(b"\0"))))
            at += size
        return changes

    def close(self) -> None:
        """Close the instance and all its watches. Idempotent."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


@functools.cache
def _libc_function(name: bytes) -> Callable[..., int]:
    return table.libc(name)


def _call_libc(name: bytes, *arguments: int | bytes) -> int:
    """Call a function of the C library. A result of -1 means failure; errno is not available."""
    return _libc_function(name)(*arguments)


def _watch_error(path: bytes) -> OSError:
    """Return the error for a path that the kernel refused to watch.

    It is the error of listing the path as a directory. If the path can be listed, it is ENOSPC: no watch is left.
    """
    try:
        with os.scandir(path):
            return OSError(errno.ENOSPC, "no inotify watch to be had", os.fsdecode(path))
    except OSError as error:
        return error
