"""Viewers of an agent's terminal: other processes of the same user, connected through a socket beside the journal.

A viewer gets pictures of the screen, never the agent's bytes, and sends keys. A slow viewer does not slow the agent: it
gets the newest picture when it is ready. While beam types, viewers' keys wait.

Only a person looks and types. A process of an agent's turn is refused: it is recognised by its own environment and by
those of its ancestors. Landlock does not stop a connection to a socket, so a viewer must also create a file beside the
journal before it may type, which a confined agent can't do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import re
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from beam.base import typed_values
from beam.process import table
from beam.process.spawn import marker_name
from beam.pty_adapter.picture import Painter, Picture, Runs
from beam.pty_adapter.terminal import Terminal
from beam.turns.terminal.nearby import short_path

FRAME_S = 1 / 30
DRAWING_S = 0.1  # how long an unfinished frame is waited for
KEYS_BYTES = 64 * 1024  # of one line of keys
_LOOK_AGAIN_S = 0.01
_MAX_ANCESTORS = 64  # processes that are checked: the viewer and its ancestors
_MARKER = marker_name("").encode()
_NO_AGENTS = "only a person attaches, and process {pid} belongs to an agent's turn"
_GONE = "only a person attaches, and who started process {pid} can't be seen any more"
_TOO_DEEP = "only a person attaches, and process {pid} has too many others above it"
_NO_TYPING_FILE = (
    "only a person types: a viewer has to make a file in the agent's directory first, as `beam attach` does"
)


class Frame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="frame"):
    """What has changed on the screen since the last frame; the first frame has everything. `changed` are the changed
    rows by number. `height` is the number of rows. `picture` is the rest of the picture, without rows.

    `nonce` is in the first frame: a viewer may type once it has created the file that `typing_file` names.
    """

    picture: Picture
    height: int
    changed: dict[int, Runs]
    nonce: str | None = None


class Bye(Struct, frozen=True, kw_only=True, tag="bye"):
    """The end of the connection, with the reason: the terminal is gone, or the viewer was disconnected."""

    why: str


class Keys(Struct, frozen=True, kw_only=True, tag="keys"):
    """The bytes that a viewer typed."""

    data: bytes


ViewerMessage = Frame | Bye


def typing_file(directory: Path, nonce: str) -> Path | None:
    """Return the file in the agent's directory that a viewer creates before it types; None if `nonce` is no nonce."""
    return directory / f"{nonce}.typing" if re.fullmatch("[0-9a-f]{32}", nonce) else None


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
            with short_path(path.parent) as directory:
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
    def hold_keys(self) -> Iterator[None]:
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
        nonce = os.urandom(16).hex()
        try:
            peer = _peer_ids(writer)
            if peer is not None and peer[1] != os.geteuid():
                return
            if peer is not None and (why := _refusal_reason(peer[0])):
                _send_message(writer, Bye(why=why))
                return
            showing = asyncio.create_task(self._send_frames(writer, new, nonce))
            hearing = asyncio.create_task(self._receive_keys(reader, writer, peer[0] if peer else 0, nonce))
            try:
                await asyncio.wait({showing, hearing}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                hearing.cancel()
                showing.cancel()
                await asyncio.wait({showing, hearing})
        except asyncio.CancelledError:
            _send_message(writer, Bye(why=self._why))
        finally:
            del self._connected[me]
            self._take_typing_file(nonce)
            with contextlib.suppress(OSError):
                writer.close()

    def _take_typing_file(self, nonce: str) -> bool:
        """Remove the file that shows that a viewer may type. Return False if there is none."""
        file = typing_file(self._path.parent, nonce) if self._path is not None else None
        try:
            if file is not None:
                file.unlink()
        except OSError:
            return False
        return file is not None

    async def _send_frames(self, writer: asyncio.StreamWriter, new: asyncio.Event, nonce: str) -> None:
        first: str | None = nonce
        sent: list[Runs | None] = [None] * self._window.screen.rows
        with contextlib.suppress(OSError):
            while True:
                new.clear()
                await self._wait_for_frame()
                picture = self._current_picture()
                changed = {row: runs for row, runs in enumerate(picture.rows) if runs is not sent[row]}
                for row, runs in changed.items():
                    sent[row] = runs
                frame = Frame(picture=_without_rows(picture), height=len(picture.rows), changed=changed, nonce=first)
                first = None
                _send_message(writer, frame)
                await writer.drain()
                await asyncio.sleep(FRAME_S)
                await new.wait()

    async def _wait_for_frame(self) -> None:
        """Wait until the agent is not in the middle of drawing, for a moment at most."""
        until = asyncio.get_running_loop().time() + DRAWING_S
        while self._window.screen.is_drawing and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _current_picture(self) -> Picture:
        written = self._window.screen.bytes
        if self._picture is None or self._picture[0] != written:
            self._picture = written, self._painter.picture()
        return self._picture[1]

    async def _receive_keys(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int, nonce: str
    ) -> None:
        may_type = False
        with contextlib.suppress(OSError, ValueError, RecursionError):  # invalid data disconnects the viewer
            while line := await reader.readline():
                data = typed_values.decode(line, Keys).data
                if not data:
                    continue
                may_type = may_type or self._take_typing_file(nonce)
                if not may_type:
                    _send_message(writer, Bye(why=_NO_TYPING_FILE))
                    return
                await self._may_type.wait()
                if pid not in self._noticed:
                    self._noticed.add(pid)
                    self._notice(_user_name())
                self.typed_at = asyncio.get_running_loop().time()
                await self._window.type(data)


def _send_message(writer: asyncio.StreamWriter, told: ViewerMessage) -> None:
    with contextlib.suppress(OSError):
        writer.write(msgspec.json.encode(told) + b"\n")


def _without_rows(picture: Picture) -> Picture:
    return msgspec.structs.replace(picture, rows=())


def _peer_ids(writer: asyncio.StreamWriter) -> tuple[int, int] | None:
    """Return the pid and uid of the other end; None if the system does not say.

    In that case only the directory's mode keeps others out.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, uid, _ = struct.unpack("3i", writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, option, 12))
    return pid, uid


def _refusal_reason(pid: int) -> str | None:
    """Return why the process may not attach: it belongs to an agent's turn, or nobody can tell. Return None if it may
    attach. The pid 0 stands for a process that can't be seen from here."""
    each = pid
    for _ in range(_MAX_ANCESTORS):
        if each <= 1:
            return None
        row = table.stat_of(each)
        if row is None:
            return _GONE.format(pid=pid) if _is_gone(each) else None
        if any(word.startswith(_MARKER) for word in table.environment_of(each)):
            return _NO_AGENTS.format(pid=pid)
        each = row[0]
    return _TOO_DEEP.format(pid=pid)


def _is_gone(pid: int) -> bool:
    """Return whether there is no such process. Another user's process may be there and hidden."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    except OSError:
        pass
    return True


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"
