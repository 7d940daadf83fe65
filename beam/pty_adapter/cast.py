"""Writes and reads recordings of a terminal in asciicast v2 (https://docs.asciinema.org/manual/asciicast/v2/).

Each line is a JSON value: first a header, then lines `[seconds, kind, text]`. The kind is `o` for output of the
program, `i` for typed text, `m` for a mark. In recordings by beam, secrets are replaced, even those that become visible
only when the recording is played. The caller opens the files. Does not depend on whose terminal it is.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, BinaryIO, Literal

from msgspec import Struct, structs

from beam.pty_adapter.blank import SecretDetector, blank_secrets
from beam.secrets.redact import Stream, redact

LONGEST_S = 7 * 86400.0  # the longest recording: a longer one would play for ever
MAX_BYTES = 16 * 1024 * 1024
MAX_HELD_BYTES = 2 * 1024 * 1024  # searching them for secrets takes seconds
CUT_NOTICE = "cut: the recording is as long as it may be"
HELD_NOTICE = "held back: a secret is on the screen; the recording is written when the turn is over"
LEFT_OUT_NOTICE = "left out: a secret was on the screen, and could not be blanked"

Kind = Literal["o", "i", "m"]


class Moment(Struct, frozen=True):
    """One line of a recording. `kind` is o (output), i (typed text) or m (a mark)."""

    seconds: float
    kind: Kind
    text: str


class Recorder:
    """Writes a recording to `file`, which must be readable and writable.

    After `most` bytes, the recorder adds only a mark that says that the rest is missing. The recorder also draws the
    screen that a viewer of the recording would see. When a secret appears on it, the recorder empties the file and
    keeps the recording in memory. At the end it writes the recording without the characters of the secret. `now`
    returns monotonic seconds. Raises OSError if the disk is full.
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
        most: int = MAX_BYTES,
    ) -> None:
        self._file = file
        self._now = now
        self._began = now()
        self._most = most
        self._size = 0
        self._is_cut = False
        self._held: list[Moment] | None = None
        self._columns, self._rows = columns, rows
        self._player = SecretDetector(columns, rows)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stream = Stream()
        header = {"version": 2, "width": columns, "height": rows, "timestamp": timestamp, "title": title}
        self._header = json.dumps({**header, "env": {"TERM": "xterm-256color"}}, ensure_ascii=False)
        self._put(self._header)

    def record_output(self, data: bytes) -> None:
        """Record output of the program."""
        if not self._is_cut:
            self._add_moment("o", self._stream.feed(self._decoder.decode(data)))

    def record_typed(self, data: bytes) -> None:
        """Record typed text immediately, as one piece."""
        self._add_moment("i", redact(data.decode("utf-8", "replace"))[0])

    def mark(self, text: str) -> None:
        """Record an event that is not visible on the screen."""
        self._add_moment("m", redact(text)[0])

    def end(self) -> None:
        """Finish the recording."""
        self._add_moment("o", self._stream.feed(self._decoder.decode(b"", final=True)) + self._stream.end())
        if self._held is not None:
            self._restart()
            for moment in _without_secrets(_first_moments(self._held), self._columns, self._rows):
                self._put(_line(moment))
        self._file.flush()

    def _add_moment(self, kind: Kind, text: str) -> None:
        if not text or self._is_cut:
            return
        moment = Moment(round(self._now() - self._began, 3), kind, text)
        if self._size + len(_line(moment)) > self._most:
            self._is_cut = True
            moment = Moment(moment.seconds, "m", CUT_NOTICE)
        elif kind == "o" and self._held is None and self._player.shows_secret(text):
            self._hold_back(moment.seconds)
        if self._held is None:
            self._put(_line(moment))
        else:
            self._size += len(_line(moment))
            self._held.append(moment)

    def _hold_back(self, seconds: float) -> None:
        """Move what was recorded from the file into memory until `end`, because it contains parts of a secret."""
        try:
            self._file.flush()
            self._file.seek(0)
            self._held = [*read(self._file.read()).moments]
        finally:
            self._restart()
        self._put(_line(Moment(seconds, "m", HELD_NOTICE)))
        self._file.flush()

    def _restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._put(self._header)

    def _put(self, line: str) -> None:
        data = line.encode("utf-8", "replace") + b"\n"
        self._size += len(data)
        self._file.write(data)


def _line(moment: Moment) -> str:
    return json.dumps([moment.seconds, moment.kind, moment.text], ensure_ascii=False)


def _first_moments(moments: list[Moment]) -> list[Moment]:
    """Return the first moments up to a size that can be searched for secrets in reasonable time (`MAX_HELD_BYTES`). If
    some are left out, a mark says so."""
    sizes = accumulate(len(_line(moment)) for moment in moments)
    fitting = [moment for moment, size in zip(moments, sizes, strict=True) if size <= MAX_HELD_BYTES]
    return (
        fitting if len(fitting) == len(moments) else [*fitting, Moment(moments[len(fitting)].seconds, "m", CUT_NOTICE)]
    )


def _without_secrets(moments: list[Moment], columns: int, rows: int) -> list[Moment]:
    """Return the moments without the characters that drew secrets. If that is impossible, return them without any
    output, after a mark that says so."""
    texts = blank_secrets([moment.text for moment in moments if moment.kind == "o"], columns, rows)
    if texts is None:
        return [Moment(0.0, "m", LEFT_OUT_NOTICE), *(moment for moment in moments if moment.kind != "o")]
    rest = iter(texts)
    return [structs.replace(moment, text=next(rest)) if moment.kind == "o" else moment for moment in moments]


class NoCastError(Exception):
    """The file is not a recording in asciicast v2. The message says what is wrong with the file."""


class Cast(Struct, frozen=True, kw_only=True):
    """A recording in memory: the size and title of the terminal, and the moments."""

    columns: int
    rows: int
    title: str
    moments: tuple[Moment, ...]


def read(data: bytes) -> Cast:
    """Return the recording in these bytes. An incomplete last line is left out. Raises NoCastError."""
    lines = data.decode("utf-8", "replace").split("\n")
    header = _parse_json(lines[0])
    if not isinstance(header, dict) or header.get("version") != 2:
        raise NoCastError("its first line is no header of asciicast version 2")
    columns, rows = header.get("width"), header.get("height")
    if not (isinstance(columns, int) and isinstance(rows, int) and 0 < columns <= 1000 and 0 < rows <= 1000):
        raise NoCastError(f"a terminal can't have the size {columns} x {rows}")
    return Cast(columns=columns, rows=rows, title=str(header.get("title") or ""), moments=tuple(_moments(lines[1:])))


def _moments(lines: list[str]) -> Iterator[Moment]:
    for number, line in enumerate(lines, 2):
        value = _parse_json(line)
        match value:
            case [int() | float() as seconds, "o" | "i" | "m" as kind, str() as text]:
                if not -LONGEST_S <= seconds <= LONGEST_S:
                    raise NoCastError(f"line {number} has an impossible time")
                yield Moment(float(seconds), kind, text)
            case [int() | float(), str(), str()]:
                continue
            case _ if line.strip() and number <= len(lines):
                raise NoCastError(f"line {number} is not a line of a recording")


def _parse_json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
