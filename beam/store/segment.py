"""The segments of a journal as files: their names, and the content of one segment.

A segment is named by the first seq that it can contain, and begins with a snapshot, so the newest segment alone is
enough to know an agent's state. Two kinds of damage are not errors: an incomplete last line, and pages of zeros before
it that a power cut left where nothing was synced yet. The next writer writes a notice that covers both. Does not depend
on who writes, or on the meaning of events.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from beam.base import files
from beam.base.errors import CorruptError, DiskError
from beam.model import events
from beam.model.events import AnyEvent
from beam.model.state import Snapshot, State, fold

# Each of these is on disk before the next event is written. So if one of these and a further line follow a damaged
# line, that line had been synced.
SYNCED_EVENTS = (
    events.MessageClaimed,
    events.MessageRequeued,
    events.PromptSent,
    events.TurnFinished,
    events.TurnClosed,
    events.MessageDead,
)

VERSION = events.VERSION  # the version of every line
GONE_KIND = "gone"  # the kind of the error that says that an event's segment was removed

# The longest line of a journal. With the default limits, an agent's longest line (64 MiB) makes a journal line of at
# most 768 MiB, which contains the agent's line twice, with each character escaped as six.
LINE_BYTES = 1 << 30
_TAIL_BYTES = 1024
_ZEROS_BYTES = 256 << 20  # the most that a power cut leaves: some seconds' output that was written and not synced

_snapshot_decoder = msgspec.json.Decoder(Snapshot)
_state_decoder = msgspec.json.Decoder(State)


def segment_name(first_seq: int) -> str:
    """Return the name of the segment whose first event has the number `first_seq`."""
    return f"{first_seq:012d}.jsonl"


def segments(directory: Path) -> list[str]:
    """Return the names of the segments in the directory, oldest first."""
    return segments_in(files.names(directory))


def segments_in(names: Iterable[str]) -> list[str]:
    """Return the names of segments among these sorted names."""
    return [name for name in names if name.endswith(".jsonl") and _is_number(name[:-6])]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def read_state(directory: Path) -> State:
    """Return the current state of the agent, read from the newest segment alone. Return the empty state if there is no
    journal.

    Raises CorruptError for damage that no notice covers.
    """
    return Fold(directory).state()


def read_event(directory: Path, seq: int) -> AnyEvent:
    """Return the event with that number. Raises DiskError if the journal no longer has it."""
    holding = [name for name in segments(directory) if int(name[:-6]) <= seq]
    with contextlib.suppress(FileNotFoundError):  # removed just now
        for event in Segment.read(directory / holding[-1]).events if holding else ():
            if event.seq == seq:
                return event
    raise DiskError(
        f"event {seq} is not in {directory}", "its segment was removed", subject=str(directory), kind=GONE_KIND
    )


class Segment(Struct):
    """The content of one segment at the time of reading.

    `after` is the hash of the last line of the previous segment, "" if there is none. The bytes of its events are in
    [begin, end). `torn` is the range of the bytes after the last newline, None if there are
    none. `uncovered` is the range of damaged lines that no notice covers yet. `tail` has the last bytes of the file, at
    most `_TAIL_BYTES`.
    """

    path: Path
    after: str
    state: State
    events: list[AnyEvent]
    begin: int
    end: int
    torn: tuple[int, int] | None
    uncovered: tuple[int, int] | None
    tail: bytes = b""

    @classmethod
    def read(cls, path: Path) -> "Segment":
        """Read the whole segment.

        If a line is damaged, no notice covers it yet, and a crash explains the damage, `uncovered` is set to the range
        from that line on. Raises CorruptError for any other damage.
        """
        rest = _PartialLine()
        lines = LineDecoder(path)
        state: State | None = None
        found: list[AnyEvent] = []
        begin = size = 0
        after, tail = "", b""
        for data in files.read_pieces(path):
            size += len(data)
            tail = (tail + data)[-_TAIL_BYTES:]
            if state is not None:
                found += lines.feed(data)
                continue
            line_end = data.find(b"\n")
            if line_end < 0:
                rest.add(data)
                check_snapshot(path, data, rest.size)
                continue
            begin = rest.size + line_end + 1
            after, state = _snapshot_state(path, rest.end(data[:line_end]))
            found += lines.feed(data[line_end + 1 :], begin)
        if state is None:
            raise _no_snapshot_error(path)
        return cls(path, after, state, found, begin, lines.position, lines.torn_range(size), lines.pending, tail)

    def read_on(self) -> bool:
        """Add the events that were appended since the last read. Return False and change nothing if the file may be
        another file, or if the last read ended in damage.

        The file is the same if the last bytes read are unchanged, because the hash of a line covers all earlier lines.
        """
        if self.torn is not None or self.uncovered is not None:
            return False
        lines = LineDecoder(self.path)
        size = self.end - len(self.tail)
        tail, found = b"", list(lines.feed(b"", self.end))
        for data in files.read_pieces(self.path, size):
            if not tail and not data.startswith(self.tail):
                return False
            found += lines.feed(data if tail else data[len(self.tail) :])
            size += len(data)
            tail = (tail + data)[-_TAIL_BYTES:]
        if not tail:
            return False
        self.torn, self.uncovered, self.tail = lines.torn_range(size), lines.pending, tail
        self.events += found
        self.end = lines.position
        return True


class Fold:
    """The state of a journal, updated incrementally: each call reads only the events that were appended since the last
    call."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._segment: Segment | None = None

    def state(self) -> State:
        """Return the current state, as `read_state` does. A later call changes the returned object. Raises
        CorruptError, DiskError."""
        found = segments(self.directory)
        try:
            return self._fold_segment(found[-1]).state if found else State()
        except FileNotFoundError:
            return State()  # the agent was removed with all its files just now

    def last_state(self) -> State:
        """Return the state as of the last read, without reading again. If nothing was read yet, read now."""
        return self.state() if self._segment is None else self._segment.state

    def take_segment(self, name: str) -> Segment:
        """Return the segment of that name with the current state, for a caller that may change the state. This object
        no longer uses the segment."""
        segment = self._fold_segment(name)
        self._segment = None
        return segment

    def _fold_segment(self, name: str) -> Segment:
        segment = self._segment
        if segment is None or segment.path.name != name or not segment.read_on():
            segment = Segment.read(self.directory / name)
        self._segment = segment
        fold(segment.state, segment.events)
        segment.events = []
        return segment


