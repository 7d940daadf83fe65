"""Reads the new content of one session's file as events.

Reading has limits and no side effects. Links are not followed, and only regular files of this user are read. What is
left out, because it is over a limit or because nobody understands it, is counted, and said once for each file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from beam.agents.session_files import (
    MOST_ROWS,
    ReadsBeside,
    Session,
    SessionReader,
    SharedRecords,
    SharesRecords,
)
from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import DiskError
from beam.foreign import compressed, database
from beam.foreign.places import SessionPlace
from beam.foreign.unreadable import LeftOut, UnreadableError, left_out_text
from beam.model.events import Event, Notice, Unknown

PIECE = 1 << 20
LONGEST = 8 << 20  # bytes of a line
LARGEST = 32 << 20  # bytes of a document
HEAD = 64 * 1024  # bytes at the beginning of a file that is followed from its end: they name the session
BACK = 64 << 20  # how far back a file is read
_BESIDE_BYTES = 64 * 1024
NOTICES = ("unreadable", "unknown_records", "too_large")  # the codes of the notices about what was left out
_BOM = b"\xef\xbb\xbf"

Found = tuple[Session, Event]


class Tail:
    """One session file of a place. `offset` is the number of bytes that were already read, `left_out` counts the
    records that were not read. `skipped` is the number of bytes at the beginning that were passed over unread."""

    def __init__(
        self,
        place: SessionPlace,
        path: str,
        offset: int = 0,
        *,
        since_ms: int = 0,
        is_cut: bool = False,
        shared: SharedRecords | None = None,
    ) -> None:
        self.place = place
        self.path = path
        self.offset = offset
        self.inode = 0
        self.left_out = LeftOut()
        self.skipped = 0
        self._shape = place.shape(path)
        self._reader: SessionReader | None = None
        self._shared = shared
        self._rest = b""
        self._skips = is_cut  # the offset lies in the middle of a line
        self._since_ms = since_ms
        self._is_beside_read = False
        self._said: set[str] = set()
        self._odd_rows: set[int] = set()

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
            if self.offset:
                for line in self._head_lines(self.offset):
                    self._reader.read(line)
            if self._shared is not None and isinstance(self._reader, SharesRecords):
                self._reader.share(self._shared)
        if not self._is_beside_read:
            self._read_beside(self._reader)
        return self._reader

    def session_of_file(self) -> Session:
        """Return the session that the file belongs to, without changing the reading position. Of a file of lines, only
        the head is read."""
        reader = self.place.reader(self.path)
        self._read_beside(reader)
        self._is_beside_read = False
        if self._shape == "document":
            reader.read(_own_bytes(self.path, 0, LARGEST))
        for line in self._head_lines(HEAD):
            reader.read(line)
        return reader.session

    def read(self) -> Iterator[Found]:
        """Yield (session, event) for each new event, in order. A notice says what was left out: once what is lost, and
        once which types of records are unknown."""
        match self._shape:
            case "lines" | "compressed":
                found = self._read_lines()
            case "document":
                found = self._read_document()
            case "database":
                found = self._read_rows()
            case _:
                found = self._read_nothing()
        for session, event in found:
            if isinstance(event, Unknown):
                self.left_out.add(event.what)
            else:
                yield session, event
        code = "unreadable" if self.left_out.is_loss() else "unknown_records"
        if self.left_out.counts and code not in self._said:
            self._said |= {code, "unknown_records"}
            yield self.reader.session, Notice(text=f"{left_out_text(self.left_out.counts)} ({self.path})", code=code)

    def read_to_end(self) -> Iterator[Found]:
        """Yield what `read` does for a file that nobody writes any more: a last line without a line break is whole or
        lost."""
        yield from self.read()
        rest, self._rest = self._rest, b""
        for event in self.reader.read(rest):
            if isinstance(event, Unknown):
                self.left_out.add(event.what)
            else:
                yield self.reader.session, event

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
        if self._shape == "document":
            for _ in self._read_document():
                pass

    def _read_nothing(self) -> Iterator[Found]:
        if not self.offset:
            self.offset = max(1, _size(self.path))
            yield self.reader.session, Unknown(what="a file of an unknown form")

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _read_lines(self) -> Iterator[Found]:
        reader = self.reader
        for data in self._pieces():
            *ends, rest = data.split(b"\n")
            lines = [self._rest + ends[0], *ends[1:]] if ends else []
            self._rest = rest if ends else self._rest + rest
            for number, line in enumerate(lines):
                if number == 0 and self._skips:
                    self._skips = False
                    continue
                if len(line) > LONGEST:
                    yield reader.session, self._too_long(len(line))
                    continue
                for event in reader.read(line):
                    yield reader.session, event
            if len(self._rest) > LONGEST and not self._skips:
                self._skips = True
                yield reader.session, self._too_long(len(self._rest))
            if self._skips:
                self._rest = b""

    def _too_long(self, size: int) -> Event:
        self.left_out.add(f"longer than {LONGEST >> 20} MiB")
        self._said.add("unreadable")
        return Notice(text=f"a line of {size / 2**20:.0f} MiB or more was left out", code="too_large")

    def _pieces(self) -> Iterator[bytes]:
        """Yield the new content of the file, in pieces."""
        is_first = not self.offset
        if self._shape == "compressed":
            yield from self._unfolded_pieces()
            return
        while data := self._read_piece():
            yield data.removeprefix(_BOM) if is_first else data
            is_first = False

    def _unfolded_pieces(self) -> Iterator[bytes]:
        """Yield the content of a compressed file, which was written at once and is read at once."""
        size = _size(self.path)
        if size == self.offset:
            return
        self.offset, self.left_out = size, LeftOut()  # its head may have been looked at
        try:
            yield from compressed.pieces(self.path)
        except UnreadableError as error:
            self.left_out.add(str(error))

    def _head_lines(self, most: int) -> list[bytes]:
        """Return the lines in the first `most` bytes of a file of lines, within a limit; [] for another file."""
        data = b""
        if self._shape == "lines":
            data = _own_bytes(self.path, 0, min(HEAD, most))
        elif self._shape == "compressed":
            try:
                for piece in compressed.pieces(self.path, min(HEAD, most)):
                    data += piece
            except UnreadableError as error:
                self.left_out.add(str(error))
        return data.removeprefix(_BOM).split(b"\n")[:-1]

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
                self.skipped += found.st_size - BACK - self.offset
                self.offset, self._rest, self._skips = found.st_size - BACK, b"", True
            data = os.pread(handle, PIECE, self.offset)
        except OSError:
            return b""
        finally:
            os.close(handle)
        self.offset += len(data)
        return data

    # -- documents -----------------------------------------------------------------------------------------------------

    def _read_document(self) -> Iterator[Found]:
        data = _own_bytes(self.path, 0, LARGEST + 1)
        reader, self.left_out = self.reader, LeftOut()  # a document is read as a whole each time
        if len(data) > LARGEST:
            yield reader.session, Unknown(what=f"a document of more than {LARGEST >> 20} MiB")
            return
        if not data:
            return
        for event in reader.read(data):
            yield reader.session, event

    # -- databases -----------------------------------------------------------------------------------------------------

    def _read_rows(self) -> Iterator[Found]:
        reader, since_ms = self.reader, self._since_ms - 1
        while since_ms < self._since_ms:
            since_ms = self._since_ms
            try:
                rows = database.rows(self.path, self.place.sessions.files.query, since_ms=since_ms)
            except UnreadableError as error:
                if error.is_lasting and str(error) not in self.left_out.counts:
                    self.left_out.add(str(error))
                return
            for at_ms, row in rows:
                self._since_ms = max(self._since_ms, at_ms)
                for event in reader.read(row):
                    if not isinstance(event, Unknown) or self._is_new_row(row):
                        yield reader.session, event
            if len(rows) < MOST_ROWS:
                return

    def _is_new_row(self, row: bytes) -> bool:
        """Return whether this row, which was left out, comes for the first time."""
        key = hash(row)
        if key in self._odd_rows:
            return False
        if len(self._odd_rows) < MOST_ROWS:
            self._odd_rows.add(key)
        return True

    def _read_beside(self, reader: SessionReader) -> None:
        beside = self.place.sessions.files.beside
        if not beside or not isinstance(reader, ReadsBeside):
            self._is_beside_read = True
            return
        path = os.path.normpath(f"{os.path.dirname(self.path)}/{beside}")  # noqa: PTH120 - texts
        data = _own_bytes(path, 0, _BESIDE_BYTES + 1)
        if len(data) > _BESIDE_BYTES:
            self._is_beside_read = True
            self.left_out.add(f"a file beside it of more than {_BESIDE_BYTES >> 10} KiB")
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


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
