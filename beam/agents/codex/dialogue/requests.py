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

COMMAND_METHOD, FILES_METHOD = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
PERMISSIONS_METHOD, ELICITATION_METHOD = "item/permissions/requestApproval", "mcpServer/elicitation/request"
QUESTION_METHOD, CLIENT_TOOL_METHOD = "item/tool/requestUserInput", "item/tool/call"
LEGACY_METHODS = ("applyPatchApproval", "execCommandApproval")
REFUSED_METHODS = ("account/chatgptAuthTokens/refresh", "attestation/generate")
_WORD_BY_DECISION = {"allow": "accept", "deny": "decline", "cancelled": "cancel"}
_DECLINED_ANSWER: Object = {"decision": "decline"}
_SESSION_WORD = "the same again in this session"
_NO_TOOL_ANSWER: Object = {
    "success": False,
    "contentItems": [{"type": "inputText", "text": "the client has no such tool"}],
}


class _OpenRequest(Struct, frozen=True):
    """A request that waits for a decision: its id, and the function that makes the answer for a decision."""

    number: Id
    answered: Callable[[Decide], Object]


class Requests:
    """The requests of one process. Methods take the `reader` of the running turn, None between two turns."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenRequest] = {}

    def handle_request(self, number: Id, method: str, params: Object, reader: TurnReader | None) -> list[Step]:
        """Return the steps that follow from a request: it becomes an ask, or is answered immediately."""
        key = key_of(number)
        if key in self._open:  # Codex repeats a request to a client that connected later
            return []
        ask = _ASK_BY_METHOD.get(method)
        found = None if ask is None else ask(params, reader)
        if found is not None:
            asked, answered = found
            self._open[key] = _OpenRequest(number, answered)
            return [msgspec.structs.replace(asked, key=key)]
        return [*_unanswerable_notice(method, params), _refuse(number, method)]

    def decide(self, decide: Decide) -> list[Step]:
        """Return the step that answers the request with the decision; none if the request is not open."""
        waiting = self._open.pop(decide.key, None)
        return [] if waiting is None else [answer(waiting.number, waiting.answered(decide))]

    def on_withdrawn(self, number: object) -> list[Step]:
        """Return the step that withdraws a request which Codex has cancelled; none if the request is not open."""
        key = key_of(number) if isinstance(number, int | str) else ""
        if self._open.pop(key, None) is None:
            return []
        return [Withdrawn(key=key, why="codex no longer waits for it")]


def _refuse(number: Id, method: str) -> Step:
    match method:
        case _ if method in (COMMAND_METHOD, FILES_METHOD):
            return answer(number, _DECLINED_ANSWER)
        case _ if method == PERMISSIONS_METHOD:
            return answer(number, {"permissions": {}, "scope": "turn"})
        case _ if method == ELICITATION_METHOD:
            return answer(number, {"action": "decline"})
        case _ if method == QUESTION_METHOD:
            return answer(number, {"answers": {}})
        case _ if method == CLIENT_TOOL_METHOD:
            return answer(number, _NO_TOOL_ANSWER)
        case _ if method in LEGACY_METHODS:
            return answer(number, {"decision": {"denied": {"rejection": "denied: ask in the way of this version"}}})
        case _:
            return refusal(number, f"beam does not answer {method[:80]}")


def _unanswerable_notice(method: str, params: Object) -> list[Step]:
    """Return the notice about a request that nobody can decide here; none for a request that is not a question to a
    person."""
    if method in REFUSED_METHODS:
        return []
    text = string(params, "message") or "; ".join(string(each, "question") for each in objects(params, "questions"))
    url = string(params, "url")
    what = " ".join(part for part in (text, url) if part) or method
    return [Say(events.Notice(text=f"codex asked something that nobody can decide here: {what}", code="not_asked"))]


# -- asks by method ----------------------------------------------------------------------------------------------------

AnswerableAsk = tuple[Asked, Callable[[Decide], Object]]


def _make_asked(tool: str, arguments: Object, lines: list[str], **more: object) -> Asked:
    shown = "\n".join(line for line in lines if line)
    asked = Asked(
        key="", tool=tool, input=raw_json(arguments), description=shown, call=tool_rules.call(tool, arguments)
    )
    return msgspec.structs.replace(asked, **more)


def _always_offer(always: bool) -> dict[str, object]:
    return {"always": always, "suggestions": raw_json([_SESSION_WORD] if always else [])}


def _call_id(params: Object, reader: TurnReader | None) -> str | None:
    item_id = string(params, "itemId")
    return reader.prefix + item_id if reader is not None and item_id else None


def _decision_answer(decide: Decide) -> Object:
    word = _WORD_BY_DECISION[decide.decision]
    return {"decision": "acceptForSession" if word == "accept" and decide.always else word}


def _ask_command(params: Object, reader: TurnReader | None) -> AnswerableAsk | None:
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
        lines.append(f"with more permissions: {_json_text(more)}")
    reason = string(params, "reason")
    if reason:
        arguments["reason"] = reason
    asked = _make_asked(
        "shell", arguments, [*lines, reason], call_id=_call_id(params, reader), **_always_offer(kind == "command")
    )
    return asked, _decision_answer


def _ask_files(params: Object, reader: TurnReader | None) -> AnswerableAsk | None:
    changes = None if reader is None else reader.changes_of_call(string(params, "itemId"))
    if not changes:
        return None  # nobody knows what would be changed
    arguments: Object = {"changes": changes}
    lines = [_change_text(change) for change in changes]
    for name, words in (("grantRoot", "from now on anything in"), ("reason", "")):
        text = string(params, name)
        if text:
            arguments[name] = text
            lines.append(f"{words} {text}".strip())
    return _make_asked(
        "apply_patch", arguments, lines, call_id=_call_id(params, reader), **_always_offer(True)
    ), _decision_answer


def _change_text(change: Object) -> str:
    moved = string(change, "move_path")
    return f"{string(change, 'kind')} {string(change, 'path')}" + (f" as {moved}" if moved else "")


def _ask_permissions(params: Object, reader: TurnReader | None) -> AnswerableAsk | None:
    wanted = obj(params, "permissions")
    if not wanted:
        return None

    def answered(decide: Decide) -> Object:
        granted = wanted if decide.decision == "allow" else {}
        return {"permissions": granted, "scope": "session" if granted and decide.always else "turn"}

    reason = string(params, "reason")
    arguments = {"permissions": wanted, "cwd": string(params, "cwd"), "reason": reason}
    call_id = _call_id(params, reader)
    return _make_asked(
        "request_permissions", arguments, [_json_text(wanted), reason], call_id=call_id, **_always_offer(True)
    ), answered


def _ask_mcp_call(params: Object, reader: TurnReader | None) -> AnswerableAsk | None:
    meta = obj(params, "_meta")
    if string(meta, "codex_approval_kind") != "mcp_tool_call":
        return None

    def answered(decide: Decide) -> Object:
        if decide.decision != "allow":
            return {"action": _WORD_BY_DECISION[decide.decision]}
        return {"action": "accept", "content": {}, "_meta": {"persist": "session"} if decide.always else None}

    tool = f"mcp__{string(params, 'serverName')}__{string(meta, 'tool_name')}"
    arguments = object_of(meta.get("tool_params"))
    lines = [f"{tool} {_json_text(arguments)}", string(params, "message")]
    return _make_asked(tool, arguments, lines, **_always_offer("session" in strings(meta, "persist"))), answered


def _json_text(value: Object) -> str:
    return bytes(raw_json(value)).decode()


_ASK_BY_METHOD: dict[str, Callable[[Object, TurnReader | None], AnswerableAsk | None]] = {
    COMMAND_METHOD: _ask_command,
    FILES_METHOD: _ask_files,
    PERMISSIONS_METHOD: _ask_permissions,
    ELICITATION_METHOD: _ask_mcp_call,
}
