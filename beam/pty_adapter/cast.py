"""Recordings of a terminal in asciicast v2 (https://docs.asciinema.org/manual/asciicast/v2/), written and read.

One JSON value a line: a header, then `[seconds, kind, text]`; `o` is what the program wrote, `i` what was typed, `m` a
mark. What beam writes has its secrets blanked, and an end. Files are handed in; must not know whose terminal it is.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Literal

from msgspec import Struct

from beam.redact import Stream, redact

MOST_BYTES = 16 * 1024 * 1024
CUT = "cut: the recording is as long as it may be"

Kind = Literal["o", "i", "m"]


class Moment(Struct, frozen=True):
    """One line of a recording. `kind`: o (written), i (typed), m (a mark); others are left out."""

    seconds: float
    kind: Kind
    text: str


class Recorder:
    """Writes a recording. `now` gives monotonic seconds; after `most` bytes nothing but a mark that says so is added.

    Raises OSError where the disk has no room.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        columns: int,
        rows: int,
        title: str,
        timestamp: int,
        now: Callable[[], float],
        most: int = MOST_BYTES,
    ) -> None:
        self._file = file
        self._now = now
        self._began = now()
        self._most = most
        self._size = 0
        self._is_cut = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stream = Stream()
        header = {"version": 2, "width": columns, "height": rows, "timestamp": timestamp, "title": title}
        self._put(json.dumps({**header, "env": {"TERM": "xterm-256color"}}, ensure_ascii=False))

    def wrote(self, data: bytes) -> None:
        """The program wrote this."""
        if not self._is_cut:
            self._say("o", self._stream.feed(self._decoder.decode(data)))

    def typed(self, data: bytes) -> None:
        """This was typed, at once and whole."""
        self._say("i", redact(data.decode("utf-8", "replace"))[0])

    def mark(self, text: str) -> None:
        """Something happened that one does not see."""
        self._say("m", redact(text)[0])

    def end(self) -> None:
        """The recording is whole."""
        self._say("o", self._stream.feed(self._decoder.decode(b"", final=True)) + self._stream.end())
        self._file.flush()

    def _say(self, kind: Kind, text: str) -> None:
        if not text or self._is_cut:
            return
        line = json.dumps([self._seconds(), kind, text], ensure_ascii=False)
        if self._size + len(line) > self._most:
            self._is_cut = True
            line = json.dumps([self._seconds(), "m", CUT])
        self._put(line)

    def _seconds(self) -> float:
        return round(self._now() - self._began, 3)

    def _put(self, line: str) -> None:
        data = line.encode("utf-8", "replace") + b"\n"
        self._size += len(data)
        self._file.write(data)


class NoCastError(Exception):
    """The file is no asciicast v2; the message says what is wrong with it."""


class Cast(Struct, frozen=True, kw_only=True):
    """A recording, read."""

    columns: int
    rows: int
    title: str
    moments: tuple[Moment, ...]


def read(data: bytes) -> Cast:
    """The recording. A last line that is torn is left out. Raises NoCastError."""
    lines = data.decode("utf-8", "replace").split("\n")
    header = _value(lines[0])
    if not isinstance(header, dict) or header.get("version") != 2:
        raise NoCastError("its first line is no header of asciicast version 2")
    columns, rows = header.get("width"), header.get("height")
    if not (isinstance(columns, int) and isinstance(rows, int) and 0 < columns <= 1000 and 0 < rows <= 1000):
        raise NoCastError(f"no terminal has the size {columns} x {rows}")
    return Cast(columns=columns, rows=rows, title=str(header.get("title") or ""), moments=tuple(_moments(lines[1:])))


def _moments(lines: list[str]) -> Iterator[Moment]:
    for number, line in enumerate(lines, 2):
        value = _value(line)
        match value:
            case [int() | float() as seconds, "o" | "i" | "m" as kind, str() as text]:
                yield Moment(float(seconds), kind, text)
            case [int() | float(), str(), str()]:
                continue
            case _ if line.strip() and number <= len(lines):
                raise NoCastError(f"line {number} is no moment of a recording")


def _value(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
