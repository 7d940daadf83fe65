"""The items of one process of Codex: what the agent says, the calls that it makes, the files that it changes.

An item's id is one in its process only: events bear it behind a prefix that names the turn. Commands are not always
told, and one that goes on in the background is never told to end. Must not know: threads, usage, failures.
"""

from __future__ import annotations

import json

from beam import events
from beam.agents.base import raw_json
from beam.agents.fields import Object, integer, obj, objects, string, strings
from beam.agents.oneshot import Heard
from beam.events import Event, PlanStep
from beam.outcome import Denial

_SAID_ONLY = ("agent_message", "reasoning", "error", "todo_list")
_CALLS = ("command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call")
_NEEDS_APPROVAL = "requires approval"


class Items:
    """Follows items from their start to their end, and tells `heard` what is said and called."""

    def __init__(self, heard: Heard, *, prefix: str) -> None:
        self._heard = heard
        self._prefix = prefix

    def started(self, item: Object) -> list[Event]:
        """An item that began."""
        kind = string(item, "type")
        if kind == "todo_list":
            return [_plan(item)]
        if kind in _SAID_ONLY:
            return []
        if kind in _CALLS:
            return self._heard.called(self._id(item), *_call(item))
        return [events.Unknown(what=f"item/{kind}")]

    def updated(self, item: Object) -> list[Event]:
        """An item that goes on."""
        kind = string(item, "type")
        if kind == "todo_list":
            return [_plan(item)]
        return [] if kind in (*_SAID_ONLY, *_CALLS) else [events.Unknown(what=f"item/{kind}")]

    def completed(self, item: Object) -> list[Event]:
        """An item that is over; many are told of only then."""
        match item.get("type"):
            case "agent_message":
                return self._heard.text(string(item, "text"))
            case "reasoning":
                return [events.Thinking(text=text)] if (text := string(item, "text")) else []
            case "todo_list":
                return [_plan(item)]
            case "error":
                return [events.Notice(text=string(item, "message"), code="warning")]
            case kind if kind in _CALLS:
                return self._returned(item)
        return [events.Unknown(what=f"item/{string(item, 'type')}")]

    def _returned(self, item: Object) -> list[Event]:
        call_id, (name, given) = self._id(item), _call(item)
        called = [] if call_id in self._heard.calls else self._heard.called(call_id, name, given)
        output, failed = _output(item), string(item, "status") in ("failed", "declined")
        bodies = called + self._heard.returned(call_id, output, is_error=failed)
        if failed and string(item, "type") == "mcp_tool_call" and _NEEDS_APPROVAL in output:
            self._heard.denials.append(Denial(tool=name, call_id=call_id, input=raw_json(given)))
        if not failed and string(item, "type") == "file_change":
            bodies += [
                events.FileChanged(path=string(change, "path"), kind=string(change, "kind") or "update")
                for change in objects(item, "changes")
            ]
        return bodies

    def _id(self, item: Object) -> str:
        return self._prefix + string(item, "id")


def _call(item: Object) -> tuple[str, object]:
    """The name of the tool that the item is a call of, and its input."""
    match string(item, "type"):
        case "command_execution":
            return "shell", {"command": string(item, "command")}
        case "file_change":
            return "apply_patch", {"changes": objects(item, "changes")}
        case "mcp_tool_call":
            return f"mcp__{string(item, 'server')}__{string(item, 'tool')}", item.get("arguments")
        case "web_search":
            return "web_search", {"query": string(item, "query")}
        case _:
            asked = {"prompt": item.get("prompt"), "receivers": strings(item, "receiver_thread_ids")}
            return string(item, "tool"), asked


def _output(item: Object) -> str:
    """What came back, as text."""
    match string(item, "type"):
        case "command_execution":
            text, code = string(item, "aggregated_output"), integer(item, "exit_code")
            return f"{text}[exit code {code}]" if code else text
        case "mcp_tool_call":
            content = objects(obj(item, "result"), "content")
            said = [string(part, "text") or f"[{string(part, 'type')}]" for part in content]
            return "\n".join(said) or string(obj(item, "error"), "message")
        case "web_search":
            return json.dumps(item.get("action"), ensure_ascii=False)
        case "collab_tool_call":
            states = [state for state in obj(item, "agents_states").values() if isinstance(state, dict)]
            return "\n".join(string(state, "message") or string(state, "status") for state in states)
        case _:
            return ""


def _plan(item: Object) -> Event:
    steps = objects(item, "items")
    return events.PlanUpdated(
        steps=tuple(
            PlanStep(text=string(step, "text"), status="completed" if step.get("completed") is True else "pending")
            for step in steps
        )
    )
