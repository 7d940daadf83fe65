"""Follows the tool calls of one process of Claude Code: the open calls, the files that they changed, and the plan."""

from __future__ import annotations

from beam.agents.base import raw_json
from beam.agents.fields import Object, json_text, obj, objects, string
from beam.agents.images import images_in
from beam.model import events
from beam.model.events import Event, PlanStep

_WRITERS = {"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"}


class Tools:
    """Follows calls from `tool_use` to `tool_result`, including calls of subagents."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, Object, str | None]] = {}
        self._plan: dict[str, PlanStep] = {}

    def called(self, block: Object, parent: str | None) -> list[Event]:
        """Return the events of a `tool_use` block."""
        call_id, name, arguments = string(block, "id"), string(block, "name"), obj(block, "input")
        self._open[call_id] = (name, arguments, parent)
        called = events.ToolCalled(call_id=call_id, name=name, input=raw_json(block.get("input")), parent=parent)
        if name == "TodoWrite" and parent is None and "todos" in arguments:
            steps = tuple(
                _step(string(todo, "content"), string(todo, "status")) for todo in objects(arguments, "todos")
            )
            return [called, events.PlanUpdated(steps=steps)]
        return [called]

    def returned(self, block: Object, detail: object, parent: str | None) -> list[Event]:
        """Return the events of a `tool_result` block; `detail` is the CLI's own record of what the tool did
        (`tool_use_result`).
        """
        call_id = string(block, "tool_use_id")
        is_error = block.get("is_error") is True
        name, arguments, _ = self._open.pop(call_id, ("", {}, None))
        emitted: list[Event] = [
            events.ToolReturned(call_id=call_id, output=_output(block.get("content")), is_error=is_error, parent=parent)
        ]
        content = block.get("content")
        if isinstance(content, list):
            emitted += images_in(content, call_id=call_id, parent=parent)
        if is_error:
            return emitted
        record = detail if isinstance(detail, dict) else {}
        if name in _WRITERS:
            path = string(record, "filePath") or string(arguments, _WRITERS[name])
            kind = "add" if string(record, "type") == "create" else "update"
            emitted.append(events.FileChanged(path=path, kind=kind))
        elif parent is None and self._update_plan(name, arguments, record):
            emitted.append(events.PlanUpdated(steps=tuple(self._plan.values())))
        return emitted

    def _update_plan(self, name: str, arguments: Object, record: Object) -> bool:
        """Record this call's change of the plan, if it is a call of a task tool. Return whether it changed the plan.

        Tasks of earlier processes are unknown.
        """
        if name == "TaskCreate":
            task = obj(record, "task")
            task_id = string(task, "id")
            self._plan[task_id] = _step(string(task, "subject") or string(arguments, "subject"), "pending")
            return bool(task_id)
        if name == "TaskList":
            tasks = objects(record, "tasks")
            self._plan = {string(t, "id"): _step(string(t, "subject"), string(t, "status")) for t in tasks}
            return bool(tasks)
        task_id, status = string(arguments, "taskId"), string(arguments, "status")
        if name != "TaskUpdate" or task_id not in self._plan or not status:
            return False
        if status == "deleted":
            del self._plan[task_id]
        else:
            self._plan[task_id] = _step(string(arguments, "subject") or self._plan[task_id].text, status)
        return True

    def unfinished(self) -> list[Event]:
        """Return an event for each call whose end was not seen, and forget these calls."""
        found: list[Event] = [
            events.ToolReturned(call_id=call_id, unfinished=True, parent=parent)
            for call_id, (_, _, parent) in self._open.items()
        ]
        self._open.clear()
        return found


def _step(text: str, status: str) -> PlanStep:
    return PlanStep(text=text, status=status or "pending")


def _output(content: object) -> str:
    """Return a result as text: the string itself, or the texts of its blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else json_text(content)
    return "\n".join(_block_text(block) for block in content)


def _block_text(block: object) -> str:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return str(block["text"])
    if isinstance(block, dict) and isinstance(block.get("type"), str):
        return f"[{block['type']}]"
    return json_text(block)
