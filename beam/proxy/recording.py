"""Reads and writes recordings: `model.exchanges.jsonl`, `answers/`, `blobs/`. docs/proxy.md describes the format.

Only one process at a time writes a recording. If that process is killed, everything that it wrote stays readable: the
line of a request is written before the request is sent on, and the events of an answer are appended as they arrive.
Content that is read is not trusted: names are checked, sizes are limited, and links are refused. Does not depend on
sockets.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from beam.base import files, typed_values
from beam.base.errors import CorruptError, NotFoundError, UsageError
from beam.model.outcome import Usage
from beam.model.settings import MIB
from beam.proxy.packing import Packer, Unpacker, blob_name, encode
from beam.proxy.place import OpenFolder
from beam.proxy.private import ANSWER_HEADERS

VERSION = 1
End = Literal["complete", "cut", "failed", "dropped"]
_INDEX_BYTES = 256 * MIB
ANSWER_LIMIT = 256 * MIB  # an answer that is longer is cut
_BLOB_BYTES = 64 * MIB
_BLOB_NAME = re.compile(r"[0-9a-f]{32}\Z")


class RecordingInfo(Struct, frozen=True, kw_only=True):
    """The content of `recording.json`: the version of the format (`v`), the agent CLI ("" if unknown), and the folders
    that its requests may name."""

    v: int = VERSION
    agent: str = ""
    places: dict[str, str] = {}


class RequestLine(Struct, frozen=True, kw_only=True, tag_field="line", tag="request"):
    """A stored request. `n` is its number. `kind`: `ask` (a model call), `count` (a request to count tokens) or
    `other`. `body` is the packed JSON of the body; `raw` is the text of a body that is not JSON."""

    n: int
    at: str
    format: str
    kind: str
    method: str
    path: str
    headers: dict[str, str] = {}
    body: Any = None
    raw: str | None = None


class AnswerLine(Struct, frozen=True, kw_only=True, tag_field="line", tag="answer"):
    """The stored answer to the request with the number `n`. `file` is the file in `answers/` with the answer's body.
    `end`: complete, cut in the middle, failed (the model could not be reached; `error` says why), or dropped (the agent
    disconnected)."""

    n: int
    status: int = 0
    headers: dict[str, str] = {}
    file: str = ""
    end: End = "complete"
    error: str = ""
    usage: Usage = Usage()


RecordLine = RequestLine | AnswerLine
_line_decoder: msgspec.json.Decoder[RecordLine] = msgspec.json.Decoder(RecordLine)


class Exchange(Struct, frozen=True, kw_only=True):
    """One recorded model call. `body` is the unpacked body of the request. The body of the answer is in `events` if it
    is a stream of server-sent events, otherwise in `data`. If the recorder was killed before the answer ended,
    `answer.end` is `cut`."""

    request: RequestLine
    body: Any
    answer: AnswerLine
    events: tuple[bytes, ...] = ()
    data: bytes = b""


def suffix_of(headers: Mapping[str, str]) -> str:
    """Return the suffix (sse, json or body) of the file in which an answer with these headers is stored."""
    kind = headers.get("content-type", "")
    return "sse" if "event-stream" in kind else "json" if "json" in kind else "body"


def split_events(data: bytes) -> list[bytes]:
    """Return the server-sent events in a stream's bytes, each with the blank line after it."""
    return [piece for piece in re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", data) if piece]


class Recording:
    """A recording that was read from disk."""

    def __init__(self, directory: Path) -> None:
        """Read the recording. Raises NotFoundError, CorruptError, DiskError."""
        self.directory = directory
        try:
            data = files.read(directory / "model.exchanges.jsonl", _INDEX_BYTES)
        except FileNotFoundError:
            raise NotFoundError(
                f"{directory} is no recording: it has no model.exchanges.jsonl",
                "make one: beam proxy --record DIR --upstream URL",
                subject=str(directory),
            ) from None
        self.about = read_info(directory)
        self.exchanges = self._read(data)

    def _read(self, data: bytes) -> tuple[Exchange, ...]:
        requests: dict[int, RequestLine] = {}
        answers: dict[int, AnswerLine] = {}
        for number, text in enumerate(data.split(b"\n")[:-1], start=1):  # text after the last newline is half a line
            if not text.strip():
                continue
            try:
                line = _line_decoder.decode(text)
            except (msgspec.DecodeError, RecursionError) as error:
                raise self._corrupt(f"line {number} of model.exchanges.jsonl is not a call: {error}") from error
            if isinstance(line, RequestLine):
                requests[line.n] = line
            else:
                answers[line.n] = line
        unpacker, found = Unpacker(self._blob), []
        for number, request in requests.items():
            try:
                body = unpacker.unpack(number, request.body)
            except CorruptError as error:
                raise self._corrupt(f"call {number} can't be read: {error.message}") from error
            found.append(self._exchange(request, body, answers.get(number)))
        return tuple(found)

    def _exchange(self, request: RequestLine, body: Any, answer: AnswerLine | None) -> Exchange:
        if answer is None:  # the recorder was killed meanwhile
            names = [name for name in _answer_names(request.n) if (self.directory / "answers" / name).exists()]
            kind = "text/event-stream" if names and names[0].endswith("sse") else "application/json"
            headers = {"content-type": kind}
            answer = AnswerLine(n=request.n, status=200, headers=headers, file=next(iter(names), ""), end="cut")
        headers = {name: value for name, value in answer.headers.items() if name in ANSWER_HEADERS}
        answer = msgspec.structs.replace(answer, headers=headers)
        if answer.end != "failed" and not _can_be_sent(answer):
            raise self._corrupt(f"the answer to call {request.n} has a status or a header that no API sends")
        data = b""
        if answer.file:
            if answer.file not in _answer_names(request.n):
                raise self._corrupt(f"call {request.n} names a file {answer.file[:80]!r} that is not its own")
            try:
                data = files.read(self.directory / "answers" / answer.file, 2 * ANSWER_LIMIT)
            except FileNotFoundError:
                raise self._corrupt(f"answers/{answer.file} is missing") from None
        is_stream = answer.file.endswith(".sse")
        events = tuple(split_events(data)) if is_stream else ()
        if events and answer.end != "complete" and not events[-1].endswith((b"\n\n", b"\r\n\r\n")):
            events = events[:-1]
        return Exchange(request=request, body=body, answer=answer, events=events, data=b"" if is_stream else data)

    def _blob(self, name: str) -> tuple[bytes, bool]:
        if not _BLOB_NAME.match(name):
            raise CorruptError(f"{name[:80]!r} is no name of a blob")
        for suffix, is_text in ((".txt", True), (".json", False)):
            with contextlib.suppress(FileNotFoundError):
                data = files.read(self.directory / "blobs" / name[:2] / f"{name}{suffix}", _BLOB_BYTES)
                if blob_name(data, is_text=is_text) != name:
                    raise CorruptError(f"blob {name} is not what was written")
                return data, is_text
        raise CorruptError(f"blob {name} is missing")

    def _corrupt(self, what: str) -> CorruptError:
        return CorruptError(
            f"the recording {self.directory} is damaged: {what}", "record it anew", subject=str(self.directory)
        )


def _can_be_sent(answer: AnswerLine) -> bool:
    """Return whether an answer may have this status and these headers."""
    texts = "".join(answer.headers.values())
    return 200 <= answer.status <= 999 and all(" " <= character <= "\xff" for character in texts)


def read_info(directory: Path) -> RecordingInfo:
    """Return what a recording says of itself. Raises UsageError, CorruptError, DiskError."""
    try:
        about = typed_values.decode(files.read(directory / "recording.json", MIB), RecordingInfo)
    except FileNotFoundError:
        return RecordingInfo()
    except (msgspec.DecodeError, RecursionError) as error:
        raise CorruptError(f"{directory / 'recording.json'}: {error}", "record it anew") from error
    if about.v != VERSION:
        raise UsageError(f"{directory} is a recording of version {about.v}", f"this beam reads version {VERSION}")
    return about


def _answer_names(number: int) -> tuple[str, ...]:
    return tuple(f"{number:06d}.{suffix}" for suffix in ("sse", "json", "body"))


class Recorder:
    """Writes a new recording, or adds calls to an existing one. Thread-safe."""

    def __init__(self, directory: Path, about: RecordingInfo) -> None:
        """Open the recording. Raises DiskError, CorruptError; UsageError if another process writes it."""
        self.directory = directory
        self._mutex = threading.Lock()
        self._top = OpenFolder(directory)
        self._answers = OpenFolder(directory / "answers", within=self._top)
        self._blobs = OpenFolder(directory / "blobs", within=self._top)
        index = directory / "model.exchanges.jsonl"
        with files.disk_action("open", index):
            self._index = files.open_to_write(index, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            fcntl.flock(self._index, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._index)
            raise UsageError(f"another proxy records into {directory}", "give each a directory of its own") from error
        self._packer = Packer(self._put)
        self._next = 1
        with files.disk_action("read", index):
            size = os.fstat(self._index).st_size
            if size and os.pread(self._index, 1, size - 1) != b"\n":  # half a line: the writer was killed
                whole = files.read(index, _INDEX_BYTES).rpartition(b"\n")[0]
                os.ftruncate(self._index, len(whole) + 1 if whole else 0)
                size = os.fstat(self._index).st_size
        if size:
            for exchange in Recording(directory).exchanges:
                self._packer.remember(exchange.request.n, exchange.body)
                self._next = max(self._next, exchange.request.n + 1)
        else:
            self._top.put("recording.json", msgspec.json.format(encode(about), indent=2) + b"\n")

    def begin(self, request: RequestLine) -> int:
        """Store a request and return its number."""
        with self._mutex:
            number = self._next
            self._next += 1
            packed = self._packer.pack(number, request.body)
            self._append(msgspec.structs.replace(request, n=number, body=packed))
        return number

    def answer(self, number: int, suffix: str) -> AnswerFile:
        """Create the file for the answer to the request with this number, and return it open."""
        return AnswerFile(self._answers, f"{number:06d}.{suffix}")

    def end(self, answer: AnswerLine) -> None:
        """Store how a request was answered."""
        with self._mutex:
            self._append(answer)

    def close(self) -> None:
        """Close the recording, so that another process can write it."""
        os.close(self._index)
        for place in (self._blobs, self._answers, self._top):
            place.close()

    def _append(self, line: RecordLine) -> None:
        with files.disk_action("write", self.directory / "model.exchanges.jsonl"):
            files.write_all(self._index, encode(line) + b"\n")

    def _put(self, data: bytes, is_text: bool) -> str:
        name = blob_name(data, is_text=is_text)
        file = f"{name}{'.txt' if is_text else '.json'}"
        with OpenFolder(self._blobs.path / name[:2], within=self._blobs) as place:
            if not place.has(file):
                place.put(file, data)
        return name


class AnswerFile:
    """The file of one answer while it is written."""

    def __init__(self, place: OpenFolder, name: str) -> None:
        self.path = place.path / name
        self._place = place
        self._handle = place.create_file(name)

    def add(self, data: bytes) -> None:
        """Append bytes. Raises DiskError."""
        try:
            files.write_all(self._handle, data)
        except OSError as error:
            raise files.disk_error("write", self.path, error) from error

    def close(self, instead: bytes | None = None) -> None:
        """Close the file. With `instead`, the whole content is replaced by these bytes."""
        os.close(self._handle)
        if instead is not None:
            self._place.put(self.path.name, instead)
