"""Watches the session files of agent CLIs and returns the events in them (`ForeignWatcher`).

The files are only read. Sessions that beam started are included; the callers filter them out.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, structs

from beam.agents.images import without_image_data
from beam.agents.session_files import Session, SharedRecords
from beam.base.clock import rfc3339
from beam.foreign.compressed import SUFFIX
from beam.foreign.places import RUNNING, SessionPlace, newer_name, place, places, session_path
from beam.foreign.tail import Tail
from beam.model.events import Event
from beam.secrets.redact import redact_event
from beam.teams.changes import Changes

_FULL_S = 30.0  # all files are checked this often, because a notification may be lost
_RUNNING_POLL_S = 2.0  # how often folders of running processes are looked for
_MARGIN_MS = 2_000


class ForeignEvent(Struct, frozen=True):
    """An event of a session that beam may not have started. `adapter` is the adapter of the session's CLI, `path` the
    path of the session's file."""

    event: Event
    adapter: str
    session: Session
    path: str


class ForeignWatcher:
    """All sessions that agent CLIs on this machine keep in files.

    `poll` returns the events since the last call, and never waits; `wake` is set when there may be new events. Events
    from before `since_ns` (default: now) are left out; that time is rounded down to a millisecond, because the CLIs
    write their times in milliseconds. `only` names the adapters to watch (default: all). `running` returns the working
    folders of running processes by adapter, for CLIs that keep their sessions in their working folder.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        wake: threading.Event,
        since_ns: int | None = None,
        only: Sequence[str] = (),
        running: Callable[[], Mapping[str, set[str]]] | None = None,
        poll_only: bool = False,
    ) -> None:
        began_ns = time.time_ns()
        self._since_ns = began_ns if since_ns is None else since_ns
        self._since = rfc3339(self._since_ns // 1_000_000 * 1_000_000)
        self._has_history = since_ns is not None
        self.places = places(environ, only)
        self._running = running
        self._running_s = 0.0
        self._full_s = time.monotonic()
        self._tails: dict[str, Tail] = {}
        self._shared: dict[str, SharedRecords] = {}
        self._changes = Changes(
            (),
            others=[one.folder for one in self.places if not one.is_database],
            flat=[one.folder for one in self.places if one.is_database],
            accept=self._is_session_file,
            poll_only=poll_only,
            wake=wake,
        )
        self._changes.start()
        for one in self.places:
            self._follow_files(one)
        self._look_for_folders(is_first=True)

    def close(self) -> None:
        """Stop watching."""
        self._changes.close()

    @property
    def known(self) -> dict[str, Tail]:
        """Return the Tail of each known file, by path."""
        return self._tails

    def poll(self) -> list[ForeignEvent]:
        """Return the events since the last call, grouped by file."""
        _, paths = self._changes.take_reported()
        self._look_for_folders(is_first=False)
        changed = dict.fromkeys(session_path(path) for path in paths if path != "*")
        if "*" in paths or time.monotonic() - self._full_s >= _FULL_S:
            self._full_s = time.monotonic()
            changed.update(dict.fromkeys(self._changed_files()))
        found: list[ForeignEvent] = []
        for path in changed:
            tail = self._tail(path)
            if tail is not None:
                found += self._read(tail)
        return found

    def _read(self, tail: Tail) -> list[ForeignEvent]:
        found = []
        for session, event in tail.read():
            event = structs.replace(event, ts=event.ts or tail.written)
            if event.ts < self._since:
                continue
            event, _ = redact_event(without_image_data(event))
            found.append(ForeignEvent(event, tail.place.adapter, session, tail.path))
        return found

    def _tail(self, path: str) -> Tail | None:
        if path not in self._tails:
            one = self._place_of(path)
            if one is None or self._has_newer(path):
                return None
            self._tails[path] = self._moved(one, path) or self._new_tail(one, path)
        return self._tails[path]

    def _new_tail(self, one: SessionPlace, path: str, offset: int = 0) -> Tail:
        shared = self._shared.setdefault(one.adapter, SharedRecords())
        return Tail(one, path, offset, since_ms=self._since_ns // 1_000_000 - _MARGIN_MS, shared=shared)

    def _has_newer(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return bool(newer_name(name)) and os.path.lexists(f"{folder}/{newer_name(name)}")

    def _moved(self, one: SessionPlace, path: str) -> Tail | None:
        """Return the Tail of a file that the CLI archived or compressed, at its new path; None for a new session."""
        name = path.rpartition("/")[2].removesuffix(SUFFIX)
        for known, tail in self._tails.items():
            if tail.place.adapter == one.adapter and known.rpartition("/")[2] == name and not os.path.lexists(known):
                if path.endswith(SUFFIX):
                    return self._new_tail(one, path, os.lstat(path).st_size)
                tail.place, tail.path = one, path
                del self._tails[known]
                return tail
        return None

    def _is_session_file(self, path: str) -> bool:
        return self._place_of(session_path(path)) is not None

    def _place_of(self, path: str) -> SessionPlace | None:
        return next((one for one in self.places if one.fits(path)), None)

    def _follow_files(self, one: SessionPlace) -> None:
        """Follow the existing files of a place. A file that may contain requested earlier events is read from its
        beginning, any other file from its end."""
        for path, status in sorted(one.paths(), key=lambda each: each[1].st_mtime_ns):  # a session before its forks
            is_wanted = self._has_history and status.st_mtime_ns >= self._since_ns
            tail = self._tails[path] = self._new_tail(one, path, 0 if is_wanted else status.st_size)
            if is_wanted:
                self._changes.mark(path)
            elif one.shape(path) == "document" and status.st_mtime_ns >= self._since_ns - 3_600_000_000_000:
                tail.mark_as_read()

    def _changed_files(self) -> list[str]:
        """Return the files that may have new events: unknown files, files whose size differs from the number of bytes
        already read, and all databases."""
        found = []
        for one in self.places:
            for path, status in one.paths():
                tail = self._tails.get(path)
                if tail is None or one.is_database or tail.offset != status.st_size:
                    found.append(path)
        return found

    def _look_for_folders(self, *, is_first: bool) -> None:
        """Add the working folders of running processes as places, for CLIs that keep their sessions there."""
        now = time.monotonic()
        if self._running is None or (now - self._running_s < _RUNNING_POLL_S and not is_first):
            return
        self._running_s = now
        from beam.agents import registry

        known = {(one.adapter, one.folder) for one in self.places}
        for adapter, folders in self._running().items():
            sessions = registry.sessions_of(adapter)
            if sessions.files.folder != RUNNING:
                continue
            for folder in sorted(folders):
                if (adapter, folder) not in known:
                    one = place(adapter, sessions, folder)
                    self.places.append(one)
                    self._changes.watch_directory(folder, is_flat=True)
                    self._follow_files(one)
