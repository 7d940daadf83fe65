"""Wakes a holder when a message or a request is published, so that it need not poll often.

On Linux, inotify is used, which costs nothing while nothing changes. (A watcher that polls its own queue every
millisecond takes 1.6 % of a core.) On other systems, and with `poll_only`, `wait` only sleeps; the broker polls from
time to time anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from beam.process import inotify
from beam.process.inotify import Inotify

_NEW_FILE_MASK = inotify.MOVED_TO | inotify.CREATE | inotify.ONLYDIR | inotify.DONT_FOLLOW


if TYPE_CHECKING:
    from beam.broker.holder.lease import AgentLease


@contextlib.contextmanager
def wake_turn_on_requests(lease: AgentLease) -> Iterator[None]:
    """Make the running turn handle each request as soon as it arrives, as long as the context lasts."""
    wake = Wake()
    wake.watch(lease.log.paths.control / "new")
    wake.on_change = lease.wake_turn
    try:
        yield
    finally:
        wake.close()


class Wake:
    """Watches directories for new files. An instance is used in one event loop. `on_change` is called at each
    change."""

    def __init__(self, *, poll_only: bool = False) -> None:
        self._event = asyncio.Event()
        self._poll_only = poll_only
        self._inotify: Inotify | None = None  # from the first watched directory on
        self._watched: dict[Path, int] = {}
        self._directories: dict[int, Path] = {}
        self._changed: set[Path] = set()
        self._overflowed = False
        self.on_change: Callable[[], None] = lambda: None

    @property
    def can_notify(self) -> bool:
        """Return whether changes in the watched directories end a `wait`. If not, only its timeout does."""
        return self._inotify is not None

    def watch(self, directory: Path) -> None:
        """Watch this directory for new files. Idempotent. A missing directory is skipped."""
        if directory in self._watched:
            return
        if self._inotify is None and not self._poll_only:
            try:
                self._inotify = Inotify()
            except OSError:  # another system, or this user's instances are used up
                self._poll_only = True
            else:
                asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._read_changes)
        if self._inotify is None:
            return
        with contextlib.suppress(OSError):
            number = self._inotify.add(directory, _NEW_FILE_MASK)
            self._watched[directory] = number
            self._directories[number] = directory

    def forget(self, directory: Path) -> None:
        """Stop watching this directory."""
        number = self._watched.pop(directory, None)
        if number is not None and self._inotify is not None:
            self._directories.pop(number, None)
            self._inotify.remove(number)

    def end_wait(self) -> None:
        """End the `wait` that is in progress, or else the next one, immediately."""
        self._event.set()

    def take_changed(self) -> set[Path] | None:
        """Return the directories in which something appeared since the last call; None if that is unknown."""
        changed, self._changed = self._changed, set()
        overflowed, self._overflowed = self._overflowed, False
        return None if overflowed else changed

    async def wait(self, seconds: float) -> None:
        """Wait until something changes or `end_wait` is called, for at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()

    def close(self) -> None:
        """Stop watching for good."""
        self._poll_only = True
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _read_changes(self) -> None:
        assert self._inotify is not None
        for change in self._inotify.read():
            self._handle_change(change.watch, change.mask)
        self._event.set()
        self.on_change()

    def _handle_change(self, number: int, mask: int) -> None:
        directory = self._directories.get(number)
        if mask & inotify.IGNORED and directory is not None:  # it is gone; a new one of that name is not watched
            del self._directories[number]
            self._watched.pop(directory, None)
        if mask & inotify.OVERFLOW:
            self._overflowed = True
        elif directory is not None:
            self._changed.add(directory)
