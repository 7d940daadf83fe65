"""Reads and changes the task files of one Claude Code team, under Claude Code's own locks and its rules for ids."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beam.base.errors import CorruptError, NotFoundError, UsageError
from beam.teams import claude_files, model
from beam.teams.model import Task, inbox_name
from beam.teams.tasks import COMPLETED, IN_PROGRESS
from beam.teams.vendor_lock import hold_lock

PENDING = "pending"
_TASK_ID = re.compile(r"[0-9]{1,9}")


class TaskFiles:
    """The task files of one team below `home`, a configuration directory of Claude Code. `folder` is the name of the
    team's directory."""

    def __init__(self, home: str, folder: str) -> None:
        self.home = home
        self.folder = folder
        claude_files.check_directory(self._task_dir())

    def tasks(self) -> dict[str, Task]:
        """Return the tasks by id. A file is left out if the id in it differs from the file's name."""
        found = {}
        for task_id in self._task_ids():
            task = claude_files.read_parsed(self._task_path(task_id), model.task)
            if task is not None and task.id == task_id:
                found[task_id] = task
        return found

    def waits_for(self, task: Task, tasks: Mapping[str, Task]) -> list[str]:
        """Return the ids of the unfinished tasks that the task waits for. A task whose file can't be read counts as
        unfinished; a task whose file is gone does not count."""
        return [
            one for one in task.blocked_by if (tasks[one].status != COMPLETED if one in tasks else self._has_task(one))
        ]

    def add_task(self, subject: str, *, description: str = "", after: Sequence[str] = ()) -> str:
        """Create a task that waits for the tasks in `after`, and return its id. Raises NotFoundError if one of them
        does not exist."""
        folder = self._task_dir()
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a text
        with self._list_lock():
            tasks = self.tasks()
            for other in after:
                self._check_exists(tasks, other)
            task_id = str(max([self._highest_id(), *map(int, self._task_ids())]) + 1)
            value = {
                "id": task_id,
                "subject": subject,
                "description": description,
                "status": PENDING,
                "blocks": [],
                "blockedBy": list(dict.fromkeys(after)),
            }
            claude_files.write_new(f"{folder}/{task_id}.json", value)
            for other in dict.fromkeys(after):
                self._change(other, lambda found: found["blocks"].append(task_id))
        return task_id

    def block_task(self, task_id: str, by: str) -> None:
        """Make the task `task_id` wait for the task `by`. Raises UsageError if `by` already waits for `task_id`,
        directly or through other tasks."""
        with self._list_lock():
            tasks = self.tasks()
            for one in (task_id, by):
                self._check_exists(tasks, one)
            path = _waiting_chain(tasks, task_id, by)
            if path:
                way = " → ".join(path)
                raise UsageError(f"task {task_id} can't wait for {by}: that waits for it ({way})", "beam team tasks")
            self._change(task_id, lambda found: _add(found["blockedBy"], by))
            self._change(by, lambda found: _add(found["blocks"], task_id))

    def claim_task(self, task_id: str, owner: str) -> Task:
        """Make `owner` the owner of a task. Raises UsageError if the task already has an owner, is not pending, or
        waits for another task."""

        def claim(found: dict[str, Any]) -> None:
            if found.get("owner"):
                raise UsageError(f"task {task_id} is {found['owner']}'s", "beam team tasks", subject=task_id)
            if found.get("status") != PENDING:
                raise UsageError(f"task {task_id} is {found.get('status')}", "beam team tasks", subject=task_id)
            waits = self.waits_for(Task(id=task_id, blocked_by=tuple(found["blockedBy"])), self.tasks())
            if waits:
                raise UsageError(f"task {task_id} waits for {', '.join(waits)}", "beam team tasks", subject=task_id)
            found["owner"] = owner

        return self._change(task_id, claim)

    def move_task(self, task_id: str, status: str, owner: str = "") -> Task:
        """Set the status of a task. With `owner`, the task must belong to that member or to nobody, and it belongs to
        that member afterwards. Raises UsageError if it belongs to another one, or if a completed task would be in
        progress again."""

        def move(found: dict[str, Any]) -> None:
            if owner and found.get("owner") not in (None, "", owner):
                raise UsageError(f"task {task_id} is {found['owner']}'s", "beam team tasks", subject=task_id)
            if status == IN_PROGRESS and found.get("status") == COMPLETED:
                raise UsageError(f"task {task_id} is completed", "beam team tasks", subject=task_id)
            found["status"] = status
            if owner:
                found["owner"] = owner

        return self._change(task_id, move)

    def release_task(self, task_id: str) -> None:
        """Make a task pending again, without an owner."""

        def free(value: dict[str, Any]) -> None:
            value["status"] = PENDING
            value.pop("owner", None)

        self._change(task_id, free)

    def release_tasks(self, owner: str) -> list[str]:
        """Release all unfinished tasks of `owner`, and return their ids."""
        found = [one.id for one in self.tasks().values() if one.owner == owner and one.status != COMPLETED]
        for task_id in found:
            self.release_task(task_id)
        return found

    # -- inside -------------------------------------------------------------------------------------------------------

    def _task_dir(self) -> str:
        return f"{self.home}/tasks/{inbox_name(self.folder)}"

    def _task_path(self, task_id: str) -> str:
        return f"{self._task_dir()}/{task_id}.json"

    def _task_ids(self) -> list[str]:
        names = claude_files.names(self._task_dir())
        return [name[:-5] for name in names if name.endswith(".json") and _TASK_ID.fullmatch(name[:-5])]

    def _has_task(self, task_id: str) -> bool:
        return _TASK_ID.fullmatch(task_id) is not None and os.path.lexists(self._task_path(task_id))

    def _list_lock(self) -> Any:
        path = f"{self._task_dir()}/.lock"
        os.makedirs(self._task_dir(), exist_ok=True)  # noqa: PTH103 - a text
        if not os.path.lexists(path):
            claude_files.write(path, b"")
        return hold_lock(path)

    def _highest_id(self) -> int:
        data = (claude_files.read(f"{self._task_dir()}/.highwatermark") or b"").strip()
        return int(data) if _TASK_ID.fullmatch(data.decode("ascii", "replace")) else 0

    def _check_exists(self, tasks: Mapping[str, Task], task_id: str) -> None:
        if task_id not in tasks:
            raise NotFoundError(f"{self.folder} has no task {task_id!r}", "beam team tasks TEAM", subject=task_id)

    def _change(self, task_id: str, change: Callable[[dict[str, Any]], None]) -> Task:
        path = self._task_path(task_id)
        if not self._has_task(task_id):
            raise NotFoundError(f"{self.folder} has no task {task_id!r}", "beam team tasks TEAM", subject=task_id)
        with hold_lock(path):
            value = claude_files.read_parsed(path, model.object_in)
            if value is None:
                raise CorruptError(f"{path} is no task", subject=path)
            for key in ("blocks", "blockedBy"):
                value[key] = [one for one in value.get(key) or [] if isinstance(one, str)]
            change(value)
            claude_files.replace(path, value)
        task = model.task(json.dumps(value).encode())
        assert task is not None
        return task


def _waiting_chain(tasks: Mapping[str, Task], start: str, end: str) -> list[str]:
    """Return the ids of a chain of tasks from `end` to `start` in which each task waits for the next one; [] if there
    is no such chain."""
    ways = [[end]]
    seen = set()
    while ways:
        way = ways.pop()
        if way[-1] == start:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            task = tasks.get(way[-1])
            ways += [[*way, one] for one in (task.blocked_by if task is not None else ())]
            ways += [[*way, one.id] for one in tasks.values() if way[-1] in one.blocks]
    return []


def _add(ids: list[str], new: str) -> None:
    if new not in ids:
        ids.append(new)
