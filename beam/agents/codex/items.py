"""The items that one process of Codex reports: the agent's texts, its calls, and the files that it changes.

An item's id is unique only in its process, so events prefix the id with the turn. Codex does not report all commands,
and never reports the end of a command that continues in the background. Does not depend on threads, usage or failures.
"""

from __future__ import annotations

from beam.agents.base import raw_json
from beam.agents.codex.wire import Item
from beam.agents.fields import json_text, object_of, objects, objects_of, string, strings_of
from beam.agents.images import images_in
from beam.agents.oneshot import OutputSummary
from beam.model import events
from beam.model.events import Event, PlanStep
from beam.model.outcome import Denial

_NON_CALL_TYPES = ("agent_message", "reasoning", "error", "todo_list")
_CALL_TYPES = ("command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call")
_NEEDS_APPROVAL = "requires approval"


class ItemReader:
    """Follows items from their start to their end, and records texts and calls in `summary`."""

    def __init__(self, summary: OutputSummary, *, prefix: str) -> None:
        self._summary = summary
        self._prefix = prefix

    def on_started(self, item: Item) -> list[Event]:
        """Return the events of an item that began."""
        if item.type == "todo_list":
            return [_plan_event(item)]
        if item.type in _NON_CALL_TYPES:
            return []
        if item.type in _CALL_TYPES:
            return self._summary.on_called(self._prefix + item.id, *_name_and_input(item))
        return [events.Unknown(what=f"item/{item.type}")]

    def on_updated(self, item: Item) -> list[Event]:
        """Return the events of an item that continues."""
        if item.type == "todo_list":
            return [_plan_event(item)]
        return [] if item.type in (*_NON_CALL_TYPES, *_CALL_TYPES) else [events.Unknown(what=f"item/{item.type}")]

    def on_completed(self, item: Item) -> list[Event]:
        """Return the events of an item that ended. Many items are reported only at their end."""
        match item.type:
            case "agent_message":
                return self._summary.text(item.text)
            case "reasoning":
                return [events.Thinking(text=item.text)] if item.text else []
            case "todo_list":
                return [_plan_event(item)]
            case "error":
                return [events.Notice(text=item.message, code="warning")]
            case kind if kind in _CALL_TYPES:
                return self._on_returned(item)
        return [events.Unknown(what=f"item/{item.type}")]

    def _on_returned(self, item: Item) -> list[Event]:
        call_id, (name, arguments) = self._prefix + item.id, _name_and_input(item)
        called = [] if call_id in self._summary.calls else self._summary.on_called(call_id, name, arguments)
        output, failed = _output(item), item.status in ("failed", "declined")
        self._summary.partial |= bool(strings_of(item.receiver_thread_ids))  # threads of their own, not counted here
        emitted = called + self._summary.on_returned(call_id, output, is_error=failed)
        if item.type == "mcp_tool_call":
            emitted += images_in(objects(object_of(item.result), "content"), call_id=call_id)
        if failed and item.type == "mcp_tool_call" and _NEEDS_APPROVAL in output:
            self._summary.denials.append(Denial(tool=name, call_id=call_id, input=raw_json(arguments)))
        if not failed and item.type == "file_change":
            emitted += [
                events.FileChanged(path=string(change, "path"), kind=string(change, "kind") or "update")
                for change in objects_of(item.changes)
            ]
        return emitted


def _name_and_input(item: Item) -> tuple[str, object]:
    """Return the tool name and the input of an item that is a tool call."""
    match item.type:
        case "command_execution":
            return "shell", {"command": item.command}
        case "file_change":
            return "apply_patch", {"changes": objects_of(item.changes)}
        case "mcp_tool_call":
            return f"mcp__{item.server}__{item.tool}", item.arguments
        case "web_search":
            return "web_search", {"query": item.query}
        case _:
            return item.tool, {"prompt": item.prompt, "receivers": strings_of(item.receiver_thread_ids)}


def _output(item: Item) -> str:
    """Return the result of a call as text."""
    match item.type:
        case "command_execution":
            text = item.aggregated_output
            return f"{text}[exit code {item.exit_code}]" if item.exit_code else text
        case "mcp_tool_call":
            content = objects(object_of(item.result), "content")
            texts = [string(part, "text") or f"[{string(part, 'type')}]" for part in content]
            return "\n".join(texts) or string(object_of(item.error), "message")
        case "web_search":
            return json_text(item.action)
        case "collab_tool_call":
            states = objects_of(list(object_of(item.agents_states).values()))
            return "\n".join(string(state, "message") or string(state, "status") for state in states)
        case _:
            return ""


def _plan_event(item: Item) -> Event:
    return events.PlanUpdated(
        steps=tuple(
            PlanStep(text=string(step, "text"), status="completed" if step.get("completed") is True else "pending")
            for step in objects_of(item.items)
        )
    )
