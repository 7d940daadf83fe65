"""beam's requests to a process that speaks JSON-RPC.

Each is answered once: by the process, or by a timeout. Does not depend on the purpose of a request.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from beam.agents.fields import Object, object_of, string
from beam.agents.link import Step


class Reply(Struct, frozen=True):
    """The answer to a request, at the time `now`: `error` says why it failed, "" if it did not, and `failure` is the
    error object that the process sent; `is_late`: the request timed out."""

    now: float
    result: object = None
    error: str = ""
    failure: Object = {}
    is_late: bool = False


Then = Callable[[Reply], list[Step]]
Request = Callable[[int, str, Object], Step]


class _Waiting(Struct, frozen=True):
    until: float | None
    then: Then


class Calls:
    """The requests without an answer. `name` is the process that should answer, `request` makes the step that sends
    a request."""

    def __init__(self, name: str, request: Request) -> None:
        self._name = name
        self._request = request
        self._last = 0
        self._waiting: dict[int, _Waiting] = {}

    @property
    def due(self) -> float | None:
        """Return when the first request times out; None if none can."""
        times = (waiting.until for waiting in self._waiting.values() if waiting.until is not None)
        return min(times, default=None)

    def call(self, method: str, params: Object, then: Then, until: float | None) -> Step:
        """Return the step that sends a request; `then` maps its answer to the next steps. It times out at `until`,
        never if that is None."""
        self._last += 1
        self._waiting[self._last] = _Waiting(until, then)
        return self._request(self._last, method, params)

    def answered(self, number: object, result: object, error: object, now: float) -> list[Step]:
        """Return the steps that follow from an answer; none if no request waits for it."""
        waiting = self._waiting.pop(number, None) if type(number) is int else None
        if waiting is None:
            return []
        if error is None:
            return waiting.then(Reply(now, result))
        failure = object_of(error)
        return waiting.then(Reply(now, error=string(failure, "message") or "it gave no reason", failure=failure))

    def expired(self, now: float) -> list[Step]:
        """Return the steps that follow from the requests that timed out."""
        found: list[Step] = []
        for number, waiting in list(self._waiting.items()):
            is_late = waiting.until is not None and now >= waiting.until
            if is_late and self._waiting.pop(number, None) is not None:  # unless one before dropped it
                found += waiting.then(Reply(now, error=f"{self._name} did not answer in time", is_late=True))
        return found

    def drop(self) -> None:
        """Forget all open requests; late answers are ignored."""
        self._waiting.clear()
