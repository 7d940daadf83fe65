"""Reads the new content of one session's file as events.

Reading has limits and no side effects. Links are not followed, and only regular files of this user are read. A line
over its limit is skipped and reported; a document over its limit is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from beam.agents.session_files import ReadsBeside, Session, SessionReader
from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import DiskError
from beam.foreign.places import SessionPlace
from beam.model.events import Event, Notice

PIECE = 1 << 20
LONGEST = 8 << 20  # bytes of a line
LARGEST = 32 << 20  # bytes of a document
HEAD = 64 * 1024  # bytes at the beginning of a file that is followed from its end: they name the session
BACK = 64 << 20  # how far back a file is read
_BESIDE_BYTES = 64 * 1024

Found = tuple[Session, Event]


class Tail:
    """One session file of a place. `offset` is the number of bytes that were already read."""

    def __init__(
        self, place: SessionPlace, path: str, offset: int = 0, *, since_ms: int = 0, is_cut: bool = False
    ) -> None:
        self.place = place
        self.path = path
        self.offset = offset
        self.inode = 0
        self._reader: SessionReader | None = None
        self._rest = b""
        self._skips = is_cut  # the offset lies in the middle of a line
        self._since_ms = since_ms
        self._is_beside_read = False

    @property
    def session(self) -> Session:
        """Return the known data of the file's session."""
        return self.reader.session

    @property
    def reader(self) -> SessionReader:
        """Return the reader of this file. If reading starts in the middle of a file of lines, the first call passes the
        head of the file to the reader, because the head names the session."""
        if self._reader is None:
            self._reader = self.place.reader(self.path)
            if self.offset and self.place.shape == "lines":
                for line in self._read_bytes(0, min(HEAD, self.offset)).split(b"\n")[:-1]:
                    self._reader.read(line)
        if not self._is_beside_read:
            self._read_beside(self._reader)
        return self._reader

    def session_of_file(self) -> Session:
        """Return the session that the file belongs to, without changing the reading position. Of a file of lines, only
        the head is read."""
        reader = self.place.reader(self.path)
        self._read_beside(reader)
        self._is_beside_read = False
        if self.place.shape == "lines":
            for line in self._read_bytes(0, HEAD).split(b"\n")[:-1]:
                reader.read(line)
        else:
            reader.read(self._read_bytes(0, LARGEST))
        return reader.session

    def read(self) -> Iterator[Found]:
        """Yield (session, event) for each new event, in order."""
        match self.place.shape:
            case "lines":
                yield from self._read_lines()
            case "document":
                yield from self._read_document()
            case _:
                yield from self._read_rows()

    @property
    def written(self) -> str:
        """Return the time when the file was last written, in RFC 3339. Events without a time of their own get this
        time."""
        try:
            return rfc3339(os.lstat(self.path).st_mtime_ns)
        except OSError:
            return rfc3339(0)

    def mark_as_read(self) -> None:
        """Mark the present content of the file as read."""
        if self.place.shape == "document":
            for _ in self._read_document():
                pass

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _read_lines(self) -> Iterator[Found]:
        reader = self.reader
        while data := self._read_piece():
            *ends, rest = data.split(b"\n")
            lines = [self._rest + ends[0], *ends[1:]] if ends else []
            self._rest = rest if ends else self._rest + rest
            for number, line in enumerate(lines):
                if number == 0 and self._skips:
                    self._skips = False
                    continue
                if len(line) > LONGEST:
                    yield reader.session, _too_long(len(line))
                    continue
                for event in reader.read(line):
                    yield reader.session, event
            if len(self._rest) > LONGEST and not self._skips:
                self._skips = True
                yield reader.session, _too_long(len(self._rest))
            if self._skips:
                self._rest = b""

    def _read_piece(self) -> bytes:
        try:
            handle = files.open_to_read(self.path, quietly=True)
        except (OSError, DiskError):
            return b""
        try:
            found = os.fstat(handle)
            if found.st_uid != os.geteuid():
                return b""
            if found.st_size < self.offset or (self.inode and found.st_ino != self.inode):
                self.offset, self._rest, self._skips = 0, b"", False  # rewritten: events with an id are not repeated
            self.inode = found.st_ino
            if found.st_size == self.offset:
                return b""
            if found.st_size - self.offset > BACK:
                self.offset, self._rest, self._skips = found.st_size - BACK, b"", True
            data = os.pread(handle, PIECE, self.offset)
        except OSError:
            return b""
        finally:
            os.close(handle)
        self.offset += len(data)
        return data

    def _read_bytes(self, start: int, count: int) -> bytes:
        return _own_bytes(self.path, start, count)

    # -- documents -----------------------------------------------------------------------------------------------------

    def _read_document(self) -> Iterator[Found]:
        data = self._read_bytes(0, LARGEST + 1)
        if not data or len(data) > LARGEST:
            return
        reader = self.reader
        for event in reader.read(data):
            yield reader.session, event

    # -- databases -----------------------------------------------------------------------------------------------------

    def _read_rows(self) -> Iterator[Found]:
        from beam.foreign import database

        rows: Sequence[tuple[int, bytes]]
        rows = database.rows(self.path, self.place.sessions.files.query, since_ms=self._since_ms)
        reader = self.reader
        for at_ms, row in rows:
            self._since_ms = max(self._since_ms, at_ms)
            for event in reader.read(row):
                yield reader.session, event

    def _read_beside(self, reader: SessionReader) -> None:
        beside = self.place.sessions.files.beside
        if not beside or not isinstance(reader, ReadsBeside):
            self._is_beside_read = True
            return
        path = os.path.normpath(f"{os.path.dirname(self.path)}/{beside}")  # noqa: PTH120 - texts
        data = _own_bytes(path, 0, _BESIDE_BYTES + 1)
        if not data or len(data) > _BESIDE_BYTES:
            return
        reader.beside(data)
        self._is_beside_read = bool(reader.session.cwd)


def _own_bytes(path: str, start: int, count: int) -> bytes:
    """Return at most `count` bytes of a regular file of this user, from the position `start`; b"" if it is not such a
    file or can't be read."""
    try:
        with files.open_reader(path) as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return b""
            file.seek(start)
            return file.read(count)
    except (OSError, DiskError):
        return b""


def _too_long(size: int) -> Event:
    return Notice(text=f"a line of {size / 2**20:.0f} MiB or more was left out", code="too_large")
