"""A conversation with the link of the Agent Client Protocol, without an agent: what beam sends is kept, what the agent
says is written by the test."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from beam.agents.acp.conversation import AcpLink
from beam.agents.acp.dialect import Dialect
from beam.agents.base import Turn
from beam.agents.link import Prompt, Step
from tests.support.dialogue import Conversation
from tests.support.turn import turn_of

RECORDINGS = Path(__file__).parents[1] / "recordings" / "acp"
SESSION = "s-1"
DIALECT = Dialect(
    name="agent",
    modes={"read": "careful", "ask": "careful", "edit": "editing", "full": "free"},
    lost=("no such session",),
    fork=True,
    counts="turn",
    sets_model=True,
    noise=("[NOISE]",),
    denied=("The rules deny",),
)
MODES = {"currentModeId": "careful", "availableModes": [{"id": mode} for mode in ("careful", "editing", "free")]}
OPTIONS = [
    {"id": "m", "category": "mode", "currentValue": "careful", "options": [{"value": "careful"}, {"value": "free"}]},
    {"id": "model", "category": "model", "currentValue": "a", "options": [{"value": "a"}, {"value": "b"}]},
]
CHOICES = [
    {"optionId": "yes", "kind": "allow_once", "name": "Allow"},
    {"optionId": "always", "kind": "allow_always", "name": "Allow for this session"},
    {"optionId": "for-good", "kind": "allow_always", "name": "Always allow"},
    {"optionId": "no", "kind": "reject_once", "name": "Reject"},
]


turn = partial(turn_of, "x", access="ask", cwd="/p")


class Talk(Conversation):
    """The link in one conversation."""

    def __init__(self, first: Turn | None = None, dialect: Dialect = DIALECT) -> None:
        self.turn = first or turn()
        super().__init__(AcpLink(self.turn, dialect))

    def last(self, method: str) -> dict[str, Any]:
        """The last that beam sent with that method."""
        return next(frame for frame in reversed(self.sent) if frame.get("method") == method)

    def reply(self, method: str, result: object = None, error: object = None) -> list[Step]:
        """The agent answers the last request with that method."""
        said = {"error": error} if error else {"result": {} if result is None else result}
        return self.hear({"jsonrpc": "2.0", "id": self.last(method)["id"], **said})

    def say(self, kind: str, /, **fields: Any) -> list[Step]:
        """The agent says that in its session."""
        update = {"sessionUpdate": kind, **fields}
        return self.hear({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})

    def text(self, text: str, **fields: Any) -> list[Step]:
        return self.say("agent_message_chunk", content={"type": "text", "text": text}, **fields)

    def ask(self, number: object = 0, /, options: object = CHOICES, **call: Any) -> list[Step]:
        """The agent asks for a decision on that call."""
        params = {"sessionId": SESSION, "toolCall": {"toolCallId": "c-1", **call}, "options": options}
        return self.hear({"id": number, "method": "session/request_permission", "params": params})

    def begin(self, **fields: Any) -> list[Step]:
        """The agent opens the session; `fields` is what it answers otherwise than it should."""
        self.reply("initialize", {"protocolVersion": 1, "authMethods": [{"name": "Log in"}]})
        return self.reply(self.opener, {"sessionId": SESSION, "modes": MODES, **fields})

    @property
    def opener(self) -> str:
        if self.turn.session_id is None:
            return "session/new"
        return "session/fork" if self.turn.fork else "session/load"

    def prompt(self, prompted: Turn | None = None) -> list[Step]:
        return self.do(Prompt(turn=prompted or self.turn))

    def complete(self, reason: str = "end_turn", **fields: Any) -> list[Step]:
        return self.reply("session/prompt", {"stopReason": reason, **fields})

    def answer(self, number: object = 0) -> Any:
        """How beam answered the agent's request of that id."""
        (frame,) = [frame for frame in self.sent if "method" not in frame and frame["id"] == number]
        return frame.get("result", frame.get("error"))


def talking(dialect: Dialect = DIALECT, **fields: Any) -> Talk:
    """A conversation in the middle of its first turn."""
    talk = Talk(turn(**fields), dialect)
    talk.begin()
    for method in ("session/set_mode", "session/set_model"):
        if talk.sent[-1].get("method") == method:
            talk.reply(method)
    talk.prompt()
    return talk
