"""Room for the turns of a root: at most `limits: agents` agents and sessions work at once, first come first served.

Each holder that waits for room, or works, has a place in a line: a locked file whose name begins with the time at which
it came. Whoever has fewer than `agents` others before it may work. The lock of a process that dies is free, and its
place counts no more. Does not depend on which message is run.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from beam.base import files
from beam.base.clock import Clock
from beam.store.lock import Lock, is_held, try_lock

_OLD_NS = 60 * 1_000_000_000  # a place without a process is removed then: a younger one may just be taken


class Room:
    """The place of one holder in the line of its root, which is in `directory`."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._place: Lock | None = None
        self._name = ""

    def is_there(self, most: float) -> bool:
        """Return whether this holder may work now. If not, it keeps its place in the line until `leave`."""
        if self._place is None:
            files.make_directory(self._directory)
            self._name = f"{self._clock.now_ns():020d}-{self._clock.random(4).hex()}"
            self._place = try_lock(self._directory / self._name)
        before = 0
        for name in sorted(files.names(self._directory)):
            if name >= self._name:
                break
            before += self._counts(name)
            if before >= most:
                return False
        return True

    def _counts(self, name: str) -> bool:
        """Return whether a process has this place. Remove the place of a process that died."""
        path = self._directory / name
        if is_held(path):
            return True
        came = name.partition("-")[0]
        if came.isdigit() and self._clock.now_ns() - int(came) > _OLD_NS:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        return False

    def leave(self) -> None:
        """Give the place back."""
        place, self._place = self._place, None
        if place is not None:
            with contextlib.suppress(OSError):
                (self._directory / self._name).unlink(missing_ok=True)
            place.release()
