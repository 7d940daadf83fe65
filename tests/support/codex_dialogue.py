"""A conversation with Codex's link, without Codex: what beam sends is kept, what Codex says is written by the test."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from beam.agents.base import Host, Turn
from beam.agents.codex import dialogue
from beam.agents.link import Prompt, Step
from tests.support.dialogue import Conversation
from tests.support.turn import turn_of

RECORDINGS = Path(__file__).parents[1] / "recordings" / "codex" / "0.169.0" / "app-server"
THREAD, TURN = "01a1ffcb-5463-7de1-9163-f0734fe9ae5a", "01a1ffcb-5493-7622-a0bc-84be2f50ac8f"
SANDBOX = {"type": "readOnly", "networkAccess": False}


turn = partial(turn_of, "codex", access="ask", cwd="/p")


class Talk(Conversation):
    """The link in one conversation."""

    def __init__(self, first: Turn | None = None) -> None:
        self.turn = first or turn()
        super().__init__(dialogue.link(self.turn, Host()))

    def last(self, method: str) -> dict[str, Any]:
        """The last request of beam's with that method."""
        return next(frame for frame in reversed(self.sent) if frame.get("method") == method)

    def reply(self, method: str, result: object = None, error: str = "") -> list[Step]:
        """Codex answers the last request with that method."""
        said = {"error": {"code": -32600, "message": error}} if error else {"result": {} if result is None else result}
        return self.hear({"id": self.last(method)["id"], **said})

    def say(self, method: str, **params: Any) -> list[Step]:
        """Codex says that in its thread's turn."""
        return self.hear({"method": method, "params": {"threadId": THREAD, "turnId": TURN, **params}})

    def ask(self, number: object, method: str, **params: Any) -> list[Step]:
        """Codex asks that in its thread's turn."""
        return self.hear({"method": method, "id": number, "params": {"threadId": THREAD, "turnId": TURN, **params}})

    def begin(self, thread: str = THREAD, **fields: Any) -> list[Step]:
        """Codex opens the thread; `fields` is what it answers otherwise than it should."""
        self.reply("initialize")
        self.reply("account/read", {"account": None, "requiresOpenaiAuth": False})
        if self.turn.access == "edit":
            self.reply("config/read", {"config": {"sandbox_workspace_write": None}})
        return self.reply(self.opener, opened(self.turn, thread, **fields))

    @property
    def opener(self) -> str:
        if self.turn.session_id is None:
            return "thread/start"
        return "thread/fork" if self.turn.fork else "thread/resume"

    def prompt(self, prompted: Turn | None = None, turn_id: str = TURN) -> list[Step]:
        """beam gives it the turn, and Codex begins it."""
        found = self.do(Prompt(turn=prompted or self.turn))
        return found + self.reply("turn/start", {"turn": {"id": turn_id, "status": "inProgress"}})

    def complete(self, status: str = "completed", turn_id: str = TURN, **fields: Any) -> list[Step]:
        return self.say("turn/completed", turn={"id": turn_id, "status": status, "error": None, **fields})


def opened(of: Turn, thread: str = THREAD, **fields: Any) -> dict[str, Any]:
    """What Codex answers to the request for a thread."""
    confined = of.access in ("read", "ask")
    return {
        "thread": {"id": thread},
        "model": "gpt-5.5",
        "approvalPolicy": "on-request" if of.access == "ask" else "never",
        "approvalsReviewer": "user",
        "sandbox": SANDBOX,
        "activePermissionProfile": {"id": "beam-read"} if confined else None,
        **fields,
    }
