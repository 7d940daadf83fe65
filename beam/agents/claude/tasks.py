"""Background tasks of one process of Claude Code: commands and agents that run beside the conversation.

In headless mode the lines `system/task_*` report the tasks; newer versions wait for running tasks, up to a limit, and
then stop them. In a transcript, a tool's result shows that a task began, and a notification shows that it ended.
"""

from __future__ import annotations

import re

from msgspec import Raw, Struct

from beam.agents.base import raw_json
from beam.agents.fields import Object, number, obj, string
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Unfinished

_STOPPED = ("stopped", "killed")
_STOPPING_TOOLS = ("TaskStop", "KillShell", "KillBash")
_TASK_NOTICE = re.compile(r"<task-id>([^<\n]{1,128})</task-id>[\s\S]*?<status>(\w+)</status>")
_TOOL_NAMES = {"local_bash": "Bash", "local_agent": "Agent", "local_workflow": "Workflow"}


class _Task(Struct):
    """One task. `how` is the CLI's word for its end; "" while it runs."""

    call_id: str
    tool: str
    input: Raw
    how: str = ""


class Tasks:
    """Follows tasks from their start to their end."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._called: dict[str, tuple[str, Object]] = {}
        self._let_go: set[str] = set()  # ids of the tasks that the agent itself stopped

    def on_called(self, call_id: str, name: str, arguments: Object) -> None:
        """Record a tool call, which may begin or stop a task."""
        self._called[call_id] = (name, arguments)
        if name in _STOPPING_TOOLS:
            self._let_go |= {value for value in arguments.values() if isinstance(value, str)}

    def on_returned(self, call_id: str, record: Object) -> None:
        """Record a tool's result in a transcript: the tool may have begun a task. `record` is the CLI's own account of
        what the tool did."""
        task_id = string(record, "backgroundTaskId")
        if task_id:
            self._task(task_id, {"tool_use_id": call_id, "task_type": "local_bash"})

    def on_notified(self, text: str) -> None:
        """Record a notification in a transcript: a task ended."""
        found = _TASK_NOTICE.search(text)
        if found is not None and found[1] in self._tasks:
            self._record_end(self._tasks[found[1]], found[2])

    def line(self, value: Object) -> list[Event]:
        """Return the events of a `system/task_*` line."""
        subtype, task_id = string(value, "subtype"), string(value, "task_id")
        task = self._task(task_id, value)
        if subtype == "task_started":
            text = f"started: {string(value, 'description')}"
        elif subtype == "task_progress":
            text = string(value, "summary") or string(value, "description")
        elif subtype == "task_updated":
            word = string(obj(value, "patch"), "status")
            text = word or "updated"
            self._record_end(task, word)
        elif subtype == "task_notification":
            word = string(value, "status")
            text = f"{word}: {string(value, 'summary')}"
            self._record_end(task, word)
        else:
            return [events.Unknown(what=f"system/{subtype}")]
        elapsed_ms = number(obj(value, "usage"), "duration_ms")
        elapsed_s = None if elapsed_ms is None else elapsed_ms / 1000
        return [events.ToolProgress(call_id=task.call_id, text=text, elapsed_s=elapsed_s)]

    def _task(self, task_id: str, value: Object) -> _Task:
        call_id = string(value, "tool_use_id")
        task = self._tasks.get(task_id)
        if task is None or (call_id and call_id != task.call_id):
            kind, description = string(value, "task_type"), string(value, "description")
            name, arguments = self._called.get(
                call_id, (_TOOL_NAMES.get(kind, kind or "task"), {"description": description})
            )
            how = "" if task is None else task.how
            task = self._tasks[task_id] = _Task(call_id or task_id, name, raw_json(arguments), how)
        return task

    def _record_end(self, task: _Task, word: str) -> None:
        if word and word not in ("running", "pending", "in_progress"):
            task.how = task.how or word

    def unfinished(self) -> tuple[Unfinished, ...]:
        """Return the tasks whose end was not seen, and the tasks that the CLI stopped on its own. Tasks that the agent
        stopped are left out."""
        return tuple(
            Unfinished(tool=task.tool, call_id=task.call_id, input=task.input, how=task.how or "running")
            for task_id, task in self._tasks.items()
            if task.how in ("", *_STOPPED) and task_id not in self._let_go
        )
