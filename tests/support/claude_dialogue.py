"""A conversation with Claude's link, without Claude: what beam sends is kept, what Claude says the test writes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from beam.agents.base import Host, Turn
from beam.agents.claude import dialogue
from beam.agents.link import Prompt, Step
from tests.support import dialogue as support
from tests.support.dialogue import Conversation
from tests.support.turn import turn_of

RECORDINGS = Path(__file__).parents[1] / "recordings" / "claude"
SESSION = "5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10"
MODES = {"read": "dontAsk", "ask": "default", "edit": "acceptEdits", "full": "bypassPermissions"}


turn = partial(turn_of, "claude", access="ask", cwd="/p")


class Talk(Conversation):
    """The link in one conversation."""

    def __init__(self, first: Turn | None = None) -> None:
        self.turn = first or turn()
        super().__init__(dialogue.link(self.turn, Host()))

    # -- what beam said last -------------------------------------------------------------------------------------------

    def request(self, subtype: str) -> dict[str, Any]:
        """The last control request of beam's of that kind."""
        return next(frame for frame in reversed(self.sent) if frame.get("request", {}).get("subtype") == subtype)

    def has_asked(self, subtype: str) -> bool:
        return any(frame.get("request", {}).get("subtype") == subtype for frame in self.sent)

    @property
    def message(self) -> dict[str, Any]:
        """The last message that beam sent."""
        return next(frame for frame in reversed(self.sent) if frame["type"] == "user")

    @property
    def answer(self) -> dict[str, Any]:
        """The last answer of beam's."""
        found = next(frame for frame in reversed(self.sent) if frame["type"] == "control_response")
        answered: dict[str, Any] = found["response"]
        return answered

    # -- what Claude says ----------------------------------------------------------------------------------------------

    def reply(self, subtype: str, response: dict[str, Any] | None = None, error: str = "") -> list[Step]:
        """Claude answers the last request of that kind."""
        said = {"subtype": "error", "error": error} if error else {"subtype": "success", "response": response or {}}
        return self.hear(
            {"type": "control_response", "response": {"request_id": self.request(subtype)["request_id"], **said}}
        )

    def say(self, subtype: str, **fields: Any) -> list[Step]:
        return self.hear({"type": "system", "subtype": subtype, "session_id": SESSION, **fields})

    def state(self, state: str) -> list[Step]:
        return self.say("session_state_changed", state=state)

    def life(self, state: str, key: str | None = None) -> list[Step]:
        """Claude says what becomes of a message, beam's last one unless the test names another."""
        return self.hear({"type": "command_lifecycle", "command_uuid": key or self.message["uuid"], "state": state})

    def text(self, text: str) -> list[Step]:
        message = {"id": f"m-{text}", "model": "claude-opus-5-5", "content": [{"type": "text", "text": text}]}
        return self.hear({"type": "assistant", "message": message, "parent_tool_use_id": None})

    def call(self, call_id: str, name: str, given: dict[str, Any]) -> list[Step]:
        block = {"type": "tool_use", "id": call_id, "name": name, "input": given}
        message = {"id": f"m-{call_id}", "model": "claude-opus-5-5", "content": [block]}
        return self.hear({"type": "assistant", "message": message, "parent_tool_use_id": None})

    def ask(self, key: object, tool: str, given: object, **fields: Any) -> list[Step]:
        request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": f"call-{key}", **fields}
        return self.hear({"type": "control_request", "request_id": key, "request": request})

    def result(self, text: str = "", **fields: Any) -> list[Step]:
        said = {"subtype": "success", "is_error": False, "result": text, "stop_reason": "end_turn"}
        return self.hear({"type": "result", "session_id": SESSION, "permission_denials": [], **said, **fields})

    def begin(self, **told: Any) -> list[Step]:
        """Claude answers how it began; `told` is what it says otherwise than it should."""
        return self.reply("initialize", {"current_permission_mode": MODES[self.turn.access], **told})

    def prompt(self, prompted: Turn | None = None) -> list[Step]:
        """beam gives it the turn, and Claude begins it."""
        found = self.do(Prompt(turn=prompted or self.turn))
        for state in ("queued", "started"):
            found += self.life(state)
        return found + self.say("init", model="claude-opus-5-5", cwd="/p", permissionMode=MODES[self.turn.access])

    def complete(self, text: str = "done", **fields: Any) -> list[Step]:
        """Claude says this, and that it is idle."""
        return self.text(text) + self.result(text, **fields) + self.life("completed") + self.state("idle")


def recorded(name: str) -> list[tuple[str, dict[str, Any]]]:
    """The frames of a recording (VERSION/NAME), as `support.dialogue.recorded` has them."""
    version, file = name.split("/")
    return support.recorded(RECORDINGS / version / "stream-json" / file)
