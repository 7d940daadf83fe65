"""A journal's segments as files: their names, and what one of them says now.

A segment is named by the first seq it can hold and begins with a snapshot, so the newest alone tells an agent's state.
Two kinds of damage are no error: a last line that is not whole, and, before it, pages of zeros that a power cut left
where nothing was synced yet. The next holder's notice names either. Must not know: who writes, or what events mean.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from beam import events, files
from beam.errors import CorruptError, DiskError
from beam.events import AnyEvent
from beam.state import Snapshot, State, apply

# On disk before anything follows them. A line that is damaged and has one of these and then more behind it was synced.
SYNCED = (
    events.MessageClaimed,
    events.MessageRequeued,
    events.PromptSent,
    events.TurnFinished,
    events.TurnClosed,
    events.MessageDead,
)

_snapshot_decoder = msgspec.json.Decoder(Snapshot)
_state_decoder = msgspec.json.Decoder(State)


def segment_name(first_seq: int) -> str:
    """The name of the segment that begins at that seq."""
    return f"{first_seq:012d}.jsonl"


def segments(directory: Path) -> list[str]:
    """The segments' names, oldest first."""
    return [name for name in files.names(directory) if name.endswith(".jsonl") and name[:-6].isdigit()]


def read_state(directory: Path) -> State:
    """The state now, from the newest segment alone. The empty state where there is no journal.

    Raises CorruptError for damage that no notice covers.
    """
    found = segments(directory)
    if not found:
        return State()
    try:
        segment = Segment.read(directory / found[-1])
    except FileNotFoundError:
        return State()  # the agent was removed with all its files just now
    state = segment.state
    for event in segment.events:
        apply(state, event)
    return state


def read_event(directory: Path, seq: int) -> AnyEvent:
    """The event with that number. Raises DiskError if the journal no longer has it."""
    holding = [name for name in segments(directory) if int(name[:-6]) <= seq]
    for event in Segment.read(directory / holding[-1]).events if holding else ():
        if event.seq == seq:
            return event
    raise DiskError(f"event {seq} is not in {directory}", "its segment was removed", subject=str(directory))


class Segment(Struct):
    """One segment as it is now. Its events stand in [begin, end); `torn` are the bytes after the last newline."""

    path: Path
    state: State
    events: list[AnyEvent]
    begin: int
    end: int
    torn: tuple[int, int] | None
    uncovered: tuple[int, int] | None

    @classmethod
    def read(cls, path: Path) -> "Segment":
        """Reads it all. `uncovered` are the lines from the first damaged one on, where no notice covers it yet and a
        crash explains it. Raises CorruptError for any other damage."""
        data = files.read(path)
        line_end = data.find(b"\n")
        if line_end < 0:
            raise CorruptError(
                f"{path} has no snapshot", "move it aside; the segment before it is whole", subject=str(path)
            )
        state = _snapshot_state(path, data[:line_end])
        lines = Lines(path)
        found = list(lines.feed(data[line_end + 1 :], line_end + 1))
        return cls(path, state, found, line_end + 1, lines.position, lines.torn(len(data)), lines.pending)


def _snapshot_state(path: Path, line: bytes) -> State:
    try:
        snapshot = _snapshot_decoder.decode(line)
        state = _state_decoder.decode(snapshot.state)
    except msgspec.MsgspecError as error:
        raise CorruptError(
            f"{path} has a damaged snapshot: {error}", "restore the file from a backup", subject=str(path)
        ) from error
    state.seq = snapshot.last_seq
    return state


class Lines:
    """Turns a segment's bytes after its snapshot into events; feed them in pieces.

    From a damaged line on nothing is passed on until the notice that covers all of it; `pending` is what waits for one.
    It may wait where a crash explains the damage: nothing whole follows, or zeros are in it and nothing follows that
    proves that they were synced. Anything else raises CorruptError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self.position = 0
        self.pending: tuple[int, int] | None = None
        self._why: CorruptError | None = None
        self._has_zeros = False
        self._has_synced = False

    def feed(self, data: bytes, offset: int = -1) -> Iterator[AnyEvent]:
        """The events of the whole lines so far. `offset`: where in the file the first piece begins."""
        if offset >= 0:
            self.position = offset
        data = self._rest + data
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            begin = self.position
            self.position += end + 1 - start
            event = self._line(data[start:end], begin, begin + end - start)
            start = end + 1
            if event is not None:
                yield event
        self._rest = data[start:]

    def _line(self, line: bytes, begin: int, end: int) -> AnyEvent | None:
        try:
            event = events.decode(line)
        except CorruptError as error:
            if self.pending is None and line.strip():
                self.pending, self._why = (begin, begin), error
                self._has_zeros = self._has_synced = False
            if self.pending is not None:
                self._go_on(None, end)
                self._has_zeros = self._has_zeros or b"\0" in line
            return None
        if self.pending is None:
            return event
        if isinstance(event, events.Notice) and event.covers is not None and tuple(event.covers) == self.pending:
            self.pending = None
            return event
        self._go_on(event, end)
        return None

    def _go_on(self, event: AnyEvent | None, end: int) -> None:
        """One more line that waits for its notice: `event`, or damage."""
        if self._has_synced or (event is not None and not self._has_zeros):
            self._raise()
        assert self.pending is not None
        self.pending = self.pending[0], end
        self._has_synced = isinstance(event, SYNCED)

    def _raise(self) -> None:
        begin = self.pending[0] if self.pending else 0
        raise CorruptError(
            f"{self._path} is damaged at byte {begin}: {self._why}",
            f"`beam log {self._path.parent.parent.name} --verify` lists all damage; restore the file from a backup",
            subject=str(self._path),
        )

    def check_whole(self) -> None:
        """Nothing more follows in this segment: raises CorruptError where damage still waits for its notice."""
        if self.pending is not None:
            self._raise()

    def torn(self, size: int) -> tuple[int, int] | None:
        """The bytes after the last newline, if any."""
        if size > self.position and self.pending is not None and self._has_synced:
            self._raise()
        return (self.position, size) if size > self.position else None
