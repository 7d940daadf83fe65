"""Requests of a person to a thread besides its turns: pass a text to the running turn, change a setting, show its
state.

Each request is answered once. Does not depend on turns.
"""

from __future__ import annotations

from beam.agents.base import raw_json
from beam.agents.codex.dialogue.wire import Usage
from beam.agents.fields import Object, object_of, objects, string
from beam.agents.jsonrpc import Calls, Reply
from beam.agents.link import Answered, Query, Set, Steer, Step

CALL_S = 20.0
_SETTINGS = ("model", "effort")


class Controls:
    """The control requests to one process. `usage` is its thread's latest token report; `model` is the model of its
    next turn, None until somebody chooses one."""

    def __init__(self, calls: Calls) -> None:
        self.thread_id = ""
        self.model: str | None = None
        self.usage = Usage()
        self._calls = calls
        self._steers: set[str] = set()

    def steer(self, steer: Steer, turn_id: str, now: float) -> list[Step]:
        """Return the step that passes a text to the turn. The request is answered once the agent reads the text."""
        if not turn_id:
            return [_failed(steer.id, "no turn runs that could be told")]
        self._steers.add(steer.id)

        def then(reply: Reply) -> list[Step]:
            if not reply.error or steer.id not in self._steers:
                return []
            self._steers.discard(steer.id)
            return [_failed(steer.id, reply.error, is_late=reply.is_late)]

        params: Object = {
            "threadId": self.thread_id,
            "expectedTurnId": turn_id,
            "clientUserMessageId": steer.id,
            "input": [{"type": "text", "text": steer.text}],
        }
        return [self._calls.call("turn/steer", params, then, now + CALL_S)]

    def read(self, client_id: object) -> list[Step]:
        """Return the answer for a text that the agent has just read."""
        if not isinstance(client_id, str) or client_id not in self._steers:
            return []
        self._steers.discard(client_id)
        return [Answered(id=client_id)]

    def over(self) -> list[Step]:
        """Return the answers for the texts that were not read before the turn ended."""
        found: list[Step] = [_failed(id, "the turn was over before codex read it", is_late=True) for id in self._steers]
        self._steers.clear()
        return found

    def set(self, wanted: Set, now: float) -> list[Step]:
        """Return the step that changes a setting, from the next turn on."""
        if wanted.name not in _SETTINGS or not wanted.value:
            return [_refused(wanted.id, f"codex can't change {wanted.name!r} in a running process")]

        def then(reply: Reply) -> list[Step]:
            if reply.error:
                return [_failed(wanted.id, reply.error, is_late=reply.is_late)]
            if wanted.name == "model":
                self.model = wanted.value
            return [Answered(id=wanted.id, message="from the next turn on")]

        params: Object = {"threadId": self.thread_id, wanted.name: wanted.value}
        return [self._calls.call("thread/settings/update", params, then, now + CALL_S)]

    def query(self, wanted: Query, now: float) -> list[Step]:
        """Return the step that asks the process, or the answer if it is known already."""
        if wanted.name == "context":
            used = self.usage.last
            whole = {"used": (used.input_tokens or 0) + (used.output_tokens or 0)}
            given = {**whole, "size": self.usage.model_context_window}
            return [Answered(id=wanted.id, result=raw_json(given))]
        ask = _QUERIES.get(wanted.name)
        if ask is None:
            return [_refused(wanted.id, f"codex can't tell {wanted.name!r}")]
        method, params, key = ask

        def then(reply: Reply) -> list[Step]:
            if reply.error:
                return [_failed(wanted.id, reply.error, is_late=reply.is_late)]
            result = object_of(reply.result)
            shown: object = result.get(key)
            if wanted.name == "models":
                shown = [string(each, "id") for each in objects(result, key)]
            return [Answered(id=wanted.id, result=raw_json(shown))]

        return [self._calls.call(method, params, then, now + CALL_S)]


_QUERIES: dict[str, tuple[str, Object, str]] = {
    "models": ("model/list", {}, "data"),
    "account": ("account/read", {}, "account"),
    "mcp": ("mcpServerStatus/list", {}, "data"),
    "modes": ("collaborationMode/list", {}, "data"),
}


def _failed(call_id: str, why: str, *, is_late: bool = False) -> Answered:
    return Answered(id=call_id, ok=False, code="unfinished" if is_late else "failed", message=why)


def _refused(call_id: str, why: str) -> Answered:
    return Answered(id=call_id, ok=False, code="unsupported", message=why)
