"""Claude Code's requests to beam. Whoever decides sees the complete request, and every request gets an answer.

The turn waits until its request is answered, so beam immediately refuses a request that it can't handle. "Allow always"
applies to this session only. Does not depend on who decides.
"""

from __future__ import annotations

from msgspec import Raw, Struct, structs

from beam.agents.base import raw_json
from beam.agents.claude import tool_rules
from beam.agents.claude.dialogue import rights, wire
from beam.agents.fields import Object, obj, objects, string
from beam.agents.link import Asked, Decide, Say, Step, Withdrawn
from beam.model import events
from beam.rules.call import ToolCall

_MAX_OPEN = 100  # requests that wait at the same time; claude asks for one call after the other
_DENIED_TEXT = "This was denied."
_TURN_ENDS_TEXT = "The turn ends."
_BEAM_SETTINGS = "flagSettings"  # the source of the settings with which beam starts claude
_REASONS_TO_ASK_PERSON = ("safetyCheck", "sandboxOverride", "hook")
_PATH_ARGUMENTS = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}


class _OpenRequest(Struct, frozen=True):
    """A request that waits for a decision: the call's input as it was shown, and the permissions that "always" would
    add."""

    input: Raw
    always: Raw


class Requests:
    """The requests of one process that wait for a decision."""

    def __init__(self) -> None:
        self._open: dict[str, _OpenRequest] = {}

    def handle_request(self, value: Object) -> list[Step]:
        """Return the steps that follow from a request: beam asks for a decision, or answers immediately."""
        key, request = string(value, "request_id"), obj(value, "request")
        if not key or key in self._open:
            return []
        subtype = string(request, "subtype")
        if subtype != "can_use_tool":
            return [*_unanswerable_notice(subtype, request), wire.refusal(key, f"beam does not answer {subtype[:80]}")]
        tool, arguments = string(request, "tool_name"), request.get("input")
        shown = raw_json(arguments)
        if not tool or not isinstance(arguments, dict) or bytes(shown) == b"null" or len(self._open) >= _MAX_OPEN:
            return [wire.answer(key, _denial(_DENIED_TEXT))]
        always = (
            []
            if _is_decided_each_time(request)
            else rights.session_permissions(objects(request, "permission_suggestions"))
        )
        self._open[key] = _OpenRequest(shown, raw_json(always))
        return [
            Asked(
                key=key,
                tool=tool,
                input=shown,
                description=_description(tool, arguments, request),
                call_id=string(request, "tool_use_id") or None,
                suggestions=self._open[key].always,
                always=bool(always),
                message=True,
                changes=True,
                call=_call(tool, arguments, request),
            )
        ]

    def decide(self, decide: Decide) -> list[Step]:
        """Return the decision as the answer to its request."""
        waiting = self._open.pop(decide.key, None)
        if waiting is None:
            return []
        if decide.decision == "allow":
            allowed: Object = {"behavior": "allow", "updatedInput": decide.input or waiting.input}
            if decide.always and bytes(waiting.always) != b"[]":
                allowed["updatedPermissions"] = waiting.always
            return [wire.answer(decide.key, allowed)]
        if decide.decision == "cancelled":
            return [wire.answer(decide.key, {**_denial(_TURN_ENDS_TEXT), "interrupt": True})]
        return [wire.answer(decide.key, _denial(decide.message or _DENIED_TEXT))]

    def on_withdrawn(self, key: str) -> list[Step]:
        """Return the step for a request that claude has cancelled."""
        if self._open.pop(key, None) is None:
            return []
        return [Withdrawn(key=key, why="claude no longer waits for it")]


def _call(tool: str, arguments: Object, request: Object) -> ToolCall | None:
    """Return the requested call in the terms of rules. If claude or the person's own settings want a person to decide
    it, the call has `by_person` set, and no rule allows it."""
    call = tool_rules.call(tool, arguments)
    reason, matched = string(request, "decision_reason_type"), request.get("matched_ask_rule")
    is_theirs = matched is not None and string(obj(request, "matched_ask_rule"), "source") != _BEAM_SETTINGS
    is_theirs |= reason == "rule" and string(request, "decision_reason_rule_source") != _BEAM_SETTINGS
    is_theirs |= reason in _REASONS_TO_ASK_PERSON or request.get("default_to_no") is True
    is_theirs |= request.get("requires_user_interaction") is True
    return structs.replace(call, by_person=call.by_person or is_theirs) if call is not None else None


def _denial(message: str) -> Object:
    return {"behavior": "deny", "message": message}


def _is_decided_each_time(request: Object) -> bool:
    """Return whether claude wants each call of this kind to be decided separately."""
    return request.get("requires_user_interaction") is True or request.get("suppress_always_allow_rule") is True


def _description(tool: str, arguments: Object, request: Object) -> str:
    """Return the description of a request: first the command or the path, then the agent's own words."""
    command, path = string(arguments, "command"), string(arguments, _PATH_ARGUMENTS.get(tool, ""))
    if tool == "Bash" and command:
        rest = {name: value for name, value in arguments.items() if name not in ("command", "description")}
        lines = [command, _json_text(rest) if rest else "", string(arguments, "description")]
    else:
        lines = [path or _json_text(arguments)]
    reason, blocked = string(request, "decision_reason"), string(request, "blocked_path")
    lines += [reason, f"outside of its folder: {blocked}" if blocked else ""]
    return "\n".join(line for line in lines if line)


def _json_text(value: Object) -> str:
    return bytes(raw_json(value)).decode()


def _unanswerable_notice(subtype: str, request: Object) -> list[Step]:
    """Return the notice about a request that beam can't answer, because nobody can decide it here."""
    question = " ".join(part for part in (string(request, "message"), string(request, "url")) if part)
    text = f"claude asked something that nobody can decide here: {question or subtype[:80]}"
    return [Say(events.Notice(text=text, code="not_asked"))]
