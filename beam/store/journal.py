"""An agent's journal on disk: segments of JSON lines, one writer, any number of readers that take no locks.

A segment is named by the first seq it can hold and begins with a snapshot. Nothing is ever shortened: a line torn by a
crash gets its newline, and the notice that follows names its bytes. Must not know: what the events mean.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from beam import events, files
from beam.clock import Clock, rfc3339
from beam.errors import CorruptError, DiskError
from beam.events import AnyEvent, Event
from beam.faults import reached
from beam.limits import Limits
from beam.redact import redact_event
from beam.state import Snapshot, State, apply, forget
from beam.store.reserve import FITS_BYTES, Reserve

_snapshot_decoder = msgspec.json.Decoder(Snapshot)
_state_decoder = msgspec.json.Decoder(State)
_SNAPSHOT = b'{"type":"snapshot"'
_ENDINGS = (events.TurnFinished, events.TurnClosed, events.MessageDead)  # what the reserve is for
_DAY_NS = 24 * 3600 * 1_000_000_000
E = TypeVar("E", bound=Event)


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
    def read(cls, path: Path) -> Segment:
        """Reads it all. `uncovered` are the last lines, if they are damaged and nothing follows that says so (a crash
        between the two steps of a repair). Raises CorruptError for any other damage."""
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

    Lines that are no events wait in `pending` until the next event, which must be the notice that covers them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self.position = 0
        self.pending: tuple[int, int] | None = None
        self._why: CorruptError | None = None

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
            if self.pending is not None:
                self.pending = (self.pending[0], end)
            elif line.strip():
                self.pending, self._why = (begin, end), error
            return None
        if self.pending is not None:
            covers = event.covers if isinstance(event, events.Notice) else None
            if covers is None or tuple(covers) != self.pending:
                self._raise()
            self.pending = None
        return event

    def _raise(self) -> None:
        begin = self.pending[0] if self.pending else 0
        raise CorruptError(
            f"{self._path} is damaged at byte {begin}: {self._why}",
            f"`beam log {self._path.parent.parent.name} --verify` lists all damage; restore the file from a backup",
            subject=str(self._path),
        )

    def torn(self, size: int) -> tuple[int, int] | None:
        """The bytes after the last newline, if any."""
        return (self.position, size) if size > self.position else None


class Journal:
    """The holder's side: appends, and keeps the state. Everything is redacted on its way in.

    On a full disk the `reserve` makes room for how a message ended.
    """

    def __init__(
        self, directory: Path, agent: str, clock: Clock, limits: Limits, reserve: Reserve | None = None
    ) -> None:
        self.directory = directory
        self.reserve = reserve
        self.agent = agent
        self.state = State(agent=agent)
        self.redacted = 0
        self._clock = clock
        self._limits = limits
        self._handle = -1
        self._size = 0
        self._begun = 0
        self._synced = 0
        self._torn: int | None = None
        self._is_cut = False
        self._suspect = False
        self._unsynced_name = False
        self._name = ""

    @classmethod
    def open(cls, directory: Path, agent: str, clock: Clock, limits: Limits, reserve: Reserve | None = None) -> Journal:
        """The journal, repaired (on a full disk in the reserve's room) and ready to append. Only the holder may."""
        journal = cls(directory, agent, clock, limits, reserve)
        for name in files.names(directory):
            if name.startswith(".") and name.endswith(".tmp"):
                files.remove(directory / name)
        found = segments(directory)
        if not found:
            journal._begin_segment()
            return journal
        try:
            journal._take(Segment.read(directory / found[-1]), found[-1])
        except BaseException as error:
            journal.close()
            if isinstance(error, DiskError) and files.is_full(error) and reserve is not None and reserve.give_up():
                return cls.open(directory, agent, clock, limits, reserve)
            raise
        return journal

    def _take(self, segment: Segment, name: str) -> None:
        self.state = segment.state
        for event in segment.events:
            apply(self.state, event)
        self._go_on_in(name, *self._open_to_append(self.directory / name))
        self._begun = segment.begin
        self._torn = segment.uncovered[0] if segment.uncovered is not None else None
        if segment.torn is not None:
            whole = self._decoded(self.directory / name, *segment.torn)
            if self._torn is None and whole is not None and whole.seq == self.state.seq + 1:
                self._write(b"\n")
                apply(self.state, whole)
            else:
                self._torn = segment.torn[0] if self._torn is None else self._torn
                self._is_cut = True
        if self._torn is not None:
            self._repair()

    @staticmethod
    def _decoded(path: Path, begin: int, end: int) -> AnyEvent | None:
        with files.disk("read", path), files.opened(path) as file:
            file.seek(begin)
            try:
                return events.decode(file.read(end - begin))
            except CorruptError:
                return None

    def _repair(self) -> None:
        """Ends a cut line and covers all that is damaged with a notice. `~` makes a line that lacked only its newline,
        and whose writer was told that it failed, no event. Raises DiskError; then the next append tries again."""
        begin = self._torn
        assert begin is not None
        if self._is_cut:
            self._write(b"~\n")
            self._is_cut = False
        reached("repair.ended")
        end = self._size - 1
        text = f"{end - begin} bytes of {self._name} from {begin} on were cut short by a crash; readers skip them"
        self._append(events.Notice(text=text, code="torn", covers=(begin, end)), None, None, sync=False)
        self._torn = None
        self._sync()
        reached("repair.noted")

    @staticmethod
    def _open_to_append(path: Path) -> tuple[int, int]:
        """A handle, and the file's size."""
        with files.disk("open", path):
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
            return handle, os.fstat(handle).st_size

    def _go_on_in(self, name: str, handle: int, size: int) -> None:
        """Appends go there from now on. What could fail was done before: no event may follow in an older segment."""
        self.close()
        self._name, self._handle = name, handle
        self._size = self._synced = self._begun = size

    def _begin_segment(self) -> None:
        now = self._clock.now_ns()
        forget(self.state, rfc3339(max(0, now - self._limits.known_ids_days * _DAY_NS)))
        snapshot = Snapshot(
            agent=self.agent,
            ts=self._stamp_time(),
            previous=self._name or None,
            last_seq=self.state.seq,
            state=Raw(msgspec.json.encode(self.state)),
        )
        name = segment_name(self.state.seq + 1)
        temporary = self.directory / f".{name}.tmp"
        files.write_new(temporary, msgspec.json.encode(snapshot) + b"\n")
        reached("segment.written")
        handle, size = self._open_to_append(temporary)
        try:
            with files.disk("publish", temporary):
                temporary.rename(self.directory / name)
        except BaseException:
            os.close(handle)
            raise
        self._go_on_in(name, handle, size)
        self._unsynced_name = True
        reached("segment.renamed")
        self._sync_name()
        reached("segment.published")

    def _sync_name(self) -> None:
        if self._unsynced_name:
            files.sync_directory(self.directory)
            self._unsynced_name = False

    def rotate_if_due(self) -> None:
        """Begins a new segment if this one has grown enough. Only between turns.

        Where the disk refuses, this segment goes on: it is tried again after the next turn.
        """
        is_due = self._size - self._begun > max(self._limits.segment_bytes, self._begun)
        if is_due and self._torn is None and not self._suspect:
            with contextlib.suppress(DiskError):
                self._begin_segment()

    def _stamp_time(self) -> str:
        return max(self.state.ts, rfc3339(self._clock.now_ns()))

    def append(self, body: E, *, turn: int | None = None, message_id: str | None = None, sync: bool = False) -> E:
        """The event as it stands in the journal now: stamped, redacted. With `sync` it is on disk when this returns.

        Raises DiskError; then readers skip what was half written of it. An event of which only the sync failed stands.
        """
        try:
            return self._try_append(body, turn, message_id, sync=sync)
        except DiskError as error:
            if not (files.is_full(error) and self._has_made_room(body)):
                raise
        return self._try_append(body, turn, message_id, sync=sync)

    def _has_made_room(self, body: Event) -> bool:
        """Gives the reserve up for an ending that fits into it."""
        if self.reserve is None or self._suspect or not isinstance(body, _ENDINGS):
            return False
        return len(events.encode(body)) <= FITS_BYTES and self.reserve.give_up()

    def _try_append(self, body: E, turn: int | None, message_id: str | None, *, sync: bool) -> E:
        if self._suspect:
            self._write_again()
        if self._torn is not None:
            self._repair()
        if sync:
            self._sync_name()
        return self._append(body, turn, message_id, sync=sync)

    def _append(self, body: E, turn: int | None, message_id: str | None, *, sync: bool) -> E:
        clean, count = redact_event(body)
        event = events.stamp(
            clean, seq=self.state.seq + 1, ts=self._stamp_time(), agent=self.agent, turn=turn, message_id=message_id
        )
        self._write(events.encode(event) + b"\n")
        self.redacted += count
        apply(self.state, event)  # type: ignore[arg-type]  # every Event is one of AnyEvent
        if sync:
            self._sync()
        return event

    def _write(self, data: bytes) -> None:
        path = self.directory / self._name
        try:
            files.write_all(self._handle, data)
        except OSError as error:
            begin = self._size
            self._size = os.fstat(self._handle).st_size
            if self._size > begin:
                self._torn = begin if self._torn is None else self._torn
                self._is_cut = True
            raise files.disk_error("write", path, error) from error
        self._size += len(data)

    def _sync(self) -> None:
        try:
            os.fsync(self._handle)
        except OSError as error:
            self._suspect = True
            raise files.disk_error("sync", self.directory / self._name, error) from error
        self._synced = self._size

    def _write_again(self) -> None:
        """After a failed fsync the system takes its pages for written: the same bytes are written over themselves,
        which makes them dirty again, and synced."""
        path = self.directory / self._name
        with files.disk("sync", path), path.open("r+b") as file:
            file.seek(self._synced)
            data = file.read()
            file.seek(self._synced)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._synced = self._size
        self._suspect = False

    def close(self) -> None:
        """Nothing more will be appended here."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class Reader:
    """Events in order from a position, and later ones when asked again. Holds no file open and takes no lock."""

    def __init__(self, directory: Path, after_seq: int = 0) -> None:
        self.directory = directory
        self.seq = after_seq
        self._name = ""
        self._offset = 0
        self._lines: Lines | None = None

    @classmethod
    def at_end(cls, directory: Path) -> tuple[Reader, State]:
        """A reader of what comes after now, and the state now."""
        reader = cls(directory)
        state = read_state(directory)
        reader.seq = state.seq
        return reader, state

    def poll(self) -> list[AnyEvent]:
        """The events that are new since the last call. Raises CorruptError, and DiskError where nothing can be read;
        what was read before that is returned first."""
        found: list[AnyEvent] = []
        try:
            while True:
                if self._name:
                    found += self._read_segment()
                following = self._following()
                if following is None:
                    return found
                if self._name:
                    found += self._read_segment()
                self._name, self._offset, self._lines = following, 0, Lines(self.directory / following)
        except CorruptError:
            raise
        except DiskError:
            if not found:
                raise
            return found

    def _following(self) -> str | None:
        names = segments(self.directory)
        if self._name:
            later = [name for name in names if name > self._name]
            return later[0] if later else None
        holding = [name for name in names if int(name[:-6]) <= self.seq + 1]
        return holding[-1] if holding else (names[0] if names else None)

    def _read_segment(self) -> list[AnyEvent]:
        path = self.directory / self._name
        lines = self._lines
        assert lines is not None
        try:
            if self._offset and path.stat().st_size <= self._offset:
                return []
            with files.opened(path) as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise files.disk_error("read", path, error) from error
        if not data:
            return []
        first = self._offset == 0
        if first:
            snapshot_end = data.find(b"\n") + 1
            if not snapshot_end:
                return []
            fed = list(lines.feed(data[snapshot_end:], snapshot_end))
        else:
            fed = list(lines.feed(data))
        self._offset += len(data)
        new = [event for event in fed if event.seq > self.seq]
        if new:
            self.seq = new[-1].seq
        return new


def read_event(directory: Path, seq: int) -> AnyEvent:
    """The event with that number. Raises DiskError if the journal no longer has it."""
    holding = [name for name in segments(directory) if int(name[:-6]) <= seq]
    for event in Segment.read(directory / holding[-1]).events if holding else ():
        if event.seq == seq:
            return event
    raise DiskError(f"event {seq} is not in {directory}", "its segment was removed", subject=str(directory))
