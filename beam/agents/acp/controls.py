"""Requests of a person to a session besides its turns: change the model, show its state. The protocol can't pass a text
to a turn that runs.

Each request is answered once. Does not depend on turns.
"""

from __future__ import annotations

from beam.agents.acp.figures import Counter
from beam.agents.acp.options import Kind, Options
from beam.agents.base import raw_json
from beam.agents.fields import object_of, objects_of, string
from beam.agents.jsonrpc import Calls, Reply
from beam.agents.link import Act, Answered, Query, Set, Steer, Step

CALL_S = 20.0
_SETTINGS: dict[str, Kind] = {"model": "model", "effort": "thought_level"}
_LISTS: dict[str, Kind] = {"models": "model", "modes": "mode"}


class Controls:
    """The control requests to one process. `commands` are the slash commands that the agent announces."""

    def __init__(self, name: str, calls: Calls, options: Options, counter: Counter) -> None:
        self.session_id = ""
        self.commands: object = None
        self._name = name
        self._calls = calls
        self._options = options
        self._counter = counter

    def steer(self, steer: Steer) -> list[Step]:
        """Return the refusal of a text for the running turn, because the protocol can't pass one."""
        return [_refused(steer.id, f"{self._name} can't be told anything while it works")]

    def set(self, wanted: Set, now: float) -> list[Step]:
        """Return the step that changes a setting of the session."""
        kind = _SETTINGS.get(wanted.name)
        if kind is None or not self.session_id:
            return [_refused(wanted.id, f"{self._name} can't change {wanted.name!r} in a running process")]
        setting = self._options.setting(kind, wanted.value)
        if setting is None:
            found = ", ".join(self._options.values(kind)[:20]) or "none"
            return [_refused(wanted.id, f"{self._name} has no {wanted.name} {wanted.value!r}; it has: {found}")]

        def then(reply: Reply) -> list[Step]:
            if reply.error:
                code = "unfinished" if reply.is_late else "failed"
                return [Answered(id=wanted.id, ok=False, code=code, message=reply.error)]
            self._options.take(object_of(reply.result))
            return [Answered(id=wanted.id)]

        method, given = setting
        return [self._calls.call(method, {"sessionId": self.session_id, **given}, then, now + CALL_S)]

    def act(self, wanted: Act) -> list[Step]:
        """Return the refusal of what the protocol has no way for."""
        return [_refused(wanted.id, f"{self._name} can't do {wanted.name!r} in a running process")]

    def query(self, wanted: Query) -> list[Step]:
        """Return the answer to a question about the session, from what the agent announced by itself."""
        if wanted.name == "context" and self._counter.size is not None:
            given: object = {"used": self._counter.used, "size": self._counter.size}
        elif wanted.name == "commands" and self.commands is not None:
            given = [string(each, "name") for each in objects_of(self.commands)]
        elif wanted.name in _LISTS and (values := self._options.values(_LISTS[wanted.name])):
            given = values
        else:
            return [_refused(wanted.id, f"{self._name} does not tell {wanted.name!r}")]
        return [Answered(id=wanted.id, result=raw_json(given))]


def _refused(call_id: str, why: str) -> Answered:
    return Answered(id=call_id, ok=False, code="unsupported", message=why)
