"""The journal of an agent, for its only writer: appends and syncs events, repairs damage, and begins new segments.

A file is never shortened. A line that a crash cut short gets its newline, and a notice after it names the damaged
bytes. `segment` and `reader` explain what segments are and how they are read. Does not depend on the meaning of the
events.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Raw

from beam.base import files
from beam.base.clock import Clock, rfc3339
from beam.base.errors import CorruptError, DiskError
from beam.base.faults import crash_point
from beam.base.typed_values import escape_surrogates
from beam.model import events
from beam.model.events import AnyEvent, Event
from beam.model.settings import Limits
from beam.model.state import Snapshot, State, apply, forget_old_messages
from beam.secrets.redact import redact_event
from beam.store.chain import Chain
from beam.store.reader import Reader
from beam.store.reserve import USABLE_BYTES, Reserve
from beam.store.segment import (
    LINE_BYTES,
    SYNCED_EVENTS,
    Fold,
    LineDecoder,
    Segment,
    read_event,
    read_state,
    segment_name,
    segments,
    segments_in,
)

__all__ = ["Journal", "LineDecoder", "Reader", "Segment", "read_event", "read_state", "segments"]

_OUTCOME_EVENTS = (events.TurnFinished, events.TurnClosed, events.MessageDead)  # the reserve may be freed for these
E = TypeVar("E", bound=Event)


class Journal:
    """The writer's side of a journal: appends events and keeps the state. Redacts secrets in every event before it is
    written.

    On a full disk, the space of `reserve` is freed so that the outcome of a message can be written.
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
        self._has_failed_sync = False
        self._unsynced_name = False
        self._name = ""
        self._chain: Chain | None = None  # None: read it from the file

    @classmethod
    def open(
        cls,
        directory: Path,
        agent: str,
        clock: Clock,
        limits: Limits,
        reserve: Reserve | None = None,
        fold: Fold | None = None,
    ) -> Journal:
        """Return the journal, ready to append. Damage is repaired first; on a full disk, the repair uses the space of
        the reserve.

        Only the agent's holder may call this. `fold` is the part of the journal that the caller has read already.
        """
        journal = cls(directory, agent, clock, limits, reserve)
        names = files.names(directory)
        for name in names:
            if name.startswith(".") and name.endswith(".tmp"):
                files.remove(directory / name)
        found = segments_in(names)
        if not found:
            journal._begin_segment()
            return journal
        try:
            journal._take_over_segment((fold or Fold(directory)).take_segment(found[-1]), found[-1])
        except BaseException as error:
            journal.close()
            if isinstance(error, FileNotFoundError):  # it was removed just now
                raise files.disk_error("read", directory / found[-1], error) from error
            if isinstance(error, DiskError) and files.is_full(error) and reserve is not None and reserve.free():
                return cls.open(directory, agent, clock, limits, reserve)
            raise
        return journal

    def _take_over_segment(self, segment: Segment, name: str) -> None:
        self.state = segment.state
        self._continue_in(name, *self._open_to_append(self.directory / name))
        self._begun = self._synced = segment.begin
        self._torn = segment.uncovered[0] if segment.uncovered is not None else None
        if segment.torn is not None:
            whole = self._decode_torn_line(self.directory / name, *segment.torn)
            if self._torn is None and whole is not None and whole.seq == self.state.seq + 1:
                self._write(b"\n")
                apply(self.state, whole)
            else:
                self._torn = segment.torn[0] if self._torn is None else self._torn
                self._is_cut = True
        if self._torn is not None:
            self._repair()
        elif self._size > segment.begin:
            self._sync()  # this holder acts on what the last one wrote, which may not be synced yet

    @staticmethod
    def _decode_torn_line(path: Path, begin: int, end: int) -> AnyEvent | None:
        parts: list[bytes] = []
        if end - begin > LINE_BYTES:
            return None
        for data in files.read_pieces(path, begin):
            if b"\0" in data:
                return None
            parts.append(data)
        try:
            return events.decode(b"".join(parts)[: end - begin])
        except CorruptError:
            return None

    def _repair(self) -> None:
        """End the line that was cut short, and write a notice that covers all damage.

        A `~` is written after a line that may lack only its newline: the line must stay invalid, because its writer was
        told that the write failed. Raises DiskError; the next append tries the repair again.
        """
        begin = self._torn
        assert begin is not None
        if self._is_cut:
            self._write(b"~\n")
            self._is_cut = False
        crash_point("repair.ended")
        end = self._size - 1
        text = f"{end - begin} bytes of {self._name} from {begin} on were lost in a crash; readers skip them"
        self._append(events.Notice(text=text, code="torn", covers=(begin, end)), None, None, sync=False)
        self._torn = None
        self._sync()
        crash_point("repair.noted")

    @staticmethod
    def _open_to_append(path: Path) -> tuple[int, int]:
        """Return a descriptor of the file for appending, and the size of the file."""
        try:
            handle = files.open_to_write(path, os.O_WRONLY | os.O_APPEND)
            return handle, os.fstat(handle).st_size
        except OSError as error:
            raise files.disk_error("open", path, error) from error

    def _continue_in(self, name: str, handle: int, size: int) -> None:
        """Append to this file from now on.

        Everything that can fail must be done before the call, because afterwards no event may be appended to an older
        segment.
        """
        self.close()
        self._name, self._handle, self._chain = name, handle, None
        self._size = self._synced = self._begun = size

    def _begin_segment(self) -> None:
        now = self._clock.now_ns()
        forget_old_messages(self.state, rfc3339(max(0, now - self._limits.known_ids_ns)))
        snapshot = Snapshot(
            agent=self.agent,
            ts=self._stamp_time(),
            previous=self._name or None,
            last_seq=self.state.seq,
            after=self._current_chain().last if self._name else "",
            state=Raw(msgspec.json.encode(self.state)),
        )
        chain = Chain()
        name = segment_name(self.state.seq + 1)
        temporary = self.directory / f".{name}.tmp"
        files.write_new(temporary, chain.seal(msgspec.json.encode(snapshot) + b"\n"))
        crash_point("segment.written")
        handle, size = self._open_to_append(temporary)
        try:
            with files.disk_action("publish", temporary):
                temporary.rename(self.directory / name)
        except BaseException:
            os.close(handle)
            raise
        self._continue_in(name, handle, size)
        self._chain = chain
        self._unsynced_name = True
        crash_point("segment.renamed")
        self._sync_name()
        crash_point("segment.published")

    def _sync_name(self) -> None:
        if self._unsynced_name:
            files.sync_directory(self.directory)
            self._unsynced_name = False

    def rotate_if_due(self) -> None:
        """Begin a new segment if the current one has grown enough. Call this only between turns.

        If the disk is full, say, the current segment continues, and the next call tries again.
        """
        is_due = self._size - self._begun > max(self._limits.segment_bytes, self._begun)
        if is_due and self._torn is None and not self._has_failed_sync:
            with contextlib.suppress(DiskError):
                if self._synced < self._size:
                    self._sync()  # or a power cut might leave a gap between two segments
                self._begin_segment()

    def _stamp_time(self) -> str:
        return max(self.state.ts, rfc3339(self._clock.now_ns()))

    def append(self, body: E, *, turn: int | None = None, message_id: str | None = None, sync: bool = False) -> E:
        """Append the event with its header, without secrets, and return the event as it was written.

        With `sync`, or if its type is one of SYNCED_EVENTS, the event is on disk when this returns. Raises DiskError.
        If the write failed, readers skip the incomplete line. If only the sync failed, the event stays valid.
        """
        sync = sync or isinstance(body, SYNCED_EVENTS)
        try:
            return self._try_append(body, turn, message_id, sync=sync)
        except DiskError as error:
            if not (files.is_full(error) and self._free_reserve_for(body)):
                raise
        return self._try_append(body, turn, message_id, sync=sync)

    def _free_reserve_for(self, body: Event) -> bool:
        """Free the reserve if the event is an outcome that fits into its space. Return whether space was freed."""
        if self.reserve is None or self._has_failed_sync or not isinstance(body, _OUTCOME_EVENTS):
            return False
        return len(events.encode(body)) <= USABLE_BYTES and self.reserve.free()

    def _try_append(self, body: E, turn: int | None, message_id: str | None, *, sync: bool) -> E:
        if self._has_failed_sync:
            self._rewrite_unsynced()
        if self._torn is not None:
            self._repair()
        if sync:
            self._sync_name()
        return self._append(body, turn, message_id, sync=sync)

    def _append(self, body: E, turn: int | None, message_id: str | None, *, sync: bool) -> E:
        clean, count = redact_event(body)
        event = msgspec.structs.replace(
            clean, seq=self.state.seq + 1, ts=self._stamp_time(), agent=self.agent, turn=turn, message_id=message_id
        )
        try:
            line = self._encode_line(event)
        except UnicodeEncodeError:  # it contains a file name that is not UTF-8: the root's, or a program's
            event = escape_surrogates(event)
            line = self._encode_line(event)
        self._write(self._current_chain().seal(line))
        self.redacted += count
        apply(self.state, event)  # type: ignore[arg-type]  # every Event is one of AnyEvent
        if sync:
            self._sync()
        return event

    def _current_chain(self) -> Chain:
        if self._chain is None:
            path = self.directory / self._name
            try:
                self._chain = Chain.read_end(path, self._size)
            except OSError as error:
                raise files.disk_error("read", path, error) from error
        return self._chain

    def _encode_line(self, event: Event) -> bytes:
        """Return the journal line of the event, as bytes.

        Raises DiskError if the line is too long for readers, and CorruptError if a number is too large, so that the
        journal stays valid.
        """
        try:
            line = events.encode(event) + b"\n"
        except UnicodeEncodeError:
            raise
        except (OverflowError, ValueError) as error:  # a damaged journal had the largest number that can be written
            raise CorruptError(
                f"a number in {self.directory / self._name} is too large to count on",
                "restore the file from a backup",
                subject=str(self.directory / self._name),
            ) from error
        if len(line) > LINE_BYTES:
            raise DiskError(
                f"an event of {len(line)} bytes is too long for a line of the journal",
                "set `limits: line_bytes:` in beam.yaml lower",
                subject=str(self.directory),
            )
        return line

    def _write(self, data: bytes) -> None:
        try:
            files.write_all(self._handle, data)
        except OSError as error:
            path = self.directory / self._name
            self._chain = None
            begin = self._size
            self._size = os.fstat(self._handle).st_size
            if self._size > begin:
                self._torn = begin if self._torn is None else self._torn
                self._is_cut = True
            raise files.disk_error("write", path, error) from error
        self._size += len(data)

    def sync(self) -> None:
        """Sync the events that were appended without a sync. Raises DiskError."""
        if self._synced < self._size:
            self._sync()

    def _sync(self) -> None:
        try:
            if not files.sync(self._handle):
                return
        except OSError as error:
            self._has_failed_sync = True
            raise files.disk_error("sync", self.directory / self._name, error) from error
        self._synced = self._size

    def _rewrite_unsynced(self) -> None:
        """Write the bytes that are not synced yet over themselves, and sync them.

        After a failed fsync the operating system considers the pages written. Writing the same bytes makes the pages
        dirty again.
        """
        path = self.directory / self._name
        with files.disk_action("sync", path), contextlib.closing(files.read_pieces(path, self._synced)) as pieces:
            handle = files.open_to_write(path, os.O_WRONLY)
            try:
                os.lseek(handle, self._synced, os.SEEK_SET)
                for data in pieces:
                    files.write_all(handle, data)
                os.fsync(handle)
            finally:
                os.close(handle)
        self._synced = self._size
        self._has_failed_sync = False

    def close(self) -> None:
        """Close the journal; nothing can be appended afterwards."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
