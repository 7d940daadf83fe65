"""Turns observations of a team's tasks (task files, and records of tool calls from transcripts and hooks) into events.

The task files have the valid state, but they name no author and no time, and a state may be overwritten before beam
reads it. Records of calls fill these gaps: a change that a record proves is also reported if no file showed it. Does
not depend on files or clocks.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from beam.model import events as all_events
from beam.model.events import Event
from beam.teams.event_factory import Deduplicator, EventFactory
from beam.teams.model import Task

COMPLETED = "completed"
IN_PROGRESS = "in_progress"
PENDING = "pending"
DELETED = "deleted"


class Change(Struct, frozen=True, kw_only=True):
    """The change of one task that the record of a tool call proves. `status` and `owner` are None if the call did not
    change them."""

    task_id: str
    at_ns: int
    by: str
    source: str
    created: bool = False
    status: str | None = None
    owner: str | None = None
    subject: str = ""
    description: str = ""
    fields: tuple[str, ...] = ()


class Tasks:
    """The task list of one team.

    `baseline_ns` is the time of the initial reading of the task files; it is 0 until this reading is complete. Until
    then, changes from before `from_ns` are stored, but not reported.
    """

    def __init__(self, tell: EventFactory, once: Deduplicator) -> None:
        self._tell = tell
        self._once = once
        self._from_files: set[str] = set()
        self._since_ns: dict[str, int] = {}
        self._created: set[str] = set()
        self._owners: dict[str, str] = {}  # as records have it
        self.known: dict[str, Task] = {}
        self.baseline_ns = 0
        self.from_ns = 0

    def on_file(self, task: Task, at_ns: int) -> list[Event]:
        """Apply the content of a task's file."""
        if task.status == DELETED:
            return self.on_gone(task.id, at_ns)
        is_seen = task.id in self._from_files
        self._from_files.add(task.id)
        return self._apply(task, at_ns, "files", None, is_whole=is_seen)

    def on_gone(self, task_id: str, at_ns: int) -> list[Event]:
        """Record that a task's file no longer exists."""
        self._from_files.discard(task_id)
        return self._delete(task_id, at_ns, "files", None)

    def on_proof(self, change: Change) -> list[Event]:
        """Apply a change that the record of a tool call proves."""
        if change.task_id not in self._from_files and not self.baseline_ns:
            return self._apply_early_record(change)
        if change.owner is not None:
            before = self._owners.get(change.task_id)
            self._owners[change.task_id] = change.owner
            if change.owner == before:  # the call names the owner that the task already has: nothing changed
                change = msgspec.structs.replace(change, owner=None)
        known = self.known.get(change.task_id)
        if change.at_ns < self.baseline_ns + 3_000_000_000 and self._is_included(change, known):
            return []
        return self._events_of_missed_change(change, known or Task(id=change.task_id, subject=change.subject))

    def since_ns(self, task_id: str) -> int:
        """Return when the task got its current status; 0 if unknown."""
        return self._since_ns.get(task_id, 0)

    def is_ready(self, task: Task) -> bool:
        """Return whether a member can take the task: it is pending, has no owner, and waits for no other task."""
        return task.status == PENDING and task.owner is None and not self.open_blockers(task)

    def open_blockers(self, task: Task) -> list[str]:
        """Return the ids of the known, uncompleted tasks that this task waits for."""
        known = self.known
        return [other for other in task.blocked_by if other in known and known[other].status != COMPLETED]

    # -- what records say, before any file was read --------------------------------------------------------------------

    def _apply_early_record(self, change: Change) -> list[Event]:
        task = self.known.get(change.task_id)
        if change.status == DELETED:
            return self._delete(change.task_id, change.at_ns, change.source, change.by)
        if task is None:
            task = Task(id=change.task_id, subject=change.subject, description=change.description)
        task = msgspec.structs.replace(
            task,
            status=change.status or task.status,
            owner=change.owner if change.owner is not None else task.owner,
        )
        return self._apply(task, change.at_ns, change.source, change.by)

    def _is_included(self, change: Change, known: Task | None) -> bool:
        """Return whether the state that the files showed at the initial reading already includes this change."""
        if known is None:
            return change.status == DELETED and change.task_id not in self._created
        same_owner = change.owner is None or change.owner == known.owner
        return same_owner and (change.status is None or change.status == known.status)

    def _events_of_missed_change(self, change: Change, task: Task) -> list[Event]:
        """Return the events for a change that the files should have shown, but did not."""
        wanted: list[tuple[type[Event], str]] = []
        if change.created:
            wanted.append((all_events.TaskCreated, "created"))
        if change.owner:
            wanted.append((all_events.TaskClaimed, f"claimed/{change.owner}"))
        if change.status == IN_PROGRESS:
            wanted.append((all_events.TaskStarted, "started"))
        elif change.status == COMPLETED:
            wanted.append((all_events.TaskCompleted, "completed"))
        elif change.status == DELETED:
            wanted.append((all_events.TaskDeleted, "deleted"))
        elif change.status == PENDING:
            wanted.append((all_events.TaskReopened, "reopened"))
        task = msgspec.structs.replace(task, owner=change.owner or task.owner)
        changes = [
            self._unless_reported(cls, change_name, task, change.at_ns, change.source, change.by)
            for cls, change_name in wanted
        ]
        return [event for event in changes if event is not None]

    # -- from one state to the next ------------------------------------------------------------------------------------

    def _apply(self, new: Task, at_ns: int, source: str, by: str | None, *, is_whole: bool = False) -> list[Event]:
        """Store the new state of a task, and return the events for its differences from the known state. `is_whole`:
        the known state came from the task's file, so changes of all fields are reported."""
        old = self.known.get(new.id)
        if old == new:
            return []
        self.known[new.id] = new
        found: list[Event | None] = []
        is_past = old is None and source == "files" and not self.baseline_ns

        def say(cls: type[Event], change_name: str, **fields: Any) -> None:
            found.append(self._unless_reported(cls, change_name, new, at_ns, source, by, **fields))

        if old is None:
            say(
                all_events.TaskCreated,
                "created",
                description=new.description,
                blocked_by=new.blocked_by,
            )
            old = Task(id=new.id, subject=new.subject, blocked_by=new.blocked_by)
            self._since_ns[new.id] = at_ns
        else:
            fields = self._differences(old, new)
            if fields and is_whole:
                say(all_events.TaskChanged, f"changed/{','.join(fields)}", fields=fields, blocked_by=new.blocked_by)
        lost_owner = old.owner is not None and new.owner is None
        if lost_owner:
            self._owners.pop(new.id, None)
        if new.status != old.status:
            self._since_ns[new.id] = at_ns
            if new.status == PENDING or old.status == COMPLETED:
                say(all_events.TaskReopened, "reopened", previous=old.owner)
        elif lost_owner:
            say(all_events.TaskReopened, "reopened", previous=old.owner)
        if new.owner is not None and new.owner != old.owner:
            say(all_events.TaskClaimed, f"claimed/{new.owner}", previous=old.owner)
        if new.status != old.status and new.status == IN_PROGRESS:
            say(all_events.TaskStarted, "started")
        elif new.status != old.status and new.status == COMPLETED:
            say(all_events.TaskCompleted, "completed")
            found += [] if is_past else self._unblocked(new.id, at_ns, source)
        elif new.status != old.status and new.status != PENDING:
            say(all_events.TaskChanged, f"changed/{new.status}", fields=("status",), blocked_by=new.blocked_by)
        if is_past:  # a file that existed before has only the time of its last change
            del found[:-1]
        return [event for event in found if event is not None]

    def _differences(self, old: Task, new: Task) -> tuple[str, ...]:
        names = {"subject": "subject", "description": "description", "active_form": "activeForm", "rest": "metadata"}
        found = [shown for name, shown in names.items() if getattr(old, name) != getattr(new, name)]
        removed = set(old.blocked_by) - set(new.blocked_by)
        if set(new.blocked_by) - set(old.blocked_by) or any(one in self.known for one in removed):
            found.append("blockedBy")
        return tuple(found)

    def _delete(self, task_id: str, at_ns: int, source: str, by: str | None) -> list[Event]:
        task = self.known.pop(task_id, None)
        self._since_ns.pop(task_id, None)
        if task is None:
            return []
        changes = self._unless_reported(all_events.TaskDeleted, "deleted", task, at_ns, source, by)
        return [*([] if changes is None else [changes]), *self._unblocked(task_id, at_ns, source)]

    def _unblocked(self, blocker: str, at_ns: int, source: str) -> list[Event]:
        waiting = [
            task
            for task in self.known.values()
            if blocker in task.blocked_by and task.status != COMPLETED and not self.open_blockers(task)
        ]
        changes = [
            self._unless_reported(
                all_events.TaskUnblocked, f"unblocked/{blocker}", task, at_ns, source, None, blocker=blocker
            )
            for task in waiting
        ]
        return [event for event in changes if event is not None]

    def _unless_reported(
        self, cls: type[Event], change_name: str, task: Task, at_ns: int, source: str, by: str | None, **fields: Any
    ) -> Event | None:
        if not self._once.count_report(
            ("task", task.id, change_name), source="files" if source == "files" else "record"
        ):
            return None
        if change_name == "created":
            self._created.add(task.id)
        if at_ns < self.from_ns and not self.baseline_ns:  # there may be thousands when watching begins
            return None
        key = f"task/{task.id}/{change_name}/{at_ns // 1_000_000}"
        return self._tell(
            cls,
            at_ns,
            by or task.owner or "",
            key,
            source,
            task_id=task.id,
            subject=task.subject,
            owner=task.owner,
            by=by,
            **fields,
        )
