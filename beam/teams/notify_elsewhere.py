"""Waits for changes below directories on systems without inotify, by the package `watchfiles`.

Does not depend on the content of the files.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import watchfiles

from beam.teams import disk

_BURST = 2_000  # if more changes come at once, some may be missing
_TURN_MS = 100  # the longest time of one wait; an interrupt is noticed after it
_STEP_MS = 20  # between two looks of watchfiles at what changed; each costs some CPU


class NotifyElsewhere:
    """Watches directories and everything below them, as `beam.teams.notify.Notify` does on Linux.

    Raises OSError or RuntimeError if the system's limit is reached.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._stop = threading.Event()
        self._turns = watchfiles.watch(
            *folders,
            watch_filter=None,
            debounce=1,
            step=_STEP_MS,
            stop_event=self._stop,
            rust_timeout=_TURN_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        self._first: tuple[list[str], bool] | None = self._next()  # watching begins with the first turn

    def wait(self, timeout_ms: int) -> tuple[list[str], bool]:
        """Wait for changes, at most 100 ms; do not wait if `timeout_ms` is 0.

        Return the paths that changed, sorted so that numbered files are in order, and whether some changes may be
        missing.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return self._next() if timeout_ms else ([], False)

    def interrupt(self) -> None:
        """End a running `wait` from another thread. All later calls of `wait` return at once."""
        self._stop.set()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._turns.close()

    def _next(self) -> tuple[list[str], bool]:
        changes = next(self._turns, set())
        return sorted({path for _, path in changes}, key=disk.natural_key), len(changes) > _BURST
