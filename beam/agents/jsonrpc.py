"""JSON-RPC with an agent's process, one frame per line: `Writer` makes the frames that beam sends, and `PendingCalls`
keeps beam's requests until they are answered.

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
    """The fields of a frame from a process, except its parameters. A request has a method and an id, a notification
    only a method, an answer only an id."""

    id: Id | None = None
    method: str = ""
    result: Any = None
    error: Any = None


class Writer:
    """Makes the frames that beam sends. `head` are the fields with which every frame begins."""

    def __init__(self, head: Object) -> None:
        self._head = head

    def request(self, number: int, method: str, params: Object) -> Send:
        """Return the step that sends a request to the agent."""
        return self._send({"id": number, "method": method, "params": params})

    def notification(self, method: str, params: Object | None = None) -> Send:
        """Return the step that sends a notification to the agent."""
        return self._send({"method": method, **({} if params is None else {"params": params})})

    def answer(self, number: Id, result: Object) -> Send:
        """Return the step that answers a request from the agent."""
        return self._send({"id": number, "result": result})

    def refusal(self, number: object, message: str) -> Send:
        """Return the step that refuses a request from the agent."""
        return self._send({"id": number, "error": {"code": METHOD_NOT_FOUND, "message": message}})

    def _send(self, frame: Object) -> Send:
        return Send(bytes(raw_json({**self._head, **frame})) + b"\n")


def key_of(number: Id) -> str:
    """Return a request's id as a unique text: 1 and "1" are different ids."""
    return msgspec.json.encode(number).decode()


class Reply(Struct, frozen=True):
    """The answer to a request. `now` is the time at which it came. `error` says why the request failed, "" if it did
    not fail. `failure` is the error object that the process sent. `is_late`: the request timed out."""

    now: float
    result: object = None
    error: str = ""
    failure: Object = {}
    is_late: bool = False


OnReply = Callable[[Reply], list[Step]]
MakeRequest = Callable[[int, str, Object], Step]


class _PendingCall(Struct, frozen=True):
    until: float | None
    then: OnReply


class PendingCalls:
    """The requests that are not answered yet. `name` is the name of the process that should answer. `request` is called
    to make the step that sends a request."""

    def __init__(self, name: str, request: MakeRequest) -> None:
        self._name = name
        self._request = request
        self._last = 0
        self._waiting: dict[int, _PendingCall] = {}

    @property
    def due(self) -> float | None:
        """Return the time at which the next request times out; None if no request can time out."""
        times = (waiting.until for waiting in self._waiting.values() if waiting.until is not None)
        return min(times, default=None)

    def call(self, method: str, params: Object, then: OnReply, until: float | None) -> Step:
        """Return the step that sends a request. `then` is called with the answer and returns the next steps. The
        request times out at `until`, or never if `until` is None."""
        self._last += 1
        self._waiting[self._last] = _PendingCall(until, then)
        return self._request(self._last, method, params)

    def on_answered(self, number: object, result: object, error: object, now: float) -> list[Step]:
        """Return the steps that follow from an answer. If no request waits for this answer, there are none."""
        waiting = self._waiting.pop(number, None) if type(number) is int else None
        if waiting is None:
            return []
        if error is None:
            return waiting.then(Reply(now, result))
        failure = object_of(error)
        return waiting.then(Reply(now, error=string(failure, "message") or "it gave no reason", failure=failure))

    def expire(self, now: float) -> list[Step]:
        """Return the steps that follow from the requests that timed out."""
        found: list[Step] = []
        for number, waiting in list(self._waiting.items()):
            is_late = waiting.until is not None and now >= waiting.until
            if is_late and self._waiting.pop(number, None) is not None:  # unless an earlier `then` dropped it
                found += waiting.then(Reply(now, error=f"{self._name} did not answer in time", is_late=True))
        return found

    def forget_all(self) -> None:
        """Forget all open requests; late answers are ignored."""
        self._waiting.clear()
