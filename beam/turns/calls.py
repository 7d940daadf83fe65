"""Requests that only the agent's own process can answer: each is passed on when the turn can, and answered once, in
time, whatever becomes of the process.

Does not depend on where a request comes from or where its answer goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from beam.base.clock import Clock
from beam.base.errors import UnsupportedError

if TYPE_CHECKING:
    from beam.agents.link import Call

LIMIT_S = 30.0


class CallAnswer(Struct, frozen=True, kw_only=True):
    """What came of a call. `code` (as `control.done` has it) and `message` say why it failed; `result` is a JSON
    value."""

    ok: bool = True
    code: str = ""
    message: str = ""
    result: Raw = Raw(b"null")


class _Waiting(Struct, kw_only=True):
    """One call without an answer."""

    call: Call
    until: float
    answer: Callable[[CallAnswer], None]
    is_passed_on: bool = False


class AgentCalls:
    """The calls of one turn, or of a process between its turns. `takes` is on while the process takes any; once it
    `is_closed` it takes none any more."""

    def __init__(self, clock: Clock) -> None:
        self.takes = False
        self.is_closed = False
        self._clock = clock
        self._waiting: dict[str, _Waiting] = {}

    @property
    def are_open(self) -> bool:
        """Return whether a call waits for its answer."""
        return bool(self._waiting)

    def add(self, call: Call, answer: Callable[[CallAnswer], None], *, seconds: float = LIMIT_S) -> bool:
        """Take a call, whose `answer` is called once, within so many seconds; False for one that waits already.

        Raises UnsupportedError if this turn's process takes no calls now.
        """
        if call.id in self._waiting:
            return False
        if not self.takes:
            raise UnsupportedError(
                "the agent accepts no such request at the moment", "beam agent list", subject=call.id
            )
        self._waiting[call.id] = _Waiting(call=call, until=self._clock.monotonic() + seconds, answer=answer)
        return True

    def take(self) -> list[Call]:
        """Return the calls that were not passed on yet, oldest first; they are now."""
        found = [waiting for waiting in self._waiting.values() if not waiting.is_passed_on]
        for waiting in found:
            waiting.is_passed_on = True
        return [waiting.call for waiting in found]

    def settle(self, call_id: str, answer: CallAnswer) -> bool:
        """Answer the call; False if nobody waits for that any more."""
        waiting = self._waiting.pop(call_id, None)
        if waiting is not None:
            waiting.answer(answer)
        return waiting is not None

    def expire(self) -> None:
        """Answer the calls that had no answer in time."""
        now = self._clock.monotonic()
        for call_id, waiting in list(self._waiting.items()):
            if now >= waiting.until:
                text = "the agent did not answer in time"
                self.settle(call_id, CallAnswer(ok=False, code="unfinished", message=text))

    def close(self, why: str) -> None:
        """Take no more calls, and answers those that wait."""
        self.takes, self.is_closed = False, True
        for call_id in list(self._waiting):
            self.settle(call_id, CallAnswer(ok=False, code="unfinished", message=why))
