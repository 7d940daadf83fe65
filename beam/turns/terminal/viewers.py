"""Viewers of an agent's terminal: other processes of the same user, connected through a socket beside the journal.

A viewer gets pictures of the screen, never the agent's bytes, and sends keys. A slow viewer does not slow the agent: it
gets the newest picture when it is ready. While beam types, viewers' keys wait. Does not depend on turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from beam.base import typed_values
from beam.pty_adapter.picture import Painter, Picture, Runs
from beam.pty_adapter.terminal import Terminal
from beam.turns.terminal.nearby import near

FRAME_S = 1 / 30
DRAWING_S = 0.1  # how long an unfinished frame is waited for
KEYS_BYTES = 64 * 1024  # of one line of keys
_LOOK_AGAIN_S = 0.01


class Frame(Struct, frozen=True, kw_only=True, tag="frame"):
    """What has changed on the screen since the last frame; the first frame has everything. `changed` are the changed
    rows by number. `height` is the number of rows. `picture` is the rest of the picture, without rows."""

    picture: Picture
    height: int
    changed: dict[int, Runs]


class Bye(Struct, frozen=True, kw_only=True, tag="bye"):
    """The end of the connection, with the reason: the terminal is gone, or the viewer was disconnected."""

    why: str


class Keys(Struct, frozen=True, kw_only=True, tag="keys"):
    """The bytes that a viewer typed."""

    data: bytes


Told = Frame | Bye


class Viewers:
    """The viewers of one terminal. `notice` is called with the user's name when a viewer begins to type in a turn."""

    def __init__(self, window: Terminal, notice: Callable[[str], None]) -> None:
        self.typed_at: float | None = None  # when one of them typed last (the loop's seconds)
        self._window = window
        self._notice = notice
        self._painter = Painter(window.screen)
        self._picture: tuple[int, Picture] | None = None
        self._connected: dict[asyncio.Task[None], asyncio.Event] = {}
        self._noticed: set[int] = set()
        self._may_type = asyncio.Event()
        self._may_type.set()
        self._why = "the terminal is gone"
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    @property
    def is_open(self) -> bool:
        """Return whether viewers can connect."""
        return self._server is not None

    @property
    def count(self) -> int:
        """Return how many viewers there are now."""
        return len(self._connected)

    async def open(self, path: Path) -> None:
        """Let viewers connect through a socket of that name, for this user alone. Raises OSError."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with near(path.parent) as directory:
                name = directory / path.name
                name.unlink(missing_ok=True)
                os.fchmod(listening.fileno(), 0o600)
                listening.bind(str(name))
                name.chmod(0o600)
            self._path = path
            self._server = await asyncio.start_unix_server(self._serve_viewer, sock=listening, limit=KEYS_BYTES)
        except BaseException:
            listening.close()
            raise

    async def close(self, why: str) -> None:
        """Tell all viewers why, disconnect them, and accept no more."""
        self._why = why
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
        for task in list(self._connected):
            task.cancel()
        if self._connected:
            await asyncio.wait(list(self._connected), timeout=1.0)

    def wake(self) -> None:
        """Wake the viewers: there is something new to see."""
        for new in self._connected.values():
            new.set()

    def new_turn(self) -> None:
        """Begin a new turn: each viewer who types in it is reported again."""
        self._noticed.clear()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold back viewers' keys inside the context."""
        was_free = self._may_type.is_set()
        self._may_type.clear()
        try:
            yield
        finally:
            if was_free:
                self._may_type.set()

    # -- one viewer ----------------------------------------------------------------------------------------------------

    async def _serve_viewer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        me = asyncio.current_task()
        assert me is not None
        self._connected[me] = new = asyncio.Event()
        showing = None
        try:
            peer = _peer(writer)
            if peer is None or peer[1] == os.geteuid():
                showing = asyncio.create_task(self._show(writer, new))
                hearing = asyncio.create_task(self._hear(reader, peer[0] if peer else 0))
                try:
                    await asyncio.wait({showing, hearing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    hearing.cancel()
                    showing.cancel()
                    await asyncio.wait({showing, hearing})
        except asyncio.CancelledError:
            _say(writer, Bye(why=self._why))
        finally:
            del self._connected[me]
            with contextlib.suppress(OSError):
                writer.close()

    async def _show(self, writer: asyncio.StreamWriter, new: asyncio.Event) -> None:
        sent: list[Runs | None] = [None] * self._window.screen.rows
        with contextlib.suppress(OSError):
            while True:
                new.clear()
                await self._wait_for_frame()
                picture = self._now()
                changed = {row: runs for row, runs in enumerate(picture.rows) if runs is not sent[row]}
                for row, runs in changed.items():
                    sent[row] = runs
                _say(writer, Frame(picture=_without_rows(picture), height=len(picture.rows), changed=changed))
                await writer.drain()
                await asyncio.sleep(FRAME_S)
                await new.wait()

    async def _wait_for_frame(self) -> None:
        """Wait until the agent is not in the middle of drawing, for a moment at most."""
        until = asyncio.get_running_loop().time() + DRAWING_S
        while self._window.screen.drawing and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _now(self) -> Picture:
        written = self._window.screen.bytes
        if self._picture is None or self._picture[0] != written:
            self._picture = written, self._painter.picture()
        return self._picture[1]

    async def _hear(self, reader: asyncio.StreamReader, pid: int) -> None:
        with contextlib.suppress(OSError, ValueError, RecursionError):  # invalid data disconnects the viewer
            while line := await reader.readline():
                data = typed_values.decode(line, Keys).data
                if not data:
                    continue
                await self._may_type.wait()
                if pid not in self._noticed:
                    self._noticed.add(pid)
                    self._notice(_user())
                self.typed_at = asyncio.get_running_loop().time()
                await self._window.type(data)


def _say(writer: asyncio.StreamWriter, told: Told) -> None:
    with contextlib.suppress(OSError):
        writer.write(msgspec.json.encode(told) + b"\n")


def _without_rows(picture: Picture) -> Picture:
    return msgspec.structs.replace(picture, rows=())


def _peer(writer: asyncio.StreamWriter) -> tuple[int, int] | None:
    """Return the pid and uid of the other end; None if the system does not say.

    In that case only the directory's mode keeps others out.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, uid, _ = struct.unpack("3i", writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, option, 12))
    return pid, uid


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"
