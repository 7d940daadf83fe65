"""The requests of beam's to one server: each is answered once, by Codex or by the time.

Does not depend on what a request is for.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from beam.agents.codex.dialogue import wire
from beam.agents.fields import Object, object_of, string
from beam.agents.link import Step


class Reply(Struct, frozen=True):
    """What came of a request, at the time `now`: `error` says why it failed, "" if it did not; `is_late`: there was no
    answer in time.
    """

    now: float
    result: object = None
    error: str = ""
    is_late: bool = False


Then = Callable[[Reply], list[Step]]


class _Waiting(Struct, frozen=True):
    until: float
    then: Then


class Calls:
    """The requests that wait for their answers."""

    def __init__(self) -> None:
        self._last = 0
        self._waiting: dict[int, _Waiting] = {}

    @property
    def due(self) -> float | None:
        """Return when the first of them is late; None while none waits."""
        return min((waiting.until for waiting in self._waiting.values()), default=None)

    def call(self, method: str, params: Object, then: Then, until: float) -> Step:
        """Return the step that sends a request; `then` says what follows from its answer."""
        self._last += 1
        self._waiting[self._last] = _Waiting(until, then)
        return wire.request(self._last, method, params)

    def answered(self, frame: wire.Frame, now: float) -> list[Step]:
        """Return what follows from an answer; nothing, if nobody waits for it."""
        waiting = self._waiting.pop(frame.id, None) if isinstance(frame.id, int) else None
        if waiting is None:
            return []
        if frame.error is None:
            return waiting.then(Reply(now, frame.result))
        return waiting.then(Reply(now, error=string(object_of(frame.error), "message") or "it gave no reason"))

    def expired(self, now: float) -> list[Step]:
        """Return what follows from the requests that had no answer in time."""
        found: list[Step] = []
        for number, waiting in list(self._waiting.items()):
            if now >= waiting.until and self._waiting.pop(number, None) is not None:  # unless one before dropped it
                found += waiting.then(Reply(now, error="codex did not answer in time", is_late=True))
        return found

    def drop(self) -> None:
        """Wait for none of them any more."""
        self._waiting.clear()
