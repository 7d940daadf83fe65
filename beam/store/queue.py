"""The queue of an agent on disk: put, claim, requeue, remove, dead-letter. Every process may `put` and read; only the
holder may do the rest.

Messages in `new/` wait, messages in `cur/` are claimed, and messages in `dead/` are dead letters. A file is named
`<position>-<id>.json`. Positions increase with each publication, even if the clock goes back, so names sort in the
order of arrival. Does not depend on what a turn is.
"""

import contextlib
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from beam.base import files
from beam.base.clock import Clock
from beam.base.errors import CorruptError, DiskError, LimitError, UsageError
from beam.base.faults import crash_point
from beam.model.message import ID, Message, decode, encode
from beam.model.settings import Limits
from beam.root.paths import ARCHIVED
from beam.store.lock import short_lock

BOXES = ("tmp", "new", "cur", "dead")
_SEARCH_ORDER = ("new", "cur", "dead", "new", "cur")  # as a message moves, then again for one that moved back
MESSAGE_BYTES = 16 << 20  # of its file: twice the longest text (1 MiB unless `limits:` says more), each letter escaped
LAST_POSITION = 2**63 - 1  # what a journal and every reader of JSON can hold
_FILE = re.compile(r"([0-9]{20})-(.+)\.json\Z")
_LATEST_CLOCK_NS = LAST_POSITION - 2**40  # a clock past this (the year 2262) counts as this: positions can go on


def archived_error(agent: str) -> UsageError:
    """Return the error for a message to an agent that is archived."""
    return UsageError(f"{agent} is archived", f"bring it back: beam agent archive --restore {agent}", subject=agent)


class Entry(Struct, frozen=True):
    """The file of a message, described by the parts of its name and by its directory `box`. Its content is not read."""

    position: int
    id: str
    box: str

    @property
    def name(self) -> str:
        """Return the file's name; names sort in the order of publication."""
        return f"{self.position:020d}-{self.id}.json"


def entry_of(name: str, box: str) -> Entry | None:
    """Return the entry for the file of that name in the box; None if the name is not that of a message's file."""
    match = _FILE.match(name)
    return Entry(int(match[1]), match[2], box) if match and ID.match(match[2]) else None


