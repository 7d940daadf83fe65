"""An agent's stdout as a private file that is followed as it grows: for a CLI that drops output when its pipe is full.

Some runtimes write to a pipe without waiting, and exit before all is written (Claude Code 2.1: exit code 0, no result
line, however fast the reader). A file accepts everything immediately. It has no name, so it is removed with the last
descriptor; until then it takes as much disk space as the process has written. Does not depend on how the output is
used.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from beam.base import files
from beam.process.inotify import MODIFY, Inotify
from beam.process.pipes import set_done

READ_BYTES = 256 * 1024  # at a time; other tasks run in between
POLL_SECONDS = 0.02  # where the kernel notifies nobody: macOS, or a user's inotify instances are used up


class StdoutFile:
    """The file for the stdout of one agent process, created in `directory`. The agent writes to the descriptor `sink`.

    `on_data` is called with new bytes, and `on_end` after the last of them. `closed` is a future that is done after
    that; if reading fails, it has a DiskError. `notified` is False to poll the file in any case.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        directory: Path,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
        *,
        notified: bool = True,
    ) -> None:
        self.closed: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._on_data = on_data
        self._on_end = on_end
        self._position = 0
        self._until: int | None = None  # None: it may still grow
        self._next: asyncio.Handle | None = None
        path = self._path = directory / "stdout"
        files.make_directory(directory)
        with files.disk_action("make", path), ExitStack() as opened_here:
            self.sink = files.open_stream(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            opened_here.callback(os.close, self.sink)
            self._source = files.open_to_read(path)
            self._notices = _watch(path) if notified else None
            path.unlink()
            opened_here.pop_all()
        if self._notices is not None:
            loop.add_reader(self._notices.fileno(), self._on_notice)
        else:
            self._schedule_read(POLL_SECONDS)

    def close_sink(self) -> None:
        """Close this process's copy of the agent's descriptor."""
        os.close(self.sink)

    def finish(self) -> None:
        """Deliver the rest of the file in pieces, and then close it; `closed` is done after that.

        Call this when no process writes to the file any more.
        """
        if not self.closed.done():
            self._until = os.fstat(self._source).st_size
            self._schedule_read(0)

    def close(self) -> None:
        """Stop delivering and call `on_end`. Idempotent."""
        if not self.closed.done():
            self._release()
            self._on_end()
            set_done(self.closed)

    def _release(self) -> None:
        if self._next:
            self._next.cancel()
        if self._notices is not None:
            self._loop.remove_reader(self._notices.fileno())
            self._notices.close()
        with suppress(OSError):
            os.close(self._source)

    def _on_notice(self) -> None:
        assert self._notices is not None
        self._notices.read()
        if self._next is None:
            self._read()

    def _read(self) -> None:
        self._next = None
        try:
            data = os.pread(self._source, READ_BYTES, self._position)
        except OSError as error:
            self.closed.set_exception(files.disk_error("read", self._path, error))
            self._release()
            return
        self._position += len(data)
        if data:
            self._on_data(data)
        if self._until is not None and (not data or self._position >= self._until):
            self.close()
        elif len(data) == READ_BYTES or self._until is not None:
            self._schedule_read(0)
        elif self._notices is None:
            self._schedule_read(POLL_SECONDS)

    def _schedule_read(self, seconds: float) -> None:
        if self._next:
            self._next.cancel()
        self._next = self._loop.call_later(seconds, self._read) if seconds else self._loop.call_soon(self._read)


def _watch(path: Path) -> Inotify | None:
    """Return the inotify instance that reports writes to the file; None if the system has none left."""
    try:
        notices = Inotify()
    except OSError:
        return None
    try:
        notices.add(path, MODIFY)
    except OSError:
        notices.close()
        return None
    return notices
