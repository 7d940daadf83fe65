"""A person's requests to a process besides its turns: pass a text to the running turn, change a setting, show the
process's state.

Each request is answered once. Among them are actions: managing MCP servers and restoring files. Does not depend on
turns.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from beam.agents.base import Turn, json_object, raw_json
from beam.agents.claude.dialogue import rights, wire
from beam.agents.claude.dialogue.turn import message_uuid
from beam.agents.claude.dialogue.wire import PendingCalls, Reply, answer_from_reply
from beam.agents.fields import Object, integer, obj, object_of, objects, string, strings
from beam.agents.link import Act, Answered, Query, Set, Steer, Step, failed_answer, refused_answer
from beam.base.typed_values import replace_surrogates
from beam.model.message import Access

ShowResult = Callable[[Object], object]
_CALL_S, _CONNECT_S, _TOOL_S = 20.0, 28.0, 28.0  # beam gives up after 30
_INVALID_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


class Action(Struct, frozen=True):
    """One control request. `show` converts its answer for display. If `show` returns a text, the action failed, and the
    text says why."""

    subtype: str
    given: Object
    show: ShowResult
    seconds: float = _CALL_S


def show_nothing(result: Object) -> object:
    """Return None, so that nothing of an answer is displayed."""
    return None


def control_request(intent: Act) -> Action | str:
    """Return the control request for this action, or a text that says why there is none."""
    given = json_object(bytes(intent.given)) or {}
    server = string(given, "server")
    match intent.name:
        case "mcp.reconnect" if server:
            return Action("mcp_reconnect", {"serverName": server}, show_nothing, _CONNECT_S)
        case "mcp.reconnect":
            return "claude connects one MCP server anew: name it"
        case "mcp.enable" | "mcp.disable" if server:
            is_on = intent.name == "mcp.enable"
            return Action("mcp_toggle", {"serverName": server, "enabled": is_on}, show_nothing, _CONNECT_S)
        case "mcp.set":
            return Action("mcp_set_servers", {"servers": object_of(given.get("servers"))}, _changed_servers, _CONNECT_S)
        case "mcp.call" if server and string(given, "tool"):
            name = f"mcp__{_INVALID_NAME_CHARACTER.sub('_', server)}__{string(given, 'tool')}"
            arguments = object_of(given.get("arguments"))
            return Action("mcp_call", {"tool": name, "arguments": arguments}, dict, _TOOL_S)
        case "rewind.files" if string(given, "to"):
            is_dry = given.get("dry_run") is not False
            return Action("rewind_files", {"user_message_id": string(given, "to"), "dry_run": is_dry}, _restored_files)
    return f"claude can't do {intent.name!r} in a running process"


def mcp_servers(result: Object) -> list[Object]:
    """Return the MCP servers for display, without their configuration."""
    return [
        {
            "name": string(each, "name"),
            "status": string(each, "status"),
            "tools": [string(tool, "name") for tool in objects(each, "tools")],
            "error": string(each, "error"),
        }
        for each in objects(result, "mcpServers")
    ]


def _changed_servers(result: Object) -> Object:
    errors = {name: str(why)[:500] for name, why in object_of(result.get("errors")).items()}
    return {"added": list(strings(result, "added")), "removed": list(strings(result, "removed")), "errors": errors}


def _restored_files(result: Object) -> object:
    if result.get("canRewind") is not True:
        return string(result, "error") or "claude can't undo these changes"
    return {
        "files": list(strings(result, "filesChanged")),
        "lines_added": integer(result, "insertions"),
        "lines_removed": integer(result, "deletions"),
    }


CALL_S = 20.0
_MAX_DIGITS = 7  # digits of a thinking budget
_DEFAULT_BUDGET = "default"


class Controls:
    """The control requests to one process, which began with the turn `first`. `initialized` is the description that the
    process gave of itself at its start; `access` is the access that it has now."""

    def __init__(self, calls: PendingCalls, first: Turn) -> None:
        self.initialized: Object = {}
        self.access: Access = first.access
        self._first = first
        self._plans = False
        self._calls = calls
        self._steers: dict[str, str] = {}  # the id of each call, by the key of its message

    @property
    def has_unread_texts(self) -> bool:
        """Return whether a text was sent that claude has not read yet."""
        return bool(self._steers)

    def steer(self, steer: Steer, *, runs: bool) -> list[Step]:
        """Return the step that passes a text to the running turn, or a failed answer if no turn `runs`. The request is
        answered once the agent reads the text."""
        if not runs:
            return [failed_answer(steer.id, "no turn runs that could take a text")]
        key = message_uuid("steer", steer.id)
        self._steers[key] = steer.id
        return [wire.message(key, replace_surrogates(steer.text))]

    def on_mode(self, mode: str) -> None:
        """Record the permission mode that claude reports. Claude also begins and ends to plan on its own."""
        self._plans = mode == "plan"

    def on_text_state(self, key: str, state: str) -> list[Step]:
        """Return the answer for a text that the agent has just read, or will never read; [] for a text that still
        waits. `key` is the text's own key, `state` is its new state."""
        call_id = self._steers.get(key)
        if call_id is None or state == "queued":
            return []
        del self._steers[key]
        is_read = state in ("started", "completed")
        return [
            Answered(id=call_id) if is_read else failed_answer(call_id, "the turn was stopped before claude read it")
        ]

    def on_turn_over(self) -> list[Step]:
        """Return the answers for the texts that were not read before the turn ended."""
        why = "the turn was over before claude read it"
        found: list[Step] = [failed_answer(call_id, why, is_late=True) for call_id in self._steers.values()]
        self._steers.clear()
        return found

    # -- settings ------------------------------------------------------------------------------------------------------

    def set(self, intent: Set, now: float) -> list[Step]:
        """Return the step that changes a setting, or a refusal."""
        match intent.name:
            case "model" if intent.value:
                return [self._send_request("set_model", {"model": intent.value}, intent.id, now)]
            case "effort" if intent.value:
                return self._set_effort(intent, now)
            case "thinking":
                return self._set_thinking(intent, now)
            case "mode":
                return self._set_mode(intent, now)
            case "access":
                return self._set_access(intent, now)
        return [refused_answer(intent.id, f"claude can't change {intent.name!r} in a running process")]

    def _set_effort(self, intent: Set, now: float) -> list[Step]:
        """Return the step that sets the model's effort. Claude accepts any word, so beam then reads which effort is in
        effect."""

        def on_settings(reply: Reply) -> list[Step]:
            applied = string(obj(reply.result, "applied"), "effort")
            if reply.error:
                return [failed_answer(intent.id, reply.error, is_late=reply.is_late)]
            if applied != intent.value:
                has = f"it has {applied!r} still" if applied else "its model has none"
                return [refused_answer(intent.id, f"claude did not take the effort {intent.value[:40]!r}: {has}")]
            return [Answered(id=intent.id)]

        def then(reply: Reply) -> list[Step]:
            if reply.error:
                return [failed_answer(intent.id, reply.error, is_late=reply.is_late)]
            return [self._calls.call("get_settings", {}, on_settings, reply.now + CALL_S)]

        given: Object = {"settings": {"effortLevel": intent.value}}
        return [self._calls.call("apply_flag_settings", given, then, now + CALL_S)]

    def _set_thinking(self, intent: Set, now: float) -> list[Step]:
        is_number = intent.value.isascii() and intent.value.isdecimal() and len(intent.value) <= _MAX_DIGITS
        if not is_number and intent.value != _DEFAULT_BUDGET:
            why = f"a thinking budget is a number of tokens or {_DEFAULT_BUDGET!r}, not {intent.value[:40]!r}"
            return [refused_answer(intent.id, why)]
        most = int(intent.value) if is_number else None
        return [self._send_request("set_max_thinking_tokens", {"max_thinking_tokens": most}, intent.id, now)]

    def _set_mode(self, intent: Set, now: float) -> list[Step]:
        if intent.value not in rights.LIVE_MODES:
            words = " and ".join(rights.LIVE_MODES)
            why = f"claude's live modes are {words}, not {intent.value[:40]!r}; what it may do is its access"
            return [refused_answer(intent.id, why)]
        return self._set_permission_mode(intent, self.access, plans=intent.value == "plan", now=now)

    def _set_access(self, intent: Set, now: float) -> list[Step]:
        access = rights.live_access(self._first.access, intent.value)
        if access is None:
            began = f"a process that began with access {self._first.access} can't be given {intent.value[:40]!r}"
            return [refused_answer(intent.id, f"{began}: beam send --access starts another")]
        return self._set_permission_mode(intent, access, plans=False, now=now)

    def _set_permission_mode(self, intent: Set, access: Access, *, plans: bool, now: float) -> list[Step]:
        mode = "plan" if plans else rights.live_mode(self._first, access)

        def then(reply: Reply) -> list[Step]:
            if not reply.error and string(reply.result, "mode") not in ("", mode):
                return [failed_answer(intent.id, f"claude is in the mode {string(reply.result, 'mode')[:40]!r}")]
            if not reply.error:
                self.access, self._plans = access, plans
            return answer_from_reply(intent.id, reply)

        return [self._calls.call("set_permission_mode", {"mode": mode}, then, now + CALL_S)]

    # -- questions and actions -----------------------------------------------------------------------------------------

    def query(self, intent: Query, now: float) -> list[Step]:
        """Return the step that asks the process, or the answer if beam knows it already."""
        match intent.name:
            case "account":
                return [Answered(id=intent.id, result=raw_json(self.initialized.get("account")))]
            case "commands":
                return [Answered(id=intent.id, result=raw_json(self.commands))]
            case "models":
                models = [string(each, "value") for each in objects(self.initialized, "models")]
                return [Answered(id=intent.id, result=raw_json(models))]
            case "modes":
                here = "plan" if self._plans else "default"
                modes = {"current": here, "available": list(rights.LIVE_MODES), "access": self.access}
                return [Answered(id=intent.id, result=raw_json(modes))]
            case "context":
                return [self._send_request("get_context_usage", {}, intent.id, now, _context)]
            case "mcp":
                return [self._send_request("mcp_status", {}, intent.id, now, mcp_servers)]
        return [refused_answer(intent.id, f"claude can't tell {intent.name!r}")]

    @property
    def commands(self) -> list[str]:
        """Return the names of the slash commands that the process takes."""
        return [string(each, "name") for each in objects(self.initialized, "commands")]

    def why_no_command(self, command: str) -> str:
        """Return why claude can't run this slash command; "" if it can."""
        name = re.split(r"\s", command.removeprefix("/"), maxsplit=1)[0]
        return "" if name in self.commands else f"claude has no command /{name[:80]}: beam agent show --live lists them"

    def act(self, intent: Act, now: float) -> list[Step]:
        """Return the step that carries out the action, or its refusal."""
        action = control_request(intent)
        if isinstance(action, str):
            return [refused_answer(intent.id, action)]
        return [self._send_request(action.subtype, action.given, intent.id, now, action.show, action.seconds)]

    def _send_request(
        self,
        subtype: str,
        given: Object,
        call_id: str,
        now: float,
        show: ShowResult = show_nothing,
        seconds: float = CALL_S,
    ) -> Step:
        return self._calls.call(subtype, given, lambda reply: answer_from_reply(call_id, reply, show), now + seconds)


def _context(result: Object) -> Object:
    return {"used": integer(result, "totalTokens"), "size": integer(result, "maxTokens")}
