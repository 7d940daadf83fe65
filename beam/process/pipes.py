"""The pipes between beam and one guard with its agent, as asyncio protocols, and their bytes as lines.

The bytes come in chunks of any size. Does not depend on how the output is used.
"""

from __future__ import annotations

import asyncio
import os
import signal as signals
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct


class Piece(bytes):
    """A part of a line that goes on."""


class LineSplitter:
    """Splits a stream at each newline byte. The lines do not depend on how the stream is divided into chunks.

    With `piece_bytes`, a line that has no end yet is returned as soon as it has this many bytes, as a `Piece`; what
    follows may be further pieces, and then the rest of the line.

    A line longer than `limit` bytes is cut off: its first `limit` bytes are returned as soon as the limit is passed,
    and the rest of the line is dropped. Each byte is copied a fixed number of times, however long the line is.
    """

    def __init__(self, limit: int, *, piece_bytes: int = 0) -> None:
        self._limit = limit
        self._piece_bytes = piece_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._returned = 0  # bytes of the line that were returned as pieces
        self._dropping = False
        self.cut = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their newlines; also a line that this chunk makes too
        long.

        `cut` is the number of lines that were cut off so far.
        """
        lines: list[bytes] = []
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._add(piece, lines)
            if not self._dropping:
                lines.append(b"".join(self._parts))
            self._reset()
        if rest:
            self._add(rest, lines)
            if self._piece_bytes and not self._dropping and self._size - self._returned >= self._piece_bytes:
                lines.append(Piece(b"".join(self._parts)))
                self._parts.clear()
                self._returned = self._size
        return lines

    def end(self) -> list[bytes]:
        """Return the last line, if the stream did not end with a newline."""
        lines = [b"".join(self._parts)] if self._size and not self._dropping else []
        self._reset()
        return lines

    def _add(self, piece: bytes, lines: list[bytes]) -> None:
        if self._dropping:
            return
        room = self._limit - self._size
        self._parts.append(piece if len(piece) <= room else piece[:room])
        self._size += len(piece)
        if len(piece) > room:
            lines.append(b"".join(self._parts))
            self._parts.clear()
            self._dropping = True
            self.cut += 1

    def _reset(self) -> None:
        self._parts.clear()
        self._size = self._returned = 0
        self._dropping = False


class Tail:
    """Keeps the last `count` lines of a stream, and at most `limit` bytes of them."""

    def __init__(self, count: int, *, limit: int = 256 * 1024) -> None:
        self._count = count
        self._limit = limit
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Add bytes, and drop the oldest bytes beyond the limit."""
        self._kept += chunk[-self._limit :]
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def text(self) -> str:
        """Return the kept lines; invalid UTF-8 becomes U+FFFD."""
        lines = bytes(self._kept[-self._limit :]).splitlines(keepends=True)
        return b"".join(lines[-self._count :] if self._count else []).decode("utf-8", "replace")


T = TypeVar("T")
PIPE_BYTES = 1024 * 1024  # the most that the kernel gives a user without rights, for up to 64 pipes
F_SETPIPE_SZ = 1031


class HeldProcess(Struct, frozen=True):
    """The agent's process while it waits before its exec.

    Both fields are 0 if the system refused to create the process, or if the guard failed.
    """

    pid: int = 0
    start_ticks: int = 0


def do_nothing() -> None:
    """Do nothing: the default for a callback that a caller does not need."""


