"""JSON-RPC with an agent's process, one frame a line: the frames that beam writes, and beam's requests.

Each request is answered once: by the process, or by a timeout. Does not depend on the purpose of a request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from beam.agents.base import raw_json
from beam.agents.fields import Object, object_of, string
from beam.agents.link import Send, Step

Id = int | str
METHOD_NOT_FOUND = -32601


class Envelope(Struct, frozen=True):
    """What every frame from a process may have besides its parameters: a request has a method and an id, a notification
    a method alone, an answer an id alone."""

    id: Id | None = None
    method: str = ""
    result: Any = None
    error: Any = None


class Writer:
    """Makes the frames that beam writes. `head` are fields that every frame begins with."""

    def __init__(self, head: Object) -> None:
        self._head = head

    def request(self, number: int, method: str, params: Object) -> Send:
        """Return a request from beam to the agent."""
        return self._send({"id": number, "method": method, "params": params})

    def notification(self, method: str, params: Object | None = None) -> Send:
        """Return a notification from beam to the agent."""
        return self._send({"method": method, **({} if params is None else {"params": params})})

    def answer(self, number: Id, result: Object) -> Send:
        """Return the answer to a request from the agent."""
        return self._send({"id": number, "result": result})

    def refusal(self, number: object, message: str) -> Send:
        """Return the refusal of a request from the agent."""
        return self._send({"id": number, "error": {"code": METHOD_NOT_FOUND, "message": message}})

    def _send(self, frame: Object) -> Send:
        return Send(bytes(raw_json({**self._head, **frame})) + b"\n")


def key_of(number: Id) -> str:
    """Return a request's id as a unique text: 1 and "1" are different ids."""
    return msgspec.json.encode(number).decode()


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
