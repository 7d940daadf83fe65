"""A named position in the event stream. A watcher that is restarted with it continues without gaps or repeats.

Some events arrive late, or again from another source. So a time alone does not say where to continue: the cursor also
stores which events around that time were printed. Each cursor is one file in beam's state directory: its content when
it was opened, then a line for each write to the output. If the output is a file, the line is written first and says
where the output goes; so it is known what arrived, even after `kill -9` in the middle of a write. If the output is a
pipe, the line is written afterwards, and an interrupted write is repeated.
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
from beam.base.surrogates import escape_surrogates
from beam.model.events import Event, MailDelivered, MailLost, MailSent
from beam.root.user_dirs import state_dir

WINDOW_NS = 120_000_000_000  # how late an event may arrive, counted from the latest time
SAME_NS = 5_000_000_000  # the same event from two sources has times that differ by at most this
_LINES = 5_000  # lines of one process; then the file is rewritten
_REWRITTEN_BYTES = 4 << 20  # or after so many
_MOST_BYTES = 16 << 20  # the largest file that is read: two minutes of events fit
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MOMENT = re.compile(r"/\d+$")

_Printed = tuple[str, str]  # what happened, when


class _Saved(Struct, frozen=True):
    at: str
    seen: list[_Printed] = []
    v: int = 2


class _Written(Struct, frozen=True):
    """One write to the output. `path`, `inode` and `size`: the file that it went to and its size before; `lines`: every
    event is one line."""

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
        self._size = 0  # bytes that were added since it was written anew
        self._last: _Written | None = None
        self.since = ""
        try:
            first, *rest = files.read(path, _MOST_BYTES).split(b"\n")
            saved = typed_values.decode(first, _Saved)
            self._at = saved.at
            self._all = [*saved.seen, *_printed_by(rest)]
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
        """Return whether the event is new: not older than `since`, and not among the printed ones. Each printed event
        is refused once."""
        what = _identity(event)
        if self.since and event.ts < self.since:
            return False
        times = self._seen.get(what, [])
        old = next((at for at in times if _is_same(event, at)), None)
        if old is not None:
            times.remove(old)
            return False
        return True

    def before(self, events: Iterable[Event], output: TextIO, *, lines: bool) -> None:
        """Record the events that will be printed next. `lines`: each takes one line; otherwise nobody knows how many
        lines they take."""
        self._last = None
        out = [(_identity(event), event.ts) for event in events]
        if not out:
            return
        found = os.fstat(output.fileno()) if _has_descriptor(output) else None
        written = _Written(out)
        if found is not None and stat.S_ISREG(found.st_mode) and Path("/proc/self/fd").is_dir():
            name = Path(f"/proc/self/fd/{output.fileno()}")
            path = str(name.readlink())
            written = _Written(out, path if escape_surrogates(path) == path else "", found.st_ino, found.st_size, lines)
        if written.path:
            self._append(written)
        else:
            self._last = written

    def after(self) -> None:
        """Record that the events of `before` were printed."""
        if self._last is not None:
            self._append(self._last)
            self._last = None
        elif self._log is None:
            self.save()

    def save(self) -> None:
        """Rewrite the file without events that are too old to be repeated."""
        oldest = rfc3339(parse_rfc3339(self._at) - WINDOW_NS)
        self._all = [(what, at) for what, at in self._all if at >= oldest]
        self._count = self._size = 0
        files.make_directory(self._path.parent)
        files.replace(self._path, msgspec.json.encode(_Saved(self._at, self._all)) + b"\n")
        if self._log is not None:
            os.close(self._log)
        with files.disk("write", self._path):
            self._log = files.open_to_write(self._path, os.O_WRONLY | os.O_APPEND)

    def _append(self, written: _Written) -> None:
        if self._log is None or self._count >= _LINES or self._size >= _REWRITTEN_BYTES:
            self.save()
        assert self._log is not None
        line = msgspec.json.encode(written) + b"\n"
        with files.disk("write", self._path):
            os.write(self._log, line)
        self._count += 1
        self._size += len(line)
        self._all += written.out
        self._at = max(self._at, *(at for _, at in written.out))


def open_cursor(name: str, environ: Mapping[str, str]) -> Cursor:
    """Open the cursor of that name; create it if there is none. Raises UsageError for an invalid name, CorruptError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name for a cursor", "use lower-case letters, digits, - and _", subject=name
        )
    return Cursor(state_dir(environ) / "cursors" / f"{name}.json", now_ns=time.time_ns())


def _printed_by(lines: list[bytes]) -> list[_Printed]:
    """Return the events that the recorded writes printed.

    The last write may not have happened: its events are looked for in the file that it went to. A record of half a line
    means that its write never began.
    """
    found: list[_Printed] = []
    whole = [typed_values.decode(line, _Written) for line in lines[:-1] if line]
    for number, written in enumerate(whole, start=1):
        found += written.out if number < len(whole) or not written.path else written.out[: _count_in_file(written)]
    return found


def _count_in_file(written: _Written) -> int:
    """Return how many of a write's events are in the output file; complete a torn line there."""
    path = Path(written.path)
    try:
        if path.stat().st_ino != written.inode:
            return len(written.out)
        count, last = 0, b""
        for last in files.pieces(path, written.size):
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
    """Return what identifies the event in every source, without its time."""
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
    return event.ts == at if event.seq else abs(parse_rfc3339(event.ts) - recorded_ns(at)) <= SAME_NS
