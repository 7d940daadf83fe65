"""Wakes a broker when a message or a request is published, so that it need not poll.

On Linux by inotify: idle it costs nothing, where a watcher that polls its own queue every millisecond takes 1.6 % of a
core. Elsewhere, and with `poll_only`, `wait` just sleeps; the broker looks again after each `poll` anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inotify_simple import INotify


class Wake:
    """Watches directories for files that appear by rename. Made and used in one event loop."""

    def __init__(self, *, poll_only: bool = False) -> None:
        self._event = asyncio.Event()
        self._inotify: INotify | None = None
        self._watched: dict[Path, int] = {}
        self._directories: dict[int, Path] = {}
        self._changed: set[Path] = set()
        self._overflowed = False
        if sys.platform == "linux" and not poll_only:
            self._inotify = _inotify()
        if self._inotify is not None:
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._readable)

    @property
    def notifies(self) -> bool:
        """Return whether a change wakes; else only time does."""
        return self._inotify is not None

    def watch(self, directory: Path) -> None:
        """Have what appears in this directory wake. Idempotent. A directory that is gone is left out."""
        if self._inotify is None or directory in self._watched:
            return
        from inotify_simple import flags

        mask = flags.MOVED_TO | flags.CREATE | flags.ONLYDIR | flags.DONT_FOLLOW
        with contextlib.suppress(OSError):
            number = self._inotify.add_watch(directory, mask)
            self._watched[directory] = number
            self._directories[number] = directory

    def forget(self, directory: Path) -> None:
        """Stop watching the directory."""
        number = self._watched.pop(directory, None)
        if number is not None and self._inotify is not None:
            self._directories.pop(number, None)
            with contextlib.suppress(OSError):
                self._inotify.rm_watch(number)

    def now(self) -> None:
        """Wake whoever waits."""
        self._event.set()

    def changed(self) -> set[Path] | None:
        """Return the directories in which something appeared since this was called last; None if that is unknown."""
        changed, self._changed = self._changed, set()
        overflowed, self._overflowed = self._overflowed, False
        return None if overflowed else changed

    async def wait(self, seconds: float) -> None:
        """Return when something happened, at the latest after that many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()

    def close(self) -> None:
        """Stop watching all directories."""
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _readable(self) -> None:
        assert self._inotify is not None
        with contextlib.suppress(BlockingIOError):
            for event in self._inotify.read(timeout=0):
                self._note(event.wd, event.mask)
        self._event.set()

    def _note(self, number: int, mask: int) -> None:
        from inotify_simple import flags

        directory = self._directories.get(number)
        if mask & flags.IGNORED and directory is not None:  # the directory is gone; one of its name is another
            del self._directories[number]
            self._watched.pop(directory, None)
        if mask & flags.Q_OVERFLOW:
            self._overflowed = True
        elif directory is not None:
            self._changed.add(directory)


def _inotify() -> INotify | None:
    """Return the kernel's notification; None where it has no more to give (the limit of instances a user)."""
    from inotify_simple import INotify

    try:
        return INotify(nonblocking=True)
    except OSError:
        return None