class Pipe(asyncio.Protocol):
    """One pipe from the guard or from the agent. `closed` is a future that is done after `on_end` was called."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_data: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        self.closed: asyncio.Future[None] = loop.create_future()
        self._on_data = on_data
        self._on_end = on_end
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()
        set_done(self.closed)

    def close(self) -> None:
        """Deliver the bytes that are in the pipe now, and stop reading, even if another process keeps the pipe open."""
        if self._transport and not self._transport.is_closing():
            with suppress(OSError):  # it is empty, or a terminal that nobody has open any more
                if rest := os.read(self._transport.get_extra_info("pipe").fileno(), PIPE_BYTES):
                    self._on_data(rest)
            self._transport.close()


def enlarge_pipe(fd: int) -> None:
    """Enlarge the buffer of the pipe, so that its writer blocks later. Do nothing if the system refuses."""
    if sys.platform == "linux":
        from fcntl import fcntl

        with suppress(OSError):
            fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES)


class Output:
    """Passes the agent's output to callbacks: stdout, and stderr if `on_error_line` is given.

    `on_line` and `on_error_line` are called with each line; with `piece_bytes`, `on_line` gets a long line of stdout in
    pieces (see `LineSplitter`). If `on_data` is given, it is called with the bytes of stdout as they come, and
    `on_line` is not called. After a callback has raised an exception, no callback is called any more: the exception
    becomes `error`, and `fail` is called.
    """

    def __init__(
        self,
        on_line: Callable[[bytes], None],
        on_output: Callable[[], None],
        on_long_line: Callable[[], None],
        line_bytes: int,
        on_error_line: Callable[[bytes], None] | None = None,
        on_data: Callable[[bytes], None] | None = None,
        piece_bytes: int = 0,
    ) -> None:
        self.error: Exception | None = None
        self.fail = do_nothing
        self._on_line = on_line
        self._on_output = on_output
        self._on_long_line = on_long_line
        self._on_error_line = on_error_line
        self._on_data = on_data
        self._lines = LineSplitter(line_bytes, piece_bytes=piece_bytes)
        self._error_lines = LineSplitter(line_bytes) if on_error_line is not None else None

    def feed(self, data: bytes) -> None:
        if self._on_data is not None:
            self._call(self._on_data, data)
            return
        cut = self._lines.cut
        self._deliver(self._lines.feed(data))
        self.report_output()
        if self._lines.cut > cut:
            self._call(self._on_long_line)

    def end(self) -> None:
        self._deliver(self._lines.end())

    def feed_errors(self, data: bytes) -> None:
        if self._error_lines is not None:
            self._deliver_errors(self._error_lines.feed(data))
        self.report_output()

    def end_errors(self) -> None:
        if self._error_lines is not None:
            self._deliver_errors(self._error_lines.end())

    def report_output(self) -> None:
        self._call(self._on_output)

    def _deliver(self, lines: list[bytes]) -> None:
        for line in lines:
            self._call(self._on_line, line)

    def _deliver_errors(self, lines: list[bytes]) -> None:
        if self._on_error_line is not None:
            for line in lines:
                self._call(self._on_error_line, line)

    def _call(self, callback: Callable[..., None], *values: bytes) -> None:
        if self.error:
            return
        try:
            callback(*values)
        except Exception as error:  # noqa: BLE001 - not swallowed: `Child.wait` raises it
            self.error = error
            self.fail()


class GuardStatus:
    """Reads the guard's status lines (see `guard.py`).

    `held` is a future that is done once the agent's process exists, or can't exist. `executed` is a future that is done
    once the process has executed the agent's program (True) or never will (False). `errno` is the system's reason for
    refusing to start the agent, 0 if it did not refuse.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.held: asyncio.Future[HeldProcess] = loop.create_future()
        self.executed: asyncio.Future[bool] = loop.create_future()
        self.errno = 0
        self.code: int | None = None
        self.signal: str | None = None
        self.clean: tuple[int, int] | None = None  # swept, left; None until the guard said that it is done
        self._lines = LineSplitter(1024)

    def feed(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            word, *values = line.decode("ascii").split()
            if word == "held":
                _set_once(self.held, HeldProcess(pid=int(values[0]), start_ticks=int(values[1])))
            elif word == "running":
                _set_once(self.executed, True)
            elif word == "failed":
                self.errno, self.clean = int(values[0]), (0, 0)
                self.end()
            elif word == "exited":
                self.code = None if values[0] == "-" else int(values[0])
                self.signal = None if values[1] == "-" else _signal_name(int(values[1]))
            elif word == "clean":
                self.clean = int(values[0]), int(values[1])

    def end(self) -> None:
        _set_once(self.held, HeldProcess())
        _set_once(self.executed, False)


def _set_once(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def set_done(future: asyncio.Future[None]) -> None:
    """Set the future's result to None, unless the future is already done."""
    if not future.done():
        future.set_result(None)


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIG{number}"
