"""A named place in the stream: a watcher that is started again with it goes on without a gap and without a repeat.

Some of a stream comes late and is told again from other sources, so a time alone is no place: what was printed around
it is remembered with it. One file a cursor, in beam's own state directory, replaced whole.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from beam import files
from beam.clock import parse_rfc3339, rfc3339
from beam.errors import CorruptError, UsageError
from beam.events import Event, MailDelivered, MailLost, MailSent
from beam.home import state_dir

WINDOW_NS = 120_000_000_000  # how long before the latest time something may still be told
SAME_NS = 5_000_000_000  # two sources tell of one happening within this
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MOMENT = re.compile(r"/\d+$")


class _Saved(Struct, frozen=True):
    at: str
    seen: dict[str, list[str]] = {}
    v: int = 1


class Cursor:
    """The cursor of that name. `since` is the time from which the stream has to be read again; "" for a new cursor."""

    def __init__(self, path: Path, *, now_ns: int) -> None:
        self._path = path
        self._seen: dict[str, list[str]] = {}
        self._new: dict[str, list[str]] = {}
        self._at = rfc3339(now_ns)
        self._is_saved = False
        self.since = ""
        try:
            saved = msgspec.json.decode(files.read(path, follow=True), type=_Saved)
            self.since = rfc3339(parse_rfc3339(saved.at) - WINDOW_NS)
        except FileNotFoundError:
            return
        except (msgspec.MsgspecError, ValueError) as error:
            raise CorruptError(f"{path} is no cursor: {error}", "remove it to begin anew", subject=str(path)) from error
        self._at, self._is_saved = saved.at, True
        self._seen = {what: list(times) for what, times in saved.seen.items()}

    def passes(self, event: Event) -> bool:
        """Whether the event is one that was not printed yet; from now on it was."""
        what = _what(event)
        if self.since and event.ts < self.since:
            return False
        times = self._seen.get(what, [])
        old = next((at for at in times if _is_same(event, at)), None)
        if old is not None:
            times.remove(old)
            self._new.setdefault(what, []).append(old)
            return False
        return True

    def printed(self, event: Event) -> None:
        """The event is out."""
        self._at = max(self._at, event.ts)
        self._new.setdefault(_what(event), []).append(event.ts)
        self._is_saved = False

    def save(self) -> None:
        """What was printed so far will not be printed again."""
        if self._is_saved:
            return
        oldest = rfc3339(parse_rfc3339(self._at) - WINDOW_NS)
        self._new = _since(self._new, oldest)
        seen = {what: list(times) for what, times in _since(self._seen, oldest).items()}
        for what, times in self._new.items():
            seen.setdefault(what, []).extend(times)
        files.make_directory(self._path.parent)
        files.replace(self._path, msgspec.json.encode(_Saved(self._at, seen)))
        self._is_saved = True


def open_cursor(name: str, environ: Mapping[str, str]) -> Cursor:
    """The cursor of that name, made if there is none. Raises UsageError for what is no name, CorruptError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a cursor", "small letters, digits, - and _", subject=name)
    return Cursor(state_dir(environ) / "cursors" / f"{name}.json", now_ns=time.time_ns())


def _what(event: Event) -> str:
    """What happened, the same from every source, without its time."""
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


def _since(known: dict[str, list[str]], oldest: str) -> dict[str, list[str]]:
    kept = {what: [at for at in times if at >= oldest] for what, times in known.items()}
    return {what: times for what, times in kept.items() if times}


def _is_same(event: Event, at: str) -> bool:
    return event.ts == at if event.seq else abs(parse_rfc3339(event.ts) - parse_rfc3339(at)) <= SAME_NS
