"""Claude Code's requests to beam. Whoever decides sees the complete request, and every request gets an answer.

The turn waits until its request is answered, so beam immediately refuses a request that it can't handle. "Allow always"
applies to this session only. Does not depend on who decides.
"""

from __future__ import annotations

import os.path

from msgspec import Raw, Struct, structs

from beam.agents.base import raw_json
from beam.agents.claude import tool_rules
from beam.agents.claude.dialogue import rights, wire
from beam.agents.fields import Object, obj, objects, string
from beam.agents.link import Asked, Decide, Say, Step, Withdrawn
from beam.model import events
from beam.rules.rule import ToolCall

_MAX_OPEN = 100  # requests that wait at the same time; claude asks for one call after the other
_DENIED_TEXT = "This was denied."
_TURN_ENDS_TEXT = "The turn ends."
_BEAM_SETTINGS = "flagSettings"  # the source of the settings with which beam starts claude
_REASONS_TO_ASK_PERSON = ("safetyCheck", "sandboxOverride", "hook")
_PLAN_TOOL = "ExitPlanMode"
_PATH_ARGUMENTS = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}


class _OpenRequest(Struct, frozen=True):
    """A request that waits for a decision: the call's input as it was shown, and the permissions that "always" would
    add."""

    input: Raw
    always: Raw


class Requests:
    """The requests of one process that wait for a decision. `folders` are the names of the folder in which the process
    works: as beam gave it, and as claude calls it."""

    def __init__(self, folder: str) -> None:
        self.folders = {folder}
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
                description=self._description(tool, arguments, request),
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

    def _description(self, tool: str, arguments: Object, request: Object) -> str:
        """Return the description of a request: first the command, the path or the plan, then the agent's own words."""
        command, path = string(arguments, "command"), string(arguments, _PATH_ARGUMENTS.get(tool, ""))
        if tool == "Bash" and command:
            lines = [command, _rest_text(arguments, "command", "description"), string(arguments, "description")]
        elif tool == _PLAN_TOOL:
            plan = string(arguments, "plan")
            lines = [plan.strip() or "it shows no plan", _rest_text(arguments, *(("plan",) if plan else ()))]
        else:
            lines = [path or _json_text(arguments)]
        lines += [string(request, "decision_reason"), self._blocked_text(string(request, "blocked_path"), lines[0])]
        return "\n".join(line for line in lines if line)

    def _blocked_text(self, path: str, shown: str) -> str:
        """Return the line about the path because of which claude asks. It may be inside of the folder."""
        if not path:
            return ""
        inside = [os.path.normpath(os.path.join(folder, path)) for folder in self.folders]  # noqa: PTH118
        is_inside = any(_is_below(each, folder) for each, folder in zip(inside, self.folders, strict=True))
        if is_inside:
            return "" if path == shown else f"because of {path}"
        return f"outside of its folder: {path}"


def _is_below(path: str, folder: str) -> bool:
    top = os.path.normpath(folder)
    return path == top or path.startswith(top.rstrip("/") + "/")


def _rest_text(arguments: Object, *shown: str) -> str:
    """Return the arguments that are not shown yet, as JSON; "" if there are none."""
    rest = {name: value for name, value in arguments.items() if name not in shown}
    return _json_text(rest) if rest else ""


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


def _json_text(value: Object) -> str:
    return bytes(raw_json(value)).decode()


def _unanswerable_notice(subtype: str, request: Object) -> list[Step]:
    """Return the notice about a request that beam can't answer, because nobody can decide it here."""
    question = " ".join(part for part in (string(request, "message"), string(request, "url")) if part)
    text = f"claude asked something that nobody can decide here: {question or subtype[:80]}"
    return [Say(events.Notice(text=text, code="not_asked"))]
