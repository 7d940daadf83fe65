"""Watches directories for changes in a thread of its own, which copies each small file as soon as the file changes.

A message may stay in its inbox for only a tenth of a second. The thread therefore copies the inbox at once, even if the
consumer of the changes is busy. If the system's change notifications are not available or not wanted, the thread polls.
Does not depend on the meaning of the files.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from beam.teams import disk
from beam.teams.disk import FileSnapshot, Signature, TeamFile

if TYPE_CHECKING:
    from beam.teams.notify import Notify
    from beam.teams.notify_elsewhere import NotifyElsewhere

HOT_SWEEP_S = 2.0  # how often the live teams are checked, because a notification may be lost
FULL_SWEEP_S = 30.0  # how often everything is checked; also done after a burst or a pause of this process
SWEEP_SHARE = 0.003  # the largest share of the time for checking the live teams
MISSING_S = 0.1  # how soon a directory that was not there is noticed
REPLACED_S = 1.0  # how soon it is noticed that another directory has the path of one that was moved away
POLL_S = 0.04
POLL_ALL_S = 0.2
SLICE = 100  # files that are checked between two checks for changes
COPYING_S = 0.01  # how long copying may continue before the copies are shown
_SWITCH_S = 0.0005
_SLEPT_S = 5.0
_OTHERS_S = 0.5


class Changes:
    """Watches directories until it is closed: `homes` (Claude Code's configuration directories), `others` and `flat`.

    In `others` and `flat`, only the files that `accept` returns True for are reported; without `accept`, only .jsonl
    and .meta.json files. Subdirectories of a directory in `flat` are not watched. `wake` is set when `take_reported`
    has something to return.
    """

    def __init__(
        self,
        homes: Sequence[str],
        *,
        others: Sequence[str] = (),
        flat: Sequence[str] = (),
        accept: Callable[[str], bool] | None = None,
        poll_only: bool = False,
        wake: threading.Event,
    ) -> None:
        self._claude_homes = tuple(homes)
        self._small = frozenset(f"{home}/{folder}" for home in homes for folder in disk.SMALL)
        self._folders = tuple(f"{home}/{folder}" for home in homes for folder in disk.FOLDERS)
        self._wanted = (*self._folders, *others, *flat)
        self._flat_directories = frozenset(flat)
        self._accept = accept
        self._poll_only = poll_only
        self._wake = wake
        self._signatures: dict[str, Signature] = {}
        self._places: dict[str, TeamFile] = {}
        self._seen: deque[FileSnapshot] = deque()
        self._files: dict[str, None] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._watching: tuple[str, ...] = ()
        self._identities: dict[str, tuple[int, int] | None] = {}
        self.hot: dict[str, frozenset[str]] = {}
        self._listener: Notify | NotifyElsewhere | None = None
        self.error = ""

    def start(self) -> None:
        """Read the existing small files, then start the thread that reports changes."""
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))  # the copy must not wait for a busy reader
        notify = None if self._poll_only else self._start_listener()
        self.sweep()
        self._thread = threading.Thread(target=self._run, args=(notify,), name="teams", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._listener is not None:
            self._listener.interrupt()
        if self._thread is not None:
            self._thread.join(5)

    def watch_directory(self, folder: str, *, is_flat: bool = False) -> None:
        """Watch one more directory. With `is_flat`, its subdirectories are not watched. The watch begins shortly after
        the call."""
        if folder not in self._wanted:
            self._flat_directories = self._flat_directories | {folder} if is_flat else self._flat_directories
            self._wanted = (*self._wanted, folder)

    def mark(self, path: str) -> None:
        """Report a path as changed."""
        self._mark(path)
        self._wake.set()

    def take_reported(self) -> tuple[list[FileSnapshot], list[str]]:
        """Return what was reported since the last call: the copies of small files, in the order in which they were
        read, and the paths of other changed files. The path "*" means that any file may have changed."""
        with self._lock:
            snapshot, files = list(self._seen), list(self._files)
            self._seen.clear()
            self._files.clear()
        return snapshot, files

    def sweep(
        self, only: dict[str, frozenset[str]] | None = None, *, between: Callable[[], object] | None = None
    ) -> None:
        """Read each small file that changed since it was last read, and report each small file that is gone.

        `only` maps each home to the teams and task lists that are checked (None: all). `between` is called from time to
        time, so that the caller can do other work during a long sweep.
        """
        for home in self._claude_homes:
            groups = None if only is None else only.get(home, frozenset())
            if groups is not None and not groups:
                continue
            found = []
            for one in disk.small_files(home, groups):
                found.append(one)
                if between is not None and len(found) % SLICE == 0:
                    between()
            if between is not None:
                between()  # notified paths come in their order; the rest was not notified
            there = {file.path for file, _ in found}
            changed = [one for one in found if self._signatures.get(one[0].path) != one[1]]
            for file, _ in sorted(changed, key=lambda one: (one[1][0], disk.natural_key(one[0].path))):
                self._copy(file)
            known = [p for p in list(self._places.values()) if p.home == home and (groups is None or p.group in groups)]
            for file in known:
                if file.path not in there:
                    self._copy(file)
        self._announce()

    def _copy(self, file: TeamFile) -> None:
        self._add_snapshot(*disk.read(file, time.time_ns()))

    def _add_snapshot(self, snapshot: FileSnapshot, signature: Signature | None) -> None:
        path = snapshot.file.path
        with self._lock:
            if signature is None:
                self._signatures.pop(path, None)
                if self._places.pop(path, None) is None:
                    return
            else:
                self._signatures[path] = signature
                self._places[path] = snapshot.file
            self._seen.append(snapshot)

    def _mark(self, path: str) -> None:
        with self._lock:
            self._files[path] = None

    def _announce(self) -> None:
        if self._seen or self._files:
            self._wake.set()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _existing_paths(self) -> tuple[str, ...]:
        return tuple(path for path in self._wanted if Path(path).is_dir())

    def _is_replaced(self) -> bool:
        """Return whether another directory has the path of a watched one. A notification does not tell that a directory
        was moved away, or that a link above it leads elsewhere now."""
        return any(disk.identity(path) != self._identities[path] for path in self._watching)

    def _set_watching(self) -> None:
        self._watching = self._existing_paths()
        self._identities = {path: disk.identity(path) for path in self._watching}

    def _start_listener(self) -> Notify | NotifyElsewhere | None:
        self._set_watching()
        if not self._watching:
            return None
        try:
            self._listener = self._new_listener()
        except (OSError, RuntimeError) as error:
            self.error = f"the system can't notify ({error}); looking every {POLL_S * 1000:.0f} ms instead"
            self._poll_only = True
            return None
        return self._listener

    def _new_listener(self) -> Notify | NotifyElsewhere:
        if sys.platform == "linux":
            from beam.teams.notify import Notify

            small = [path for path in self._watching if path in self._small]
            grown = [path for path in self._watching if path not in self._small]
            return Notify(small, grown=grown, flat=self._flat_directories)
        from beam.teams.notify_elsewhere import NotifyElsewhere

        return NotifyElsewhere(self._watching)

    def _run(self, notify: Notify | NotifyElsewhere | None) -> None:
        hot = full = missing = time.monotonic()
        rest = HOT_SWEEP_S
        while not self._stop.is_set():
            now = time.monotonic()
            if self._poll_only:
                self._poll(now - full >= POLL_ALL_S)
                full = now if now - full >= POLL_ALL_S else full
                self._stop.wait(POLL_S)
                continue
            interval_s = self._recheck_interval_s() if len(self._watching) < len(self._wanted) else REPLACED_S
            if now - missing >= interval_s:
                missing = now
                if self._existing_paths() != self._watching or self._is_replaced():
                    before, notify = notify, self._start_listener()
                    if before is not None:
                        before.close()
                    self._mark("*")
                    self.sweep()
            burst = self._await_changes(notify)
            slept = time.monotonic() - now > _SLEPT_S
            if burst or slept or now - full >= FULL_SWEEP_S:
                full = time.monotonic()
                self._mark("*")
                self.sweep(between=partial(self._listen_during_sweep, notify))
                hot = time.monotonic()
            elif now - hot >= rest:
                began = time.monotonic()
                self.sweep(self.hot, between=partial(self._listen_during_sweep, notify))
                hot = time.monotonic()
                rest = max(HOT_SWEEP_S, (hot - began) / SWEEP_SHARE)
        if notify is not None:
            notify.close()

    def _recheck_interval_s(self) -> float:
        """Return the number of seconds after which missing directories are looked for again."""
        return _OTHERS_S if set(self._folders) <= set(self._watching) else MISSING_S

    def _await_changes(self, notify: Notify | NotifyElsewhere | None) -> bool:
        """Wait for changes and copy the changed files. Return True if notifications were lost, so that some changes may
        be missing."""
        if notify is None:
            self._stop.wait(MISSING_S)
            return False
        return self._listen(notify, int(self._recheck_interval_s() * 1000))

    def _listen_during_sweep(self, notify: Notify | NotifyElsewhere | None) -> None:
        """Copy the files that changed during a long sweep, so that messages are seen before the sweep ends."""
        if notify is not None:
            self._listen(notify, 0)

    def _listen(self, notify: Notify | NotifyElsewhere, timeout_ms: int) -> bool:
        """Copy changed files until no more notifications arrive, or until COPYING_S has passed. Wake the reader only
        afterwards. Return True if notifications were lost."""
        paths, lost = notify.wait(timeout_ms)
        until = time.monotonic() + COPYING_S
        while paths:
            first = {path: read for path in paths if (read := self._inbox_copy(path)) is not None}
            for path in paths:
                if path in self._watching:  # a directory that is gone is looked for again
                    self._watching = tuple(one for one in self._watching if one != path or Path(one).is_dir())
                if path in first:
                    self._add_snapshot(*first[path])
                else:
                    self._handle_path(path)
            if lost or time.monotonic() >= until:
                break
            paths, lost = notify.wait(0)
        self._announce()
        return lost

    def _inbox_copy(self, path: str) -> tuple[FileSnapshot, Signature | None] | None:
        """Return a copy of the file if it is an inbox, else None. Inboxes are copied before all other changed files,
        because messages leave them quickly."""
        home = next((one for one in self._claude_homes if path.startswith(f"{one}/teams/")), None)
        file = disk.team_file_of(home, path) if home is not None else None
        return disk.read(file, time.time_ns()) if file is not None and file.kind == "inbox" else None

    def _handle_path(self, path: str) -> None:
        home = next((one for one in self._claude_homes if path.startswith(one + "/")), None)
        if home is None and self._accept is not None:
            if self._accept(path):
                self._mark(path)
            return
        if home is None or path.startswith(f"{home}/projects/"):
            if path.endswith((".jsonl", ".meta.json")):
                self._mark(path)
            elif not path.endswith((".lock", ".json")) and ".tmp." not in path:
                self._mark("*")
            return
        file = disk.team_file_of(home, path)
        if file is not None:
            self._copy(file)
            return
        parts = path[len(home) + 1 :].split("/")
        if (
            len(parts) in (2, 3)
            and parts[0] in ("teams", "tasks")
            and not path.endswith(".lock")
            and "." not in parts[-1]
        ):
            self.sweep({home: frozenset({parts[1]})})

    def _poll(self, everything: bool) -> None:
        if everything:
            self._mark("*")
        self.sweep(None if everything else self.hot)
