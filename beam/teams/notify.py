"""Waits for changes below directories by inotify, the change notifications of Linux.

This needs no thread and no polling: waiting costs no CPU time, and a change ends it at once. Does not depend on the
content of the files.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Collection, Sequence

from beam.base import own_program
from beam.process import inotify
from beam.process.inotify import Inotify
from beam.teams import disk

_WRITTEN_MASK = (
    inotify.CREATE
    | inotify.CLOSE_WRITE
    | inotify.MOVED_TO
    | inotify.MOVED_FROM
    | inotify.DELETE
    | inotify.DELETE_SELF
    | inotify.ONLYDIR
)
_GROWN_MASK = _WRITTEN_MASK | inotify.MODIFY
_APPEARED_MASK = inotify.CREATE | inotify.MOVED_TO


class Notify:
    """Watches the directories `folders` and `grown`, and everything below them.

    A file is reported when its writer closes it; below `grown`, a file is also reported while it is written.
    Subdirectories of a directory in `flat` are not watched. Raises OSError if the kernel's limit of watches is reached.
    """

    def __init__(self, folders: Sequence[str], *, grown: Sequence[str] = (), flat: Collection[str] = ()) -> None:
        self._inotify = Inotify()
        self._flat = frozenset(flat)
        self._paths: dict[int, tuple[str, int]] = {}
        self._lock = threading.Lock()
        self._ended, self._end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poller = select.poll()
        self._poller.register(self._inotify.fileno(), select.POLLIN)
        self._poller.register(self._ended, select.POLLIN)
        try:
            for folder in folders:
                self._add(folder, _WRITTEN_MASK)
            for folder in grown:
                self._add(folder, _GROWN_MASK)
        except OSError:
            self.close()
            raise

    def wait(self, timeout_ms: int) -> tuple[list[str], bool]:
        """Wait for changes, at most `timeout_ms`. Return the paths that changed, in order, and whether notifications
        were lost."""
        paths: dict[str, None] = {}
        lost = False
        own_program.wait_until_held()
        self._poller.poll(timeout_ms)
        for watch, mask, name in self._inotify.read():
            if mask & inotify.OVERFLOW:
                lost = True
                continue
            if mask & inotify.IGNORED:
                self._paths.pop(watch, None)
                continue
            if watch not in self._paths or name.endswith(".lock"):
                continue
            folder, wanted = self._paths[watch]
            path = f"{folder}/{name}" if name else folder
            if mask & inotify.ISDIR and mask & _APPEARED_MASK and folder in self._flat:
                continue
            if mask & inotify.ISDIR and mask & _APPEARED_MASK:
                paths[path] = None
                paths.update(dict.fromkeys(self._watch_new_directory(path, wanted)))
            elif not (mask & inotify.CREATE and wanted == _WRITTEN_MASK):
                paths.pop(path, None)
                paths[path] = None
        return list(paths), lost

    def interrupt(self) -> None:
        """End a running `wait` from another thread. All later calls of `wait` return at once."""
        with self._lock:
            if not self._inotify.is_closed:
                os.write(self._end, b"x")

    def close(self) -> None:
        """Stop watching."""
        with self._lock:
            self._inotify.close()
            os.close(self._ended)
            os.close(self._end)

    def _watch_new_directory(self, folder: str, mask: int) -> list[str]:
        """Watch a directory that appeared, and return the paths in it, which may have been created before the watch
        began."""
        with contextlib.suppress(OSError):
            return self._add(folder, mask)
        return []

    def _add(self, folder: str, mask: int) -> list[str]:
        try:
            self._paths[self._inotify.add(folder, mask)] = (folder, mask)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = []
        for entry in disk.entries(folder):
            path = os.path.join(folder, entry.name)  # noqa: PTH118 - thousands of them
            found.append(path)
            if folder in self._flat:
                continue
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False) and not entry.name.endswith(".lock"):
                    found += self._add(path, mask)
        return found
