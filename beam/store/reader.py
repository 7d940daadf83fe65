"""Reads a growing journal: returns the events of all segments in order, and new events on later calls."""

from __future__ import annotations

from pathlib import Path

from beam.base import files
from beam.base.errors import CorruptError, DiskError
from beam.model.events import AnyEvent
from beam.store.segment import LineDecoder, check_snapshot, segments

_TAIL_BYTES = 256  # enough for the hash of the last line, which covers all earlier lines


class Reader:
    """Returns the events of a journal after a position, in order. Between calls it keeps no file open, and it takes no
    lock.

    If another journal is in the directory (the agent was removed, and there is a new one of that name), the reader
    starts over at its beginning.
    """

    def __init__(self, directory: Path, after_seq: int = 0) -> None:
        self.directory = directory
        self.seq = after_seq
        self._name = ""
        self._offset = 0
        self._tail = b""  # the last bytes read of the current segment
        self._is_in_snapshot = True
        self._lines: LineDecoder | None = None

    def poll(self) -> list[AnyEvent]:
        """Return the events since the last call.

        Raises CorruptError. Raises DiskError if no event could be read; if some events were read before that error,
        they are returned instead.
        """
        found: list[AnyEvent] = []
        try:
            while True:
                if self._name:
                    self._read_segment(found)
                following = self._next_segment()
                if following is None:
                    return found
                if self._name:
                    self._read_segment(found)
                    if not self._name:
                        continue
                if self._lines is not None:
                    self._lines.check_whole()
                self._begin_segment(following)
        except CorruptError:
            raise
        except DiskError:
            if not found:
                raise
            return found

    def _begin_segment(self, name: str) -> None:
        self._name, self._offset, self._tail = name, 0, b""
        self._lines, self._is_in_snapshot = LineDecoder(self.directory / name), True

    def _start_over(self) -> None:
        self.seq, self._name, self._lines = 0, "", None

    def _next_segment(self) -> str | None:
        names = segments(self.directory)
        if self._name:
            later = [name for name in names if name > self._name]
            if later or not names or self._name in names:
                return later[0] if later else None
            self._start_over()
        holding = [name for name in names if int(name[:-6]) <= self.seq + 1]
        return holding[-1] if holding else (names[0] if names else None)

    def _read_segment(self, found: list[AnyEvent]) -> None:
        """Read the events that are new in the current segment, and append them to `found`. Start over if the file is
        another one: if it is shorter than before, or other bytes precede the new ones."""
        path = self.directory / self._name
        lines = self._lines
        assert lines is not None
        try:
            if self._offset and (size := path.stat().st_size) <= self._offset:
                if size < self._offset:
                    self._start_over()
                return
            tail = self._tail
            for piece in files.read_pieces(path, self._offset - len(tail)):
                known, tail = tail[: len(piece)], tail[len(piece) :]
                if not piece.startswith(known):
                    self._start_over()
                    return
                data = piece[len(known) :]
                begin = self._offset
                self._offset += len(data)
                self._tail = (self._tail + data)[-_TAIL_BYTES:]
                if self._is_in_snapshot:
                    end = data.find(b"\n") + 1
                    if not end:
                        check_snapshot(path, data, self._offset)
                        continue
                    self._is_in_snapshot = False
                    fed = lines.feed(data[end:], begin + end)
                else:
                    fed = lines.feed(data)
                new = [event for event in fed if event.seq > self.seq]
                if new:
                    self.seq = new[-1].seq
                    found += new
        except FileNotFoundError:
            return
        except OSError as error:
            raise files.disk_error("read", path, error) from error


def last_events(directory: Path, size: int) -> tuple[list[AnyEvent], bool]:
    """Return the events in about the last `size` bytes of a journal, and whether the journal has no others.

    Damage before these bytes is not noticed. Raises CorruptError, DiskError.
    """
    found: list[AnyEvent] = []
    names = segments(directory)
    for name in reversed(names):
        path = directory / name
        try:
            whole = path.stat().st_size
            begin = max(0, whole - size)
            found[:0] = _events_from(path, begin, is_last=name == names[-1])
        except FileNotFoundError:  # removed just now, with all before it
            break
        except OSError as error:
            raise files.disk_error("read", path, error) from error
        if begin:
            return found, False
        size -= whole
    return found, True


def _events_from(path: Path, begin: int, *, is_last: bool) -> list[AnyEvent]:
    """Return the events of the lines of a segment that begin after the byte `begin`."""
    lines, found, is_in_line = LineDecoder(path), list[AnyEvent](), True  # the first line is the snapshot, or cut
    at = begin
    try:
        for data in files.read_pieces(path, begin):
            end = data.find(b"\n") + 1 if is_in_line else 0
            if not is_in_line or end:
                found += lines.feed(data[end:], at + end) if is_in_line else lines.feed(data)
                is_in_line = False
            elif not begin:
                check_snapshot(path, data, at + len(data))
            at += len(data)
        if not is_last:
            lines.check_whole()
    except CorruptError:
        if not begin:
            raise
        return _events_from(path, 0, is_last=is_last)  # a notice before `begin` may explain it
    return found
