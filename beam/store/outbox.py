"""The outbox of a turn: a folder in which the turn's agent writes requests and the turn's holder writes the answers.

The agent and the holder don't trust each other, and the agent may do anything in the folder. So the holder uses a
descriptor of the folder that it created, and accepts only regular files with one hard link and of limited size. Does
not depend on queues, journals, or permissions.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from beam.base import files, typed_values
from beam.base.errors import BeamError, DiskError, ExitCode, RefusedFileError, UnfinishedError
from beam.base.typed_values import escape_surrogates
from beam.model.message import ID, Options
from beam.model.outcome import Outcome

TURN_JSON = "turn.json"  # exists while a turn is open; a process that outlives its turn checks for it
_MAX_NAMES = 1_000  # of requests that are listed at once; further requests wait
_SETTLED_S = 1.0  # a file that is no JSON and younger than this may still be written
_ANSWER_BYTES = 256 * 1024 * 1024  # an outcome with its reply


class Request(Struct, frozen=True, kw_only=True):
    """A request of an agent: a file `<name>.json`.

    `verb` is one of four. `send`: send a message to the agent `to`; the answer comes when the message is accepted, and
    with `wait` a second answer comes with its outcome. `reply`: answer the mailbox message `target` (`failed`: the text
    says why there is no answer). `interrupt`: stop the message `target`. `deny`: deny the permission request `target`;
    with `stop`, also end its turn. `deadline` is in seconds. `replies` is how many answers are routed (None: as the
    limits say).
    """

    v: int = 1
    verb: Literal["send", "reply", "interrupt", "deny"] = "send"
    to: str = ""
    text: str = ""
    wait: bool = False
    target: str = ""
    attach: tuple[str, ...] = ()
    options: Options = Options()
    key: str | None = None
    deadline: float | None = None
    replies: int | None = None
    failed: bool = False
    stop: bool = False


class Refusal(Struct, frozen=True, kw_only=True):
    """The reason why a request was not carried out, with the fields of a beam error. `exit_code` is the exit code that
    a command with this error would have."""

    message: str
    hint: str = ""
    subject: str | None = None
    kind: str = "error"
    exit_code: int = int(ExitCode.FAILED)


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to a request: a file `<name>.answer`. For a `send` with `wait`, it is replaced once by the answer with
    the outcome.

    `accepted` is the id of the accepted message; `said` describes in words what was done.
    """

    v: int = 1
    accepted: str | None = None
    said: str = ""
    outcome: Outcome | None = None
    refused: Refusal | None = None


class OpenTurn(Struct, frozen=True, kw_only=True):
    """The turn whose requests are carried out at the moment."""

    v: int = 1
    agent: str
    message_id: str


def refusal_of(error: BeamError) -> Refusal:
    """Return the error as a refusal, the form in which the requesting process gets it."""
    return Refusal(
        message=error.message, hint=error.hint, subject=error.subject, kind=error.kind, exit_code=int(error.exit_code)
    )


def sent_but_over(message_id: str) -> UnfinishedError:
    """Return the error for a process that waits for the outcome of a message that it sent, and whose own turn ended."""
    return UnfinishedError(
        f"{message_id} was sent; the turn that waited is over",
        f"don't send it again; beam wait {message_id}",
        subject=message_id,
    )


# -- the holder's side -------------------------------------------------------------------------------------------------


