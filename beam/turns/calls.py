"""Calls: requests that only the agent's process can answer, such as a change of its model.

Each call is forwarded when the process can take it. It is answered exactly once, by a deadline, even if the process
ends. Does not depend on the source of a call or the destination of its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from beam.base.clock import Clock
from beam.base.errors import UnsupportedError

if TYPE_CHECKING:
    from beam.agents.link import AnsweredIntent

CALL_TIMEOUT_S = 30.0


class CallAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a call. `code` (as in `control.done`) and `message` say why it failed; `result` is a JSON value."""

    ok: bool = True
    code: str = ""
    message: str = ""
    result: Raw = Raw(b"null")


class _WaitingCall(Struct, kw_only=True):
    """One call without an answer."""

    call: AnsweredIntent
    until: float
    answer: Callable[[CallAnswer], None]
    is_passed_on: bool = False


class AgentCalls:
    """The calls of one turn, or of a process between its turns. `takes`: the process accepts calls now. `is_closed`: it
    will never accept a call again."""

    def __init__(self, clock: Clock) -> None:
        self.takes = False
        self.is_closed = False
        self._clock = clock
        self._waiting: dict[str, _WaitingCall] = {}

    @property
    def are_open(self) -> bool:
        """Return whether a call waits for its answer."""
        return bool(self._waiting)

    def add(
        self, call: AnsweredIntent, answer: Callable[[CallAnswer], None], *, seconds: float = CALL_TIMEOUT_S
    ) -> bool:
        """Add a call. `answer` is called once with its answer, within `seconds`.

        Return False if a call with this id already waits. Raises UnsupportedError if the process accepts no calls now.
        """
        if call.id in self._waiting:
            return False
        if not self.takes:
            raise UnsupportedError(
                "the agent accepts no such request at the moment", "beam agent list", subject=call.id
            )
        self._waiting[call.id] = _WaitingCall(call=call, until=self._clock.monotonic() + seconds, answer=answer)
        return True

    def take_unforwarded(self) -> list[AnsweredIntent]:
        """Return the calls that were not forwarded yet, oldest first, and mark them as forwarded."""
        found = [waiting for waiting in self._waiting.values() if not waiting.is_passed_on]
        for waiting in found:
            waiting.is_passed_on = True
        return [waiting.call for waiting in found]

    def answer_call(self, call_id: str, answer: CallAnswer) -> bool:
        """Answer the call; return False if it no longer waits."""
        waiting = self._waiting.pop(call_id, None)
        if waiting is not None:
            waiting.answer(answer)
        return waiting is not None

    def expire(self) -> None:
        """Answer the calls that have timed out: they failed."""
        now = self._clock.monotonic()
        for call_id, waiting in list(self._waiting.items()):
            if now >= waiting.until:
                text = "the agent did not answer in time"
                self.answer_call(call_id, CallAnswer(ok=False, code="unfinished", message=text))

    def close(self, why: str) -> None:
        """Refuse new calls from now on, and answer the waiting calls: they failed, for the reason `why`."""
        self.takes, self.is_closed = False, True
        for call_id in list(self._waiting):
            self.answer_call(call_id, CallAnswer(ok=False, code="unfinished", message=why))
