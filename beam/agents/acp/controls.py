"""Handles a person's requests to a session besides its turns, such as to change the model or to show the state. The
protocol can't pass a text to a running turn.

Each request is answered once. Does not depend on turns.
"""

from __future__ import annotations

from beam.agents.acp.figures import Counter
from beam.agents.acp.options import Options, SettingKind, SettingRequest
from beam.agents.base import raw_json
from beam.agents.fields import object_of, objects_of, string
from beam.agents.jsonrpc import PendingCalls, Reply
from beam.agents.link import Act, Answered, Query, Set, Steer, Step, failed_answer, refused_answer

CALL_S = 20.0
_SETTINGS: dict[str, SettingKind] = {"model": "model", "effort": "thought_level"}
_LISTED_KINDS: dict[str, SettingKind] = {"models": "model", "modes": "mode"}


class Controls:
    """The control requests to one process. `commands` are the slash commands that the agent announces. `mode` is the
    session mode that grants the session's access. `plan` is the mode in which the agent only plans, "" if there is
    none."""

    def __init__(self, name: str, calls: PendingCalls, options: Options, counter: Counter, *, plan: str = "") -> None:
        self.session_id = ""
        self.commands: object = None
        self.mode: str | None = None
        self._name = name
        self._calls = calls
        self._options = options
        self._counter = counter
        self._plan = plan

    def steer(self, steer: Steer) -> list[Step]:
        """Return the refusal of a text for the running turn, because the protocol can't pass one."""
        return [refused_answer(steer.id, f"{self._name} takes no text while it works")]

    def set(self, intent: Set, now: float) -> list[Step]:
        """Return the step that changes a setting of the session."""
        if intent.name == "mode" and self.session_id:
            return self._set_mode(intent, now)
        kind = _SETTINGS.get(intent.name)
        if kind is None or not self.session_id:
            return [refused_answer(intent.id, f"{self._name} can't change {intent.name!r} in a running process")]
        setting = self._options.setting(kind, intent.value)
        if setting is None:
            found = ", ".join(self._options.values(kind)[:20]) or "none"
            return [refused_answer(intent.id, f"{self._name} has no {intent.name} {intent.value!r}; it has: {found}")]
        return self._change_setting(intent, kind, intent.value, setting, now)

    def _set_mode(self, intent: Set, now: float) -> list[Step]:
        """Return the step that sets the mode of the session: for `plan` to the mode in which the agent only plans, for
        `default` to the mode that grants its access."""
        wanted = {"plan": self._plan, "default": self.mode or ""}.get(intent.value, "")
        setting = self._options.setting("mode", wanted) if wanted else None
        if setting is None:
            words = " and ".join(["plan", "default"] if self._plan else ["default"])
            why = f"the live modes of {self._name} are {words}, not {intent.value[:40]!r}; what it may do is its access"
            return [refused_answer(intent.id, why)]
        return self._change_setting(intent, "mode", wanted, setting, now)

    def _change_setting(
        self, intent: Set, kind: SettingKind, value: str, setting: SettingRequest, now: float
    ) -> list[Step]:
        def then(reply: Reply) -> list[Step]:
            if reply.error:
                code = "unfinished" if reply.is_late else "failed"
                return [Answered(id=intent.id, ok=False, code=code, message=reply.error)]
            if not self._options.record_change(kind, value, object_of(reply.result)):
                why = f"{self._name} did not take over the {intent.name} {intent.value!r}"
                return [failed_answer(intent.id, why)]
            return [Answered(id=intent.id)]

        method, given = setting
        return [self._calls.call(method, {"sessionId": self.session_id, **given}, then, now + CALL_S)]

    def act(self, intent: Act) -> list[Step]:
        """Return the refusal of an action, because the protocol has no way to carry it out."""
        return [refused_answer(intent.id, f"{self._name} can't do {intent.name!r} in a running process")]

    def query(self, intent: Query) -> list[Step]:
        """Return the answer to a question about the session, from what the agent announced without being asked."""
        if intent.name == "context" and self._counter.size is not None:
            given: object = {"used": self._counter.used, "size": self._counter.size}
        elif intent.name == "commands" and self.commands is not None:
            given = [string(each, "name") for each in objects_of(self.commands)]
        elif intent.name in _LISTED_KINDS and (values := self._options.values(_LISTED_KINDS[intent.name])):
            given = values
        else:
            return [refused_answer(intent.id, f"{self._name} does not report {intent.name!r}")]
        return [Answered(id=intent.id, result=raw_json(given))]
