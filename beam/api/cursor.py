"""Stores named positions (cursors) in the event stream. A watcher that is restarted with the same cursor continues
without gaps or repeats.

Some events arrive late, or a second time from another source. So a time alone does not say where to continue, and the
cursor also stores which events around that time were printed.

Each cursor is one file in beam's state directory. Its first line is the cursor's state when the file was last
rewritten; each later line records one write to the output. If the output is a file, the line is added before the write
and has the file's path and size. With them the next start can find out which events reached the file, even after a
`kill -9` in the middle of the write. If the output is not a file, the line is added after the write, and the events of
an interrupted write are printed again.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

import msgspec
from msgspec import Struct

from beam.base import files, typed_values
from beam.base.clock import parse_rfc3339, recorded_ns, rfc3339
from beam.base.errors import CorruptError, DiskError, UsageError
from beam.base.typed_values import escape_surrogates
from beam.model.events import Event, MailDelivered, MailLost, MailSent
from beam.root.paths import state_dir

WINDOW_NS = 120_000_000_000  # how late an event may arrive, counted from the latest time
SAME_EVENT_NS = 5_000_000_000  # the same event from two sources has times that differ by at most this
_LINES = 5_000  # lines of one process; then the file is rewritten
_REWRITTEN_BYTES = 4 << 20  # the file is also rewritten after this number of bytes
_MAX_BYTES = 16 << 20  # the largest file that is read: two minutes of events fit
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MOMENT = re.compile(r"/\d+$")

_Printed = tuple[str, str]  # the identity of an event, and its time


class _SavedCursor(Struct, frozen=True):
    at: str
    seen: list[_Printed] = []
    v: int = 2


class _OutputWrite(Struct, frozen=True):
    """One write to the output, and its events (`out`). `path` and `inode` are the output file, and `size` is its size
    before the write; they are empty if the output is not a file. `lines`: every event is one line."""

    out: list[_Printed]
    path: str = ""
    inode: int = 0
    size: int = 0
    lines: bool = False


class Cursor:
    """A cursor and its file. `since` is the time from which the stream must be read again; "" for a new cursor."""

    def __init__(self, path: Path, *, now_ns: int) -> None:
        self._path = path
        self._seen: dict[str, list[str]] = {}
        self._all: list[_Printed] = []
        self._at = rfc3339(now_ns)
        self._log: int | None = None
        self._count = 0
        self._size = 0  # bytes that were added since the file was rewritten
        self._last: _OutputWrite | None = None
        self.since = ""
        try:
            first, *rest = files.read(path, _MAX_BYTES).split(b"\n")
            saved = typed_values.decode(first, _SavedCursor)
            self._at = saved.at
            self._all = [*saved.seen, *_printed_events(rest)]
            self._at = max([self._at, *(at for _, at in self._all)])
            self.since = rfc3339(parse_rfc3339(self._at) - WINDOW_NS)
        except FileNotFoundError:
            return
        except (ValueError, RecursionError) as error:
            raise CorruptError(
                f"{path} is not a cursor: {error}", "remove it to start over", subject=str(path)
            ) from error
        for what, at in self._all:
            self._seen.setdefault(what, []).append(at)

    def passes(self, event: Event) -> bool:
        """Return whether the event is new: not older than `since`, and not printed before. An event that was printed
        once is rejected once; the next equal event is new again."""
        what = _identity(event)
        if self.since and event.ts < self.since:
            return False
        times = self._seen.get(what, [])
        old = next((at for at in times if _is_same(event, at)), None)
        if old is not None:
            times.remove(old)
            return False
        return True

    def record_before_print(self, events: Iterable[Event], output: TextIO, *, lines: bool) -> None:
        """Record the events that will be printed next. `lines`: each event takes exactly one line of the output; if it
        is false, the number of lines is unknown."""
        self._last = None
        out = [(_identity(event), event.ts) for event in events]
        if not out:
            return
        found = os.fstat(output.fileno()) if _has_descriptor(output) else None
        written = _OutputWrite(out)
        if found is not None and stat.S_ISREG(found.st_mode) and Path("/proc/self/fd").is_dir():
            name = Path(f"/proc/self/fd/{output.fileno()}")
            path = str(name.readlink())
            written = _OutputWrite(
                out, path if escape_surrogates(path) == path else "", found.st_ino, found.st_size, lines
            )
        if written.path:
            self._append(written)
        else:
            self._last = written

    def record_after_print(self) -> None:
        """Record that the events of the last call of `record_before_print` were printed."""
        if self._last is not None:
            self._append(self._last)
            self._last = None
        elif self._log is None:
            self.save()

    def save(self) -> None:
        """Rewrite the file without the events that are too old to arrive again."""
        oldest = rfc3339(parse_rfc3339(self._at) - WINDOW_NS)
        self._all = [(what, at) for what, at in self._all if at >= oldest]
        self._count = self._size = 0
        files.make_directory(self._path.parent)
        files.replace(self._path, msgspec.json.encode(_SavedCursor(self._at, self._all)) + b"\n")
        if self._log is not None:
            os.close(self._log)
        with files.disk_action("write", self._path):
            self._log = files.open_to_write(self._path, os.O_WRONLY | os.O_APPEND)

    def _append(self, written: _OutputWrite) -> None:
        if self._log is None or self._count >= _LINES or self._size >= _REWRITTEN_BYTES:
            self.save()
        assert self._log is not None
        line = msgspec.json.encode(written) + b"\n"
        with files.disk_action("write", self._path):
            os.write(self._log, line)
        self._count += 1
        self._size += len(line)
        self._all += written.out
        self._at = max(self._at, *(at for _, at in written.out))


def open_cursor(name: str, environ: Mapping[str, str]) -> Cursor:
    """Return the cursor of that name; a new one if there is none. Raises UsageError for an invalid name, CorruptError
    if the file is not a cursor."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name for a cursor", "use lower-case letters, digits, - and _", subject=name
        )
    return Cursor(state_dir(environ) / "cursors" / f"{name}.json", now_ns=time.time_ns())


