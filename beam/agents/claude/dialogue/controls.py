"""Requests of a person to a process besides its turns: pass a text to the running turn, change the model, show its
state.

Each request is answered once. Does not depend on turns.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.agents.base import raw_json
from beam.agents.claude.dialogue import wire
from beam.agents.claude.dialogue.calls import Calls, Reply
from beam.agents.claude.dialogue.turn import key_of
from beam.agents.fields import Object, integer, objects, string
from beam.agents.link import Answered, Query, Set, Steer, Step

CALL_S = 20.0


class Controls:
    """The control requests to one process. `initialized` is the process's own description, from its start."""

    def __init__(self, calls: Calls) -> None:
        self.initialized: Object = {}
        self._calls = calls
        self._steers: dict[str, str] = {}  # by the key of its message: the call

    @property
    def are_open(self) -> bool:
        """Return whether a text was sent that claude has not read yet."""
        return bool(self._steers)

    def steer(self, steer: Steer, *, runs: bool) -> list[Step]:
        """Return the step that passes a text to the turn. The request is answered once the agent reads the text."""
        if not runs:
            return [_failed(steer.id, "no turn runs that could be told")]
        key = key_of("steer", steer.id)
        self._steers[key] = steer.id
        return [wire.message(key, steer.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))]

    def moved(self, key: str, state: str) -> list[Step]:
        """Return the answer for a text that the agent has just read, or will never read."""
        call_id = self._steers.get(key)
        if call_id is None or state == "queued":
            return []
        del self._steers[key]
        is_read = state in ("started", "completed")
        return [Answered(id=call_id) if is_read else _failed(call_id, "the turn was stopped before claude read it")]

    def over(self) -> list[Step]:
        """Return the answers for the texts that were not read before the turn ended."""
        why = "the turn was over before claude read it"
        found: list[Step] = [_failed(call_id, why, is_late=True) for call_id in self._steers.values()]
        self._steers.clear()
        return found

    def set(self, wanted: Set, now: float) -> list[Step]:
        """Return the step that changes a setting."""
        if wanted.name != "model" or not wanted.value:
            return [_refused(wanted.id, f"claude can't change {wanted.name!r} in a running process")]
        return [self._ask("set_model", {"model": wanted.value}, wanted.id, lambda result: None, now)]

    def query(self, wanted: Query, now: float) -> list[Step]:
        """Return the step that asks the process, or the answer if it is known already."""
        if wanted.name in _TOLD:
            return [Answered(id=wanted.id, result=raw_json(_TOLD[wanted.name](self.initialized)))]
        if wanted.name not in _ASKED:
            return [_refused(wanted.id, f"claude can't tell {wanted.name!r}")]
        subtype, show = _ASKED[wanted.name]
        return [self._ask(subtype, {}, wanted.id, show, now)]

    def _ask(self, subtype: str, given: Object, call_id: str, show: Callable[[Object], object], now: float) -> Step:
        def then(reply: Reply) -> list[Step]:
            if reply.error:
                return [_failed(call_id, reply.error, is_late=reply.is_late)]
            return [Answered(id=call_id, result=raw_json(show(reply.result)))]

        return self._calls.call(subtype, given, then, now + CALL_S)


def _context(result: Object) -> Object:
    return {"used": integer(result, "totalTokens"), "size": integer(result, "maxTokens")}


_TOLD: dict[str, Callable[[Object], object]] = {
    "account": lambda initialized: initialized.get("account"),
    "commands": lambda initialized: [string(each, "name") for each in objects(initialized, "commands")],
    "models": lambda initialized: [string(each, "value") for each in objects(initialized, "models")],
}
_ASKED: dict[str, tuple[str, Callable[[Object], object]]] = {
    "context": ("get_context_usage", _context),
    "mcp": ("mcp_status", lambda result: result.get("mcpServers")),
}


def _failed(call_id: str, why: str, *, is_late: bool = False) -> Answered:
    return Answered(id=call_id, ok=False, code="unfinished" if is_late else "failed", message=why)


def _refused(call_id: str, why: str) -> Answered:
    return Answered(id=call_id, ok=False, code="unsupported", message=why)
