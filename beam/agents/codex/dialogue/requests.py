"""Handles Codex's requests to beam. Whoever decides sees the complete request, and every request gets an answer.

A turn waits until its request is answered, so beam immediately refuses a request that it does not support. Codex's
offer to add a permanent rule to the person's own rules is never accepted. Does not depend on who decides.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from beam.agents.base import raw_json
from beam.agents.codex import tool_rules
from beam.agents.codex.dialogue.turn import TurnReader
from beam.agents.codex.dialogue.wire import answer, refusal
from beam.agents.fields import Object, obj, object_of, objects, string, strings
from beam.agents.jsonrpc import Id, key_of
from beam.agents.link import Asked, Decide, Say, Step, Withdrawn
from beam.model import events

COMMAND, FILES = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
PERMISSIONS, ELICITATION = "item/permissions/requestApproval", "mcpServer/elicitation/request"
QUESTION, CLIENT_TOOL = "item/tool/requestUserInput", "item/tool/call"
LEGACY = ("applyPatchApproval", "execCommandApproval")
REFUSED = ("account/chatgptAuthTokens/refresh", "attestation/generate")
_DECIDED = {"allow": "accept", "deny": "decline", "cancelled": "cancel"}
_DENIED: Object = {"decision": "decline"}
_SESSION = "the same again in this session"
_NO_TOOL: Object = {"success": False, "contentItems": [{"type": "inputText", "text": "the client has no such tool"}]}


class _Open(Struct, frozen=True):
    """A request that waits for a decision: its id, and the function that makes the answer for a decision."""

    number: Id
    answered: Callable[[Decide], Object]


class Requests:
    """The requests of one process. Methods take the `reader` of the running turn, None between two turns."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def handle_request(self, number: Id, method: str, params: Object, reader: TurnReader | None) -> list[Step]:
        """Return the steps that follow from a request: it becomes an ask, or is answered immediately."""
        key = key_of(number)
        if key in self._open:  # said again to one that began to listen later
            return []
        ask = _ASKS.get(method)
        found = None if ask is None else ask(params, reader)
        if found is not None:
            asked, answered = found
            self._open[key] = _Open(number, answered)
            return [msgspec.structs.replace(asked, key=key)]
        return [*_unanswerable(method, params), _refused(number, method)]

    def decide(self, decide: Decide) -> list[Step]:
        """Return the step that answers the request with the decision; none if the request is not open."""
        waiting = self._open.pop(decide.key, None)
        return [] if waiting is None else [answer(waiting.number, waiting.answered(decide))]

    def resolved(self, number: object) -> list[Step]:
        """Return the step that withdraws a request which Codex has cancelled; none if the request is not open."""
        key = key_of(number) if isinstance(number, int | str) else ""
        if self._open.pop(key, None) is None:
            return []
        return [Withdrawn(key=key, why="codex no longer waits for it")]


def _refused(number: Id, method: str) -> Step:
    match method:
        case _ if method in (COMMAND, FILES):
            return answer(number, _DENIED)
        case _ if method == PERMISSIONS:
            return answer(number, {"permissions": {}, "scope": "turn"})
        case _ if method == ELICITATION:
            return answer(number, {"action": "decline"})
        case _ if method == QUESTION:
            return answer(number, {"answers": {}})
        case _ if method == CLIENT_TOOL:
            return answer(number, _NO_TOOL)
        case _ if method in LEGACY:
            return answer(number, {"decision": {"denied": {"rejection": "denied: ask in the way of this version"}}})
        case _:
            return refusal(number, f"beam does not answer {method[:80]}")


def _unanswerable(method: str, params: Object) -> list[Step]:
    """Return the notice about a request that nobody can decide here; none for a request that is not a question to a
    person."""
    if method in REFUSED:
        return []
    text = string(params, "message") or "; ".join(string(each, "question") for each in objects(params, "questions"))
    url = string(params, "url")
    what = " ".join(part for part in (text, url) if part) or method
    return [Say(events.Notice(text=f"codex asked something that nobody can decide here: {what}", code="not_asked"))]


# -- what is asked -----------------------------------------------------------------------------------------------------

Ask = tuple[Asked, Callable[[Decide], Object]]