class Queue:
    """The queue in one directory. Processes that put messages lock the file `put_lock`, so that they write one after
    another."""

    def __init__(self, directory: Path, put_lock: Path) -> None:
        self.directory = directory
        self.put_lock = put_lock
        self._archived = directory.with_name(ARCHIVED)

    def path(self, entry: Entry) -> Path:
        """Return the path of the entry's file."""
        return self.directory / entry.box / entry.name

    def read(self, entry: Entry) -> Message:
        """Return the entry's message.

        Raises FileNotFoundError if the file is gone, CorruptError if it is not a message.
        """
        return decode(files.read(self.path(entry), MESSAGE_BYTES))

    def entries(self, box: str) -> list[Entry]:
        """Return the entries of the box (`new`, `cur` or `dead`), in the order of publication."""
        return list(self.each(box))

    def each(self, box: str) -> Iterator[Entry]:
        """Yield the entries of the box in the order of publication. To get only the first entry is cheap, however large
        the box is."""
        names = files.unsorted_names(self.directory / box)
        first = min(names, default="")
        if (entry := entry_of(first, box)) is not None:
            yield entry
        for name in sorted(names):
            if name != first and (entry := entry_of(name, box)) is not None:
                yield entry

    def strays(self) -> list[str]:
        """Return the names in `new/` that are no names of messages, sorted. Nothing ever claims such a file. Hidden
        files are left out."""
        names = files.unsorted_names(self.directory / "new")
        return sorted(name for name in names if name[:1] != "." and entry_of(name, "new") is None)

    def first(self, box: str) -> Entry | None:
        """Return the first entry of the box; None if it is empty."""
        return next(self.each(box), None)

    def ids(self, box: str) -> set[str]:
        """Return the ids of the messages in the box. This is cheaper than `entries`."""
        return {name.partition("-")[2].removesuffix(".json") for name in files.names(self.directory / box)}

    def count_ahead(self, entry: Entry) -> int:
        """Return how many waiting messages come before this entry."""
        names = files.names(self.directory / "new")
        return bisect_left(names, entry.name) - bisect_left(names, "0")  # a hidden file is no message

    def find(self, message_id: str, position: int | None = None) -> Entry | None:
        """Return the entry of the message in any box; None if it is in none.

        With `position`, the position at which the message was queued, first look for the file by its name, and list the
        boxes only if that fails. The boxes are searched in the order in which messages move, and some twice, because
        the message may be requeued during the search.
        """
        named = self.find_by_name(message_id, position) if position is not None else None
        if named is not None:
            return named
        return next((entry for box in _SEARCH_ORDER if (entry := self.find_in(box, message_id)) is not None), None)

    def find_by_name(self, message_id: str, position: int) -> Entry | None:
        """Return the entry of the message with that id and position; None if no box has such a file."""
        entries = (Entry(position, message_id, box) for box in _SEARCH_ORDER)
        return next((entry for entry in entries if os.path.lexists(self.path(entry))), None)

    def find_in(self, box: str, message_id: str) -> Entry | None:
        """Return the entry of the message in that box; None if it is not there."""
        end = f"-{message_id}.json"
        for name in files.names(self.directory / box):
            if name.endswith(end) and (entry := entry_of(name, box)) is not None and entry.id == message_id:
                return entry
        return None

    def put(
        self,
        message: Message,
        clock: Clock,
        limits: Limits,
        *,
        exempt: bool = False,
        known: Callable[[], bool] | None = None,
    ) -> bool:
        """Publish the message; it is on disk when this returns True.

        With `known` (for ids that are not random) the call is idempotent: nothing is published and False is returned if
        the queue has the message already, or if `known()`, which is called under the lock, returns True because the
        journal has it. Raises LimitError if the queue is full, unless `exempt`. Raises DiskError if the message could
        not be published; if it was published and could not be withdrawn, the error's text says so.
        """
        return bool(self.put_all([message], clock, limits, exempt=exempt, known=known))

    def put_all(
        self,
        messages: list[Message],
        clock: Clock,
        limits: Limits,
        *,
        exempt: bool = False,
        known: Callable[[], bool] | None = None,
    ) -> int:
        """Publish several messages in this order, with one sync of the directory. Return how many messages were
        published. Arguments and errors are as for `put`."""
        tmp, new = self.directory / "tmp", self.directory / "new"
        with short_lock(self.put_lock) as handle:
            if os.path.lexists(self._archived):
                raise archived_error(messages[0].to)
            if known is not None and (self.find(messages[0].id) is not None or known()):
                return 0
            waiting, last = self._count_waiting(new)
            if not exempt and waiting + len(messages) > limits.waiting:
                raise LimitError(
                    f"{waiting} messages wait for {messages[0].to}, the limit is {limits.waiting}",
                    "wait for some to finish, drop some (`beam queue list`), or raise `limits: waiting:` in beam.yaml",
                    subject=messages[0].to,
                )
            last = max(self._last_position(handle), last)
            first = max(last + 1, min(clock.now_ns(), _LATEST_CLOCK_NS))
            if first + len(messages) > LAST_POSITION:
                raise CorruptError(
                    f"the queue of {messages[0].to} has used up its last position: nothing can come after it",
                    f"`beam queue list {messages[0].to}` shows what waits; drop the last",
                    subject=messages[0].to,
                )
            data = [_encode(message) for message in messages]
            entries = [Entry(first + offset, message.id, "new") for offset, message in enumerate(messages)]
            temporaries = [tmp / entry.name for entry in entries]
            finals = [self.path(entry) for entry in entries]
            published: list[Path] = []
            try:
                files.write_many(dict(zip(temporaries, data, strict=True)))
                crash_point("put.written")
                self._remember_position(handle, first + len(messages) - 1)
                for temporary, final in zip(temporaries, finals, strict=True):
                    try:
                        temporary.rename(final)
                    except OSError as error:
                        raise files.disk_error("publish", temporary, error) from error
                    published.append(final)
                crash_point("put.renamed")
                files.sync_directory(new)
            except BaseException as error:
                left = [path for path in (*temporaries, *published) if not _try_remove(path)]
                if isinstance(error, DiskError) and not set(left).isdisjoint(published):
                    raise _not_withdrawn_error(error, messages) from error
                raise
            crash_point("put.published")
        return len(messages)

    @staticmethod
    def _count_waiting(new: Path) -> tuple[int, int]:
        """Return how many messages wait, and the position of the last one.

        Only the last names are parsed, because parsing all of them may take longer than listing the directory.
        """
        names = files.unsorted_names(new)
        last = entry_of(max(names, default=""), "new")
        if last is not None and last.position <= LAST_POSITION:
            return len(names), last.position
        positions = (entry.position for name in sorted(names, reverse=True) if (entry := entry_of(name, "new")))
        return len(names), next((position for position in positions if position <= LAST_POSITION), 0)

    def _last_position(self, handle: int) -> int:
        try:
            written = os.pread(handle, 20, 0)
        except OSError as error:
            raise files.disk_error("read", self.put_lock, error) from error
        if len(written) == 20 and written.isdigit() and int(written) < LAST_POSITION:
            return int(written)
        positions = (entry.position for box in BOXES[1:] for entry in self.entries(box))
        return max((position for position in positions if position <= LAST_POSITION), default=0)

    def _remember_position(self, handle: int, position: int) -> None:
        try:
            os.pwrite(handle, b"%020d" % position, 0)
        except OSError as error:
            raise files.disk_error("write", self.put_lock, error) from error

    def move(self, entry: Entry, box: str) -> Entry:
        """Move the entry to another box, durably, and return the entry in that box. Raises FileNotFoundError if its
        file is gone."""
        moved = Entry(entry.position, entry.id, box)
        files.move(self.path(entry), self.path(moved))
        return moved

    def remove(self, entry: Entry) -> None:
        """Remove the entry's file."""
        files.remove(self.path(entry))

    def rewrite(self, entry: Entry, message: Message) -> None:
        """Replace the content of the file of an entry that waits."""
        files.publish(self.directory / "tmp" / entry.name, self.path(entry), _encode(message))

    def sweep(self) -> None:
        """Remove files that dead writers left in `tmp/`. This is done under `put_lock`, so no living process is writing
        there."""
        directory = self.directory / "tmp"
        if not files.names(directory):
            return
        with short_lock(self.put_lock):
            for name in files.names(directory):
                with contextlib.suppress(OSError):
                    (directory / name).unlink()


def _encode(message: Message) -> bytes:
    data = encode(message)
    if len(data) > MESSAGE_BYTES:
        raise LimitError(
            f"the message to {message.to} is {len(data)} bytes as a file, the limit is {MESSAGE_BYTES}",
            "write the text to a file and name the file in the prompt",
            subject=message.to,
        )
    return data


def _try_remove(path: Path) -> bool:
    """Remove the file. Return whether the file is gone."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _not_withdrawn_error(error: DiskError, messages: list[Message]) -> DiskError:
    ids = ", ".join(message.id for message in messages)
    return DiskError(
        f"{error.message}; {ids} could not be withdrawn: it may run, or be lost in a power cut",
        f"when the disk works again: beam show {messages[0].id}, or beam queue drop {messages[0].id}",
        subject=error.subject,
    )