def _printed_events(lines: list[bytes]) -> list[_Printed]:
    """Return the events that were printed, according to these records of writes.

    The last write may have been interrupted, so its events are looked for in the output file. An incomplete last line
    is ignored, because the write that it records never began.
    """
    found: list[_Printed] = []
    whole = [typed_values.decode(line, _OutputWrite) for line in lines[:-1] if line]
    for number, written in enumerate(whole, start=1):
        found += written.out if number < len(whole) or not written.path else written.out[: _count_in_file(written)]
    return found


def _count_in_file(written: _OutputWrite) -> int:
    """Return how many events of this write are in the output file. If the file ends with an incomplete line, complete
    that line with a line break."""
    path = Path(written.path)
    try:
        if path.stat().st_ino != written.inode:
            return len(written.out)
        count, last = 0, b""
        for last in files.read_pieces(path, written.size):
            count += last.count(b"\n")
        if not written.lines:
            return len(written.out) if last else 0
        if last and not last.endswith(b"\n"):
            handle = files.open_to_write(path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(handle, b"\n")
            finally:
                os.close(handle)
    except (OSError, DiskError, ValueError, OverflowError):  # a path with a NUL, a size that no file has
        return len(written.out)
    return count


def _has_descriptor(output: TextIO) -> bool:
    try:
        output.fileno()
    except OSError:
        return False
    return True


def _identity(event: Event) -> str:
    """Return a text that identifies the event, without its time. The text is the same for an event that arrives again
    from another source."""
    if event.seq:
        return f"{event.agent}#{event.seq}"
    tag = str(event.__struct_config__.tag)
    if isinstance(event, MailSent):
        return _digest(tag, event.team, event.sender, event.to, event.text)
    if isinstance(event, MailDelivered | MailLost):
        return _digest(tag, event.team, event.sender, event.to)
    key = getattr(event, "key", "")
    if key:
        return _digest(_MOMENT.sub("", key))
    return _digest(tag, event.agent, msgspec.json.encode(msgspec.structs.replace(event, ts="")).decode())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _is_same(event: Event, at: str) -> bool:
    return event.ts == at if event.seq else abs(parse_rfc3339(event.ts) - recorded_ns(at)) <= SAME_EVENT_NS
