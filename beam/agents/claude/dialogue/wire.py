"""The lines that beam writes to Claude Code: its control requests, each of which is answered once, by claude or by a
timeout, and the answers to a person's requests. The lines that beam reads are in `claude/decode.py`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from beam.agents.base import raw_json
from beam.agents.fields import Object, obj, string
from beam.agents.link import Answered, Send, Step, failed_answer


def message(key: str, text: str) -> Send:
    """Return the line for a prompt. claude identifies the prompt by its key, a UUID, and accepts each key once."""
    return _send({"type": "user", "uuid": key, "message": {"role": "user", "content": text}})


def request(key: str, subtype: str, given: Object) -> Send:
    """Return the line for a request from beam to claude."""
    return _send({"type": "control_request", "request_id": key, "request": {"subtype": subtype, **given}})


def answer(key: str, response: Object) -> Send:
    """Return the line for the answer to a request from claude."""
    envelope = {"subtype": "success", "request_id": key, "response": response}
    return _send({"type": "control_response", "response": envelope})


def refusal(key: str, why: str) -> Send:
    """Return the line for the refusal of a request from claude."""
    envelope = {"subtype": "error", "request_id": key, "error": why}
    return _send({"type": "control_response", "response": envelope})


def _send(line: Object) -> Send:
    return Send(bytes(raw_json(line)) + b"\n")


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
        return request(key, subtype, given)

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


def answer_from_reply(call_id: str, reply: Reply, show: Callable[[Object], object] = lambda result: None) -> list[Step]:
    """Return the process's own reply as the answer to the call. `show` converts the reply's result for display."""
    if reply.error:
        return [failed_answer(call_id, reply.error, is_late=reply.is_late)]
    shown = show(reply.result)
    if isinstance(shown, str):
        return [failed_answer(call_id, shown)]
    return [Answered(id=call_id, result=raw_json(shown))]
