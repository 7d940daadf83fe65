"""Shows an agent's terminal in another process, and types into it. The process that holds the agent serves the
terminal."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from pathlib import Path

import msgspec

from beam.base import files, own_program
from beam.base.errors import BeamError, LimitError, NotFoundError, UnsupportedError
from beam.broker.inbox.context import RootContext
from beam.pty_adapter.picture import Picture, Runs
from beam.root.paths import AgentPaths
from beam.store.segment import read_state
from beam.turns.terminal import nearby, viewers

_PIECE_BYTES = 8 * 1024  # of keys in one line
_MAX_KEYS = 256 * 1024  # bytes of keys that may wait while the agent takes none
_APPEARS_S = 3.0  # how long a turn that has begun may take to open its terminal
_FRAME_BYTES = 64 * 1024 * 1024
_decoder: msgspec.json.Decoder[viewers.ViewerMessage] = msgspec.json.Decoder(viewers.ViewerMessage)


class Attached:
    """A connection to an agent's terminal. `picture` is the newest picture of the screen, None before the first one.
    `why` is None until the terminal is gone; then it is the reason.

    `directory` is the agent's directory, in which the viewer creates a file before it types: the holder requires that,
    because an agent can't do it.
    """

    def __init__(self, agent: str, connection: socket.socket, directory: Path | None = None) -> None:
        self.agent = agent
        self.picture: Picture | None = None
        self.why: str | None = None
        self._connection = connection
        self._connection.setblocking(False)
        self._rest = b""
        self._keys = b""
        self._rows: list[Runs] = []
        self._directory = directory
        self._nonce = ""

    def fileno(self) -> int:
        """Return the descriptor for `select`. It is readable when `look` has something to read."""
        return self._connection.fileno()

    @property
    def has_keys(self) -> bool:
        """Return whether keys wait that can be sent. If so, call `send` when the descriptor is writable."""
        return bool(self._keys) and (self.picture is not None or self._directory is None)

    def look(self) -> None:
        """Read everything that the holder has sent, without waiting. Raises BeamError if the data can't be
        understood."""
        while self.why is None:
            try:
                data = self._connection.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.why = "its holder went away"
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > _FRAME_BYTES:
                raise BeamError(
                    f"the process that runs {self.agent} sends no pictures of its terminal", "beam broker status"
                )
            for line in lines:
                self._handle(line)

    def _handle(self, line: bytes) -> None:
        try:
            frame = _decoder.decode(line)
        except (ValueError, RecursionError) as error:
            hint = "its broker may be of another version: beam broker status"
            raise BeamError(
                f"the process that runs {self.agent} sends data that this version of beam does not know", hint
            ) from error
        if isinstance(frame, viewers.Bye):
            self.why = self.why or frame.why
        elif 0 <= frame.height <= 10_000:
            self._show(frame)

    def _show(self, frame: viewers.Frame) -> None:
        self._rows = [*self._rows[: frame.height], *[()] * (frame.height - len(self._rows))]
        for row, runs in frame.changed.items():
            if 0 <= row < frame.height:
                self._rows[row] = runs
        self.picture = msgspec.structs.replace(frame.picture, rows=tuple(self._rows))
        self._nonce = frame.nonce or self._nonce

    def press(self, keys: bytes) -> bool:
        """Send keys; keys that can't be sent immediately wait for the next `send`. No key is sent before the first
        picture was read. Return False, and drop the new keys, if too many keys wait already. Raises DiskError."""
        if len(self._keys) + len(keys) > _MAX_KEYS:
            return False
        for at in range(0, len(keys), _PIECE_BYTES):
            self._keys += msgspec.json.encode(viewers.Keys(data=keys[at : at + _PIECE_BYTES])) + b"\n"
        self.send()
        return True

    def send(self) -> None:
        """Send as many of the waiting keys as can be sent without waiting. Raises DiskError."""
        if not self.has_keys:
            return
        self._create_typing_file()
        try:
            while self._keys:
                self._keys = self._keys[self._connection.send(self._keys) :]
        except BlockingIOError:
            return
        except OSError:  # the holder's last words can still be read
            self._keys = b""

    def _create_typing_file(self) -> None:
        """Create the file that the holder asked for; the holder removes it. An older holder asks for none."""
        nonce, self._nonce = self._nonce, ""
        file = viewers.typing_file(self._directory, nonce) if self._directory is not None else None
        if file is not None:
            with files.disk_action("write", file):
                os.close(files.open_to_write(file, os.O_WRONLY | os.O_CREAT))

    def close(self) -> None:
        """Close the connection; the agent's terminal stays open."""
        self._connection.close()


def attach(context: RootContext, paths: AgentPaths) -> Attached:
    """Connect to the terminal of the agent, or to the terminal of its `--once` message that runs now.

    Raises NotFoundError if there is no terminal now, UnsupportedError if the agent's turn runs in another mode,
    LimitError if the terminal belongs to another user.
    """
    own_program.wait_until_held()
    deadline = time.monotonic() + _APPEARS_S
    while True:
        here = [paths, *paths.lanes()]
        for each in here:
            connection = _connect(each.dir)
            if connection is not None:
                return Attached(paths.agent, connection, each.dir)
        turns = [
            turn for each in here if (turn := read_state(each.journal).open_turn) is not None and not turn.finished
        ]
        if not any(turn.via == "terminal" for turn in turns) or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    if turns and turns[0].via != "terminal":
        raise UnsupportedError(
            f"the turn of {paths.agent} runs with --via {turns[0].via}, which has no screen",
            f"beam watch {paths.agent} shows its events; to have a screen: beam send {paths.agent} --via terminal …",
            subject=paths.agent,
        )
    raise NotFoundError(
        f"{paths.agent} has no terminal now",
        f"beam send {paths.agent} --via terminal …; a broker keeps it after the turn",
        subject=paths.agent,
    )


def _connect(directory: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with nearby.short_path(directory) as short:
            connection.connect(str(short / "terminal.sock"))
    except PermissionError as error:
        connection.close()
        raise LimitError(
            f"the terminal in {directory} is another user's", "ask them", subject=str(directory)
        ) from error
    except OSError:
        connection.close()
        return None
    return connection


def picture_of(attached: Attached, *, seconds: float = 5.0) -> Picture:
    """Return the present picture of the screen, waiting up to `seconds` for it, and close the connection. Raises
    NotFoundError if no picture came in that time."""
    deadline = time.monotonic() + seconds
    with contextlib.closing(attached):
        while attached.picture is None and attached.why is None and (left := deadline - time.monotonic()) > 0:
            select.select([attached], [], [], left)
            attached.look()
    if attached.picture is None:
        why = attached.why or f"its holder did not answer within {seconds:g} s"
        raise NotFoundError(
            f"can't show the terminal of {attached.agent}: {why}", "beam status", subject=attached.agent
        )
    return attached.picture