class OutboxFolder:
    """An outbox as the turn's holder uses it: through an open descriptor, which refers to the same folder even if the
    path is renamed or replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._handle = files.open_directory(path, follow=False)
        except OSError as error:
            raise files.disk_error("open", path, error) from error

    @classmethod
    def make(cls, path: Path) -> OutboxFolder:
        """Create the folder, accessible to its owner only, and open it. Raises DiskError."""
        files.make_directory(path)
        return cls(path)

    @property
    def is_gone(self) -> bool:
        """Return whether the folder was removed."""
        return self._handle < 0 or os.fstat(self._handle).st_nlink == 0

    def close(self) -> None:
        """Close the folder's descriptor."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def names(self, besides: Collection[str] = ()) -> list[str]:
        """Return the names of requests (without `.json`), sorted, without the names in `besides`. At most a thousand
        are returned."""
        found: list[str] = []
        with contextlib.suppress(OSError), os.scandir(self._handle) as entries:
            for entry in entries:
                name = entry.name.removesuffix(".json")
                if entry.name.endswith(".json") and entry.name != TURN_JSON and name not in besides:
                    found.append(name)
                    if len(found) == _MAX_NAMES:
                        break
        return sorted(found)

    def read(self, name: str, limit: int) -> Request | None:
        """Return the request; None if its file may not be completely written yet. Raises RefusedFileError for any other
        file that is not a request."""
        if not ID.match(name):
            raise RefusedFileError(f"{name[:80]!r} is no name of a request", "use a-z, 0-9, _ and -", subject=name[:80])
        file = f"{name}.json"
        data = files.read_at(self._handle, file, limit, owner=os.getuid())
        try:
            return typed_values.decode(data, Request)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            with contextlib.suppress(OSError):
                age = time.time() - os.stat(file, dir_fd=self._handle, follow_symlinks=False).st_mtime
                if 0 <= age < _SETTLED_S:
                    return None
            raise RefusedFileError(f"{file} is no request: {error}", subject=name) from error

    def answer(self, name: str, answer: Answer) -> None:
        """Publish the answer. If the agent itself made something of that name that can't be replaced, the agent gets no
        answer."""
        try:
            data = msgspec.json.encode(answer)
        except UnicodeEncodeError:  # it contains a file name that is not UTF-8
            data = msgspec.json.encode(escape_surrogates(answer))
        self._publish(f"{name}.answer", data)

    def open_turn(self, turn: OpenTurn) -> None:
        """Announce that requests are carried out from now on."""
        self._publish(TURN_JSON, msgspec.json.encode(turn))

    def close_turn(self) -> None:
        """Announce that no requests are carried out now."""
        self.remove(TURN_JSON.removesuffix(".json"))

    def remove(self, name: str) -> bool:
        """Remove the request. Return False if that is impossible (because it is a directory, say). A folder that the
        agent made read-only is made writable again."""
        with contextlib.suppress(OSError):
            os.fchmod(self._handle, 0o700)
        try:
            os.unlink(f"{name}.json", dir_fd=self._handle)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _publish(self, name: str, data: bytes) -> None:
        temporary = f".{name}.holder"
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self._handle)
            files.write_at(self._handle, temporary, data + b"\n")
            os.rename(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)


def abandoned_outboxes(turns: Path) -> Iterator[tuple[str, OutboxFolder]]:
    """Yield the outboxes below the folder `turns` that a dead holder left. Each comes as the key of its turn and the
    opened outbox."""
    for key in files.names(turns):
        path = turns / key / "outbox"
        with contextlib.suppress(DiskError, OSError):
            if stat.S_ISDIR(path.lstat().st_mode):
                yield key, OutboxFolder(path)


# -- the agent's side --------------------------------------------------------------------------------------------------


def publish(folder: Path, name: str, request: Request) -> None:
    """Write a request into the folder, where the turn's holder finds it. Raises DiskError."""
    files.publish(folder / f".{name}.tmp", folder / f"{name}.json", msgspec.json.encode(request) + b"\n")


def take_back(folder: Path, name: str) -> bool:
    """Remove a request that the holder did not take yet. Return False if the holder took it."""
    try:
        (folder / f"{name}.json").unlink()
    except OSError:
        return False
    return True


def read_answer(folder: Path, name: str) -> Answer | None:
    """Return the holder's newest answer to the request; None if there is none yet. Raises DiskError."""
    try:
        data = files.read(folder / f"{name}.answer", _ANSWER_BYTES)
    except FileNotFoundError:
        return None
    try:
        return typed_values.decode(data, Answer)
    except (ValueError, RecursionError) as error:
        raise RefusedFileError(f"the answer to {name} is damaged: {error}", subject=name) from error


def is_open(folder: Path) -> bool:
    """Return whether the holder carries out requests in this folder at the moment."""
    return (folder / TURN_JSON).exists()