def _asked(tool: str, arguments: Object, lines: list[str], **more: object) -> Asked:
    shown = "\n".join(line for line in lines if line)
    asked = Asked(
        key="", tool=tool, input=raw_json(arguments), description=shown, call=tool_rules.call(tool, arguments)
    )
    return msgspec.structs.replace(asked, **more)


def _offer(always: bool) -> dict[str, object]:
    return {"always": always, "suggestions": raw_json([_SESSION] if always else [])}


def _call_id(params: Object, reader: TurnReader | None) -> str | None:
    item_id = string(params, "itemId")
    return reader.prefix + item_id if reader is not None and item_id else None


def _decision(decide: Decide) -> Object:
    word = _DECIDED[decide.decision]
    return {"decision": "acceptForSession" if word == "accept" and decide.always else word}


def _command(params: Object, reader: TurnReader | None) -> Ask | None:
    command, kind = string(params, "command"), string(params, "kind") or "command"
    network, more = obj(params, "networkApprovalContext"), obj(params, "additionalPermissions")
    if not (command or network):
        return None
    arguments: Object = {"command": command, "cwd": string(params, "cwd")}
    lines = [command]
    if kind != "command":
        arguments["kind"] = kind
        lines.insert(0, {"writeStdin": "to a command that runs:"}.get(kind, f"{kind}:"))
    if network:
        arguments["network"] = network
        host = f"{string(network, 'protocol')} {string(network, 'host')}".strip()
        lines.insert(0, f"network access: {host}")
    if more:
        arguments["permissions"] = more
        lines.append(f"with more permissions: {_json(more)}")
    reason = string(params, "reason")
    if reason:
        arguments["reason"] = reason
    asked = _asked("shell", arguments, [*lines, reason], call_id=_call_id(params, reader), **_offer(kind == "command"))
    return asked, _decision


def _files(params: Object, reader: TurnReader | None) -> Ask | None:
    changes = None if reader is None else reader.changes(string(params, "itemId"))
    if not changes:
        return None  # nobody knows what would be changed
    arguments: Object = {"changes": changes}
    lines = [_change(change) for change in changes]
    for name, words in (("grantRoot", "from now on anything in"), ("reason", "")):
        text = string(params, name)
        if text:
            arguments[name] = text
            lines.append(f"{words} {text}".strip())
    return _asked("apply_patch", arguments, lines, call_id=_call_id(params, reader), **_offer(True)), _decision


def _change(change: Object) -> str:
    moved = string(change, "move_path")
    return f"{string(change, 'kind')} {string(change, 'path')}" + (f" as {moved}" if moved else "")


def _permissions(params: Object, reader: TurnReader | None) -> Ask | None:
    wanted = obj(params, "permissions")
    if not wanted:
        return None

    def answered(decide: Decide) -> Object:
        granted = wanted if decide.decision == "allow" else {}
        return {"permissions": granted, "scope": "session" if granted and decide.always else "turn"}

    reason = string(params, "reason")
    arguments = {"permissions": wanted, "cwd": string(params, "cwd"), "reason": reason}
    call_id = _call_id(params, reader)
    return _asked("request_permissions", arguments, [_json(wanted), reason], call_id=call_id, **_offer(True)), answered


def _mcp_call(params: Object, reader: TurnReader | None) -> Ask | None:
    meta = obj(params, "_meta")
    if string(meta, "codex_approval_kind") != "mcp_tool_call":
        return None

    def answered(decide: Decide) -> Object:
        if decide.decision != "allow":
            return {"action": _DECIDED[decide.decision]}
        return {"action": "accept", "content": {}, "_meta": {"persist": "session"} if decide.always else None}

    tool = f"mcp__{string(params, 'serverName')}__{string(meta, 'tool_name')}"
    arguments = object_of(meta.get("tool_params"))
    lines = [f"{tool} {_json(arguments)}", string(params, "message")]
    return _asked(tool, arguments, lines, **_offer("session" in strings(meta, "persist"))), answered


def _json(value: Object) -> str:
    return bytes(raw_json(value)).decode()


_ASKS: dict[str, Callable[[Object, TurnReader | None], Ask | None]] = {
    COMMAND: _command,
    FILES: _files,
    PERMISSIONS: _permissions,
    ELICITATION: _mcp_call,
}
