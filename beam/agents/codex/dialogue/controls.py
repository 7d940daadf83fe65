"""Handles a person's requests to a thread besides its turns: to pass a text to the running turn, change a setting, or
show the state.

Each request is answered once. Does not depend on turns.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.agents.base import json_object, raw_json
from beam.agents.codex.dialogue.wire import Usage
from beam.agents.fields import Object, object_of, objects, string
from beam.agents.jsonrpc import PendingCalls, Reply
from beam.agents.link import Act, Answered, Query, Set, Steer, Step, failed_answer, refused_answer

CALL_S = 20.0
_MODES = ("default", "plan")


class Controls:
    """The control requests to one process. `usage` is the latest token report of the thread. `model` and `mode` are
    those of the next turn; `model` is None until it is known."""

    def __init__(self, calls: PendingCalls) -> None:
        self.thread_id = ""
        self.model: str | None = None
        self.mode = "default"
        self.usage = Usage()
        self._calls = calls
        self._steers: set[str] = set()

    def steer(self, steer: Steer, turn_id: str, now: float) -> list[Step]:
        """Return the step that passes a text to the turn. The intent is answered once the agent has read the text."""
        if not turn_id:
            return [failed_answer(steer.id, "no turn runs that could take a text")]
        self._steers.add(steer.id)

        def then(reply: Reply) -> list[Step]:
            if not reply.error or steer.id not in self._steers:
                return []
            self._steers.discard(steer.id)
            return [failed_answer(steer.id, reply.error, is_late=reply.is_late)]

        params: Object = {
            "threadId": self.thread_id,
            "expectedTurnId": turn_id,
            "clientUserMessageId": steer.id,
            "input": [{"type": "text", "text": steer.text}],
        }
        return [self._calls.call("turn/steer", params, then, now + CALL_S)]

    def answer_read(self, client_id: object) -> list[Step]:
        """Return the answer to the `Steer` intent `client_id`, because the agent has read its text now; none for an
        unknown id."""
        if not isinstance(client_id, str) or client_id not in self._steers:
            return []
        self._steers.discard(client_id)
        return [Answered(id=client_id)]

    def on_turn_over(self) -> list[Step]:
        """Return the answers to the `Steer` intents whose texts were not read before the turn ended."""
        found: list[Step] = [
            failed_answer(id, "the turn was over before codex read it", is_late=True) for id in self._steers
        ]
        self._steers.clear()
        return found

    def set(self, intent: Set, now: float) -> list[Step]:
        """Return the step that changes a setting. The change applies from the next turn on."""
        match intent.name:
            case "model" if intent.value:
                return [self._update_settings(intent, {"model": intent.value}, now)]
            case "effort" if intent.value:
                return self._set_effort(intent, now)
            case "mode" if intent.value in _MODES:
                kept: Object = {"model": self.model or "", "reasoning_effort": None, "developer_instructions": None}
                mode: Object = {"mode": intent.value, "settings": kept}
                return [self._update_settings(intent, {"collaborationMode": mode}, now)]
            case "mode":
                why = f"codex's live modes are {' and '.join(_MODES)}, not {intent.value[:40]!r}"
                return [refused_answer(intent.id, why)]
        return [refused_answer(intent.id, f"codex can't change {intent.name!r} in a running process")]

    def _update_settings(self, intent: Set, change: Object, now: float) -> Step:
        def then(reply: Reply) -> list[Step]:
            if reply.error:
                return [failed_answer(intent.id, reply.error, is_late=reply.is_late)]
            if intent.name == "model":
                self.model = intent.value
            if intent.name == "mode":
                self.mode = intent.value
            return [Answered(id=intent.id, message="from the next turn on")]

        params: Object = {"threadId": self.thread_id, **change}
        return self._calls.call("thread/settings/update", params, then, now + CALL_S)

    def _set_effort(self, intent: Set, now: float) -> list[Step]:
        """Return the step that asks for the model's efforts. An effort that is not among them is refused, because Codex
        itself accepts any word."""

        def then(reply: Reply) -> list[Step]:
            if reply.error:
                return [failed_answer(intent.id, reply.error, is_late=reply.is_late)]
            models = objects(object_of(reply.result), "data")
            model = next((each for each in models if self.model in (each.get("id"), each.get("model"))), {})
            known = [string(each, "reasoningEffort") for each in objects(model, "supportedReasoningEfforts")]
            if known and intent.value not in known:
                why = f"{self.model} has the efforts {', '.join(known)}, not {intent.value[:40]!r}"
                return [refused_answer(intent.id, why)]
            return [self._update_settings(intent, {"effort": intent.value}, reply.now)]

        return [self._calls.call("model/list", {}, then, now + CALL_S)]

    def act(self, intent: Act, now: float) -> list[Step]:
        """Return the step for an action that is not a turn."""
        given = json_object(bytes(intent.given)) or {}
        server, tool = string(given, "server"), string(given, "tool")
        match intent.name:
            case "mcp.reconnect" if not server:
                return [self._send_request("config/mcpServer/reload", {}, intent.id, lambda result: None, now)]
            case "mcp.reconnect":
                return [
                    refused_answer(intent.id, "codex connects all its MCP servers anew, not one: leave the name out")
                ]
            case "mcp.call" if server and tool:
                params: Object = {"threadId": self.thread_id, "server": server, "tool": tool}
                params["arguments"] = object_of(given.get("arguments"))
                return [self._send_request("mcpServer/tool/call", params, intent.id, dict, now)]
        return [refused_answer(intent.id, f"codex can't do {intent.name!r} in a running process")]

    def query(self, intent: Query, now: float) -> list[Step]:
        """Return the step that asks the process, or the answer if beam knows it already."""
        if intent.name == "context":
            used = self.usage.last
            whole = {"used": (used.input_tokens or 0) + (used.output_tokens or 0) or None}  # null: it is not known yet
            given = {**whole, "size": self.usage.model_context_window}
            return [Answered(id=intent.id, result=raw_json(given))]
        if intent.name == "modes":
            modes: Object = {"current": self.mode, "available": list(_MODES)}
            return [Answered(id=intent.id, result=raw_json(modes))]
        ask = _QUERIES.get(intent.name)
        if ask is None:
            return [refused_answer(intent.id, f"codex can't tell {intent.name!r}")]
        method, show = ask
        params: Object = {"threadId": self.thread_id} if intent.name == "mcp" else {}
        return [self._send_request(method, params, intent.id, show, now)]

    def _send_request(
        self, method: str, params: Object, call_id: str, show: Callable[[Object], object], now: float
    ) -> Step:
        def then(reply: Reply) -> list[Step]:
            if reply.error:
                return [failed_answer(call_id, reply.error, is_late=reply.is_late)]
            return [Answered(id=call_id, result=raw_json(show(object_of(reply.result))))]

        return self._calls.call(method, params, then, now + CALL_S)


def _mcp_servers(result: Object) -> list[Object]:
    """Return the MCP servers in an answer of Codex, each with the fields that beam shows."""
    return [
        {
            "name": string(each, "name"),
            "status": string(each, "runtimeStatus"),
            "tools": sorted(object_of(each.get("tools"))),
            "error": string(each, "toolsError"),
        }
        for each in objects(result, "data")
    ]


_QUERIES: dict[str, tuple[str, Callable[[Object], object]]] = {
    "models": ("model/list", lambda result: [string(each, "id") for each in objects(result, "data")]),
    "account": ("account/read", lambda result: result.get("account")),
    "mcp": ("mcpServerStatus/list", _mcp_servers),
}