def check_snapshot(path: Path, data: bytes, size: int) -> None:
    """Raise CorruptError if `data`, the last bytes read of a segment's first line, can't belong to a snapshot, or if
    `size`, the number of bytes read so far, is too large. Such a file may be endless."""
    if b"\0" in data or size > LINE_BYTES:
        raise _no_snapshot_error(path)


def _no_snapshot_error(path: Path) -> CorruptError:
    hint = "move it aside; the segment before it is whole"
    return CorruptError(f"{path} has no snapshot", hint, subject=str(path))


def check_version(path: Path, version: int) -> None:
    """Raise CorruptError if this beam does not know the version of the journal."""
    if version != VERSION:
        raise CorruptError(
            f"{path} has version {version}, but this beam reads version {VERSION}",
            "use the beam that wrote it",
            subject=str(path),
        )


def _snapshot_state(path: Path, line: bytes | None) -> tuple[str, State]:
    try:
        snapshot = _snapshot_decoder.decode(line or b"")
        check_version(path, snapshot.v)
        state = _state_decoder.decode(snapshot.state)
    except (ValueError, RecursionError) as error:
        raise CorruptError(
            f"{path} has a damaged snapshot: {error}", "restore the file from a backup", subject=str(path)
        ) from error
    state.seq = snapshot.last_seq
    return snapshot.after, state


class _PartialLine:
    """The beginning of a line whose end is not read yet. A line that contains zeros can't be an event, so only its size
    is kept."""

    def __init__(self) -> None:
        self.size = 0
        self.is_kept = True
        self._parts: list[bytes] = []

    @property
    def is_too_long(self) -> bool:
        """Return whether the line is too long to be valid: longer than any line that beam writes or, for a line with
        zeros, longer than the zeros that a power cut can leave."""
        return self.size > (LINE_BYTES if self.is_kept else _ZEROS_BYTES)

    def add(self, piece: bytes) -> None:
        """Add a piece of the line."""
        self.size += len(piece)
        if self.is_kept and b"\0" in piece:
            self.is_kept = False
            self._parts.clear()
        if self.is_kept:
            self._parts.append(piece)

    def end(self, piece: bytes) -> bytes | None:
        """Return the line, completed with its last piece; None if only its size was kept. Then start over for the next
        line."""
        self.add(piece)
        line = b"".join(self._parts) if self.is_kept else None
        self.size = 0
        self.is_kept = True
        self._parts.clear()
        return line


