"""beam's control requests to one process. Each request is answered once: by claude, or by a timeout.

Does not depend on the purpose of a request.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from beam.agents.claude.dialogue import wire
from beam.agents.fields import Object, obj, string
from beam.agents.link import Step


class Reply(Struct, frozen=True):
    """The answer to a request. `now` is the time when the answer came. `error` says why the request failed, "" if it
    succeeded. `is_late`: the request timed out."""

    now: float
    result: Object = {}
    error: str = ""
    is_late: bool = False


OnReply = Callable[[Reply], list[Step]]


class _PendingCall(Struct, frozen=True):
    until: float
    then: OnReply


class PendingCalls:
    """The control requests that have no answer yet."""

    def __init__(self) -> None:
        self._last = 0
        self._waiting: dict[str, _PendingCall] = {}

    @property
    def due(self) -> float | None:
        """Return the time at which the first request times out; None if no request waits."""
        return min((waiting.until for waiting in self._waiting.values()), default=None)

    def call(self, subtype: str, given: Object, then: OnReply, until: float) -> Step:
        """Return the step that sends a request. The request times out at the time `until`; `then` maps its answer to
        the next steps."""
        self._last += 1
        key = f"beam-{self._last}"
        self._waiting[key] = _PendingCall(until, then)
        return wire.request(key, subtype, given)

    def on_answered(self, response: Object, now: float) -> list[Step]:
        """Return the steps that follow from an answer; [] for an unexpected answer, because claude repeats beam's own
        answers."""
        waiting = self._waiting.pop(string(response, "request_id"), None)
        if waiting is None:
            return []
        if string(response, "subtype") == "success":
            return waiting.then(Reply(now, obj(response, "response")))
        return waiting.then(Reply(now, error=string(response, "error") or "it gave no reason"))

    def expire(self, now: float) -> list[Step]:
        """Return the steps that follow from the requests that timed out."""
        found: list[Step] = []
        for key, waiting in list(self._waiting.items()):
            if now >= waiting.until and self._waiting.pop(key, None) is not None:  # unless an earlier one dropped it
                found += waiting.then(Reply(now, error="claude did not answer in time", is_late=True))
        return found

    def forget_all(self) -> None:
        """Forget all open requests; late answers are ignored."""
        self._waiting.clear()