def whole_lines(data: Iterable[bytes]) -> Iterator[bytes | None]:
    """Yield the complete lines of a segment, beginning with its snapshot.

    Yield None for a line that contains zeros. For a line that is too long, yield None and stop. An incomplete last line
    is left out.
    """
    rest = _PartialLine()
    for piece in data:
        *ends, begin = piece.split(b"\n")
        for end in ends:
            yield rest.end(end)
        rest.add(begin)
        if rest.is_too_long:
            yield None
            return


class LineDecoder:
    """Decodes the part of a segment that follows its snapshot. The bytes are fed in pieces.

    After a damaged line, events are held back until a notice names all damaged bytes. `pending` is the range of damaged
    bytes that no notice names yet, None if there is none.

    Damage is held back like this only if a crash explains it. That is so if no complete line follows it, or if it
    contains zeros and no later line proves that these bytes had reached the disk. Any other damage raises CorruptError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = _PartialLine()
        self.position = 0
        self.pending: tuple[int, int] | None = None
        self._why: CorruptError | None = None
        self._has_zeros = False
        self._has_synced = False

    def feed(self, data: bytes, offset: int = -1) -> Iterator[AnyEvent]:
        """Yield the events of all lines that are complete now. `offset` is the position of the first piece in the
        file."""
        if offset >= 0:
            self.position = offset
        start = 0
        if self.pending is None and not self._rest.size:
            end = data.rfind(b"\n") + 1
            whole = events.decode_lines(data[:end]) if end else None
            if whole is not None:
                start = end
                self.position += end
                for known in whole:
                    if known.v != VERSION:
                        check_version(self._path, known.v)
                    yield known
        while (end := data.find(b"\n", start)) >= 0:
            begin = self.position
            size = self._rest.size + end - start
            line = self._rest.end(data[start:end]) if self._rest.size else data[start:end]
            self.position += size + 1
            event = self._decode_line(line, begin, begin + size)
            start = end + 1
            if event is not None:
                yield event
        self._rest.add(data[start:])
        if self._rest.is_too_long:
            begin = self.position if self.pending is None else self.pending[0]
            self.pending, self._why = (begin, begin), CorruptError("a line that has no end")
            self._raise_damage()

    def _decode_line(self, line: bytes | None, begin: int, end: int) -> AnyEvent | None:
        try:
            event = events.decode(b"\0" if line is None else line)
        except CorruptError as error:
            if self.pending is None and (line is None or line.strip()):
                self.pending, self._why = (begin, begin), error
                self._has_zeros = self._has_synced = False
            if self.pending is not None:
                self._extend_pending(None, end)
                self._has_zeros = self._has_zeros or line is None or b"\0" in line
            return None
        if event.v != VERSION:
            check_version(self._path, event.v)
        if self.pending is None:
            return event
        if isinstance(event, events.Notice) and event.covers is not None and tuple(event.covers) == self.pending:
            self.pending = None
            return event
        self._extend_pending(event, end)
        return None

    def _extend_pending(self, event: AnyEvent | None, end: int) -> None:
        """Add one more line to the pending range; the line is either `event` or damaged. Raises CorruptError if a crash
        can't explain the damage."""
        if self._has_synced or (event is not None and not self._has_zeros):
            self._raise_damage()
        assert self.pending is not None
        self.pending = self.pending[0], end
        self._has_synced = isinstance(event, SYNCED_EVENTS)

    def _raise_damage(self) -> None:
        begin = self.pending[0] if self.pending else 0
        raise CorruptError(
            f"{self._path} is damaged at byte {begin}: {self._why}",
            f"`beam log {self._path.parent.parent.name} --verify` lists all damage; restore the file from a backup",
            subject=str(self._path),
        )

    def check_whole(self) -> None:
        """Raise CorruptError if damage still waits for its notice. Call this when nothing more follows in the
        segment."""
        if self.pending is not None:
            self._raise_damage()

    def torn_range(self, size: int) -> tuple[int, int] | None:
        """Return the range of the bytes after the last newline; None if there are none. `size` is the size of the
        file."""
        if size > self.position and self.pending is not None and self._has_synced:
            self._raise_damage()
        return (self.position, size) if size > self.position else None
