"""The complete events of a team's tasks, from their files and from what records prove."""

from __future__ import annotations

from typing import Any

import pytest

from beam.teams.diff import Diff
from beam.teams.model import Task
from beam.teams.tasks import Change
from tests.teams.teams_told import BOB, H, S, T, started, told


def test_each_step_of_a_task_is_told_whole() -> None:
    diff, team = started(BOB)
    steps: list[dict[str, Any]] = [
        {"description": "of it", "blocked_by": ("9",)},
        {"description": "of it", "blocked_by": ("9",), "owner": "bob"},
        {"description": "of it", "owner": "bob", "status": "in_progress"},
        {"description": "new", "owner": "bob", "status": "in_progress", "active_form": "Doing", "rest": "{}"},
        {"description": "new", "owner": "eve", "status": "in_progress", "active_form": "Doing", "rest": "{}"},
        {"description": "new", "owner": "eve", "status": "completed", "active_form": "Doing", "rest": "{}"},
        {"description": "new", "status": "pending", "active_form": "Doing", "rest": "{}"},
        {"description": "new", "owner": "bob", "status": "pending", "active_form": "Doing", "rest": "{}"},
        {"description": "new", "status": "pending", "active_form": "Doing", "rest": "{}"},
        {"description": "new", "status": "held", "active_form": "Doing", "rest": "{}", "blocked_by": ("8",)},
        {"status": "deleted"},
    ]
    found = []
    for number, step in enumerate(steps, 3):
        found += diff.task(H, T, Task(id="1", subject="s", **step), number * S)
    assert told(found) == [
        '00:03 task.created - task/1/created/3000 files task_id="1" subject="s" description="of it" blocked_by=["9"]',
        '00:04 task.claimed bob task/1/claimed/bob/4000 files task_id="1" subject="s" owner="bob"',
        '00:05 task.started bob task/1/started/5000 files task_id="1" subject="s" owner="bob"',
        (
            '00:06 task.changed bob task/1/changed/description,activeForm,metadata/6000 files task_id="1" '
            'subject="s" owner="bob" fields=["description", "activeForm", "metadata"]'
        ),
        '00:07 task.claimed eve task/1/claimed/eve/7000 files task_id="1" subject="s" owner="eve" previous="bob"',
        '00:08 task.completed eve task/1/completed/8000 files task_id="1" subject="s" owner="eve"',
        '00:09 task.reopened - task/1/reopened/9000 files task_id="1" subject="s" previous="eve"',
        '00:10 task.claimed bob task/1/claimed/bob/10000 files task_id="1" subject="s" owner="bob"',
        '00:11 task.reopened - task/1/reopened/11000 files task_id="1" subject="s" previous="bob"',
        (
            '00:12 task.changed - task/1/changed/blockedBy/12000 files task_id="1" subject="s" '
            'fields=["blockedBy"] blocked_by=["8"]'
        ),
        (
            '00:12 task.changed - task/1/changed/held/12000 files task_id="1" subject="s" fields=["status"] '
            'blocked_by=["8"]'
        ),
        '00:13 task.deleted - task/1/deleted/13000 files task_id="1" subject="s"',
    ]
    assert team.tasks.known == {} and team.tasks.since_ns("1") == 0


def test_a_tasks_status_began_when_it_changed_to_it() -> None:
    diff, team = started(BOB)
    diff.task(H, T, Task(id="1", subject="s"), 3 * S)
    diff.task(H, T, Task(id="1", subject="t"), 4 * S)
    assert team.tasks.since_ns("1") == 3 * S
    diff.task(H, T, Task(id="1", subject="t", status="in_progress"), 5 * S)
    assert team.tasks.since_ns("1") == 5 * S


def test_a_task_that_waits_for_two_is_unblocked_by_the_last() -> None:
    diff, _ = started(BOB)
    for number in "12":
        diff.task(H, T, Task(id=number), 3 * S)
    diff.task(H, T, Task(id="3", subject="waits", blocked_by=("1", "2")), 3 * S)
    diff.task(H, T, Task(id="4", subject="done", blocked_by=("2",), status="completed"), 3 * S)
    found = [*diff.task(H, T, Task(id="1", status="completed"), 4 * S), *diff.task_gone(H, T, "2", 5 * S)]
    assert told(found) == [
        '00:04 task.completed - task/1/completed/4000 files task_id="1"',
        '00:05 task.deleted - task/2/deleted/5000 files task_id="2"',
        '00:05 task.unblocked - task/3/unblocked/2/5000 files task_id="3" subject="waits" blocker="2"',
    ]
    assert diff.task_gone(H, T, "2", 6 * S) == []


def test_of_a_task_that_is_no_blocker_any_more_only_one_that_is_still_there_is_a_change() -> None:
    diff, _ = started(BOB)
    diff.task(H, T, Task(id="1"), 3 * S)
    diff.task(H, T, Task(id="2", blocked_by=("1", "7")), 3 * S)
    assert diff.task(H, T, Task(id="2", blocked_by=("1",)), 4 * S) == []
    assert told(diff.task(H, T, Task(id="2", blocked_by=()), 5 * S)) == [
        '00:05 task.changed - task/2/changed/blockedBy/5000 files task_id="2" fields=["blockedBy"]'
    ]


def change(at: int, **given: Any) -> Change:
    return Change(**{"task_id": "1", "at_ns": at * S, "by": "bob", "source": "hook", **given})


def test_before_any_file_was_read_records_alone_tell_of_a_task() -> None:
    tasks = Diff().team(H, T).tasks
    assert tasks.on_proof(change(2, status="deleted")) == []
    assert told(tasks.on_proof(change(3, created=True, subject="s", description="d"))) == [
        '00:03 task.created bob task/1/created/3000 hook task_id="1" subject="s" by="bob" description="d"'
    ]
    assert told(tasks.on_proof(change(4, owner="eve"))) == [
        '00:04 task.claimed bob task/1/claimed/eve/4000 hook task_id="1" subject="s" owner="eve" by="bob"'
    ]
    assert told(tasks.on_proof(change(5, status="completed"))) == [
        '00:05 task.completed bob task/1/completed/5000 hook task_id="1" subject="s" owner="eve" by="bob"'
    ]
    assert tasks.known["1"] == Task(id="1", subject="s", description="d", owner="eve", status="completed")
    assert told(tasks.on_proof(change(6, status="deleted"))) == [
        '00:06 task.deleted bob task/1/deleted/6000 hook task_id="1" subject="s" owner="eve" by="bob"'
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"created": True},
        {"owner": "eve"},
        {"owner": "ann"},
        {"status": "in_progress"},
        {"status": "completed"},
        {"status": "deleted"},
        {"status": "pending"},
        {"status": "odd"},
        {"created": True, "owner": "eve", "status": "in_progress"},
    ],
    ids=str,
)
def test_what_a_record_proves_and_no_file_showed_is_told_whatever_the_file_says(given: dict[str, Any]) -> None:
    rows = []
    for at in (2, 20):
        tasks = started(BOB)[1].tasks
        tasks.on_file(Task(id="1", subject="s", owner="ann"), 2 * S)
        rows.append(told(tasks.on_proof(change(at, **given))))
    assert rows == _MISSED[str(given)]


def test_a_change_of_a_task_that_no_file_showed_is_news_unless_it_deletes_it() -> None:
    tasks = started(BOB)[1].tasks
    assert tasks.on_proof(change(2, task_id="7", status="deleted")) == []
    assert told(tasks.on_proof(change(2, task_id="8", created=True, subject="new"))) == [
        '00:02 task.created bob task/8/created/2000 hook task_id="8" subject="new" by="bob"'
    ]
    assert told(tasks.on_proof(change(2, task_id="8", status="deleted"))) == [
        '00:02 task.deleted bob task/8/deleted/2000 hook task_id="8" by="bob"'
    ]


_MISSED = {
    "{'created': True}": [[], []],
    "{'owner': 'eve'}": [
        ['00:02 task.claimed bob task/1/claimed/eve/2000 hook task_id="1" subject="s" owner="eve" by="bob"'],
        ['00:20 task.claimed bob task/1/claimed/eve/20000 hook task_id="1" subject="s" owner="eve" by="bob"'],
    ],
    "{'owner': 'ann'}": [[], []],
    "{'status': 'in_progress'}": [
        ['00:02 task.started bob task/1/started/2000 hook task_id="1" subject="s" owner="ann" by="bob"'],
        ['00:20 task.started bob task/1/started/20000 hook task_id="1" subject="s" owner="ann" by="bob"'],
    ],
    "{'status': 'completed'}": [
        ['00:02 task.completed bob task/1/completed/2000 hook task_id="1" subject="s" owner="ann" by="bob"'],
        ['00:20 task.completed bob task/1/completed/20000 hook task_id="1" subject="s" owner="ann" by="bob"'],
    ],
    "{'status': 'deleted'}": [
        ['00:02 task.deleted bob task/1/deleted/2000 hook task_id="1" subject="s" owner="ann" by="bob"'],
        ['00:20 task.deleted bob task/1/deleted/20000 hook task_id="1" subject="s" owner="ann" by="bob"'],
    ],
    "{'status': 'pending'}": [
        [],
        ['00:20 task.reopened bob task/1/reopened/20000 hook task_id="1" subject="s" owner="ann" by="bob"'],
    ],
    "{'status': 'odd'}": [[], []],
    "{'created': True, 'owner': 'eve', 'status': 'in_progress'}": [
        [
            '00:02 task.claimed bob task/1/claimed/eve/2000 hook task_id="1" subject="s" owner="eve" by="bob"',
            '00:02 task.started bob task/1/started/2000 hook task_id="1" subject="s" owner="eve" by="bob"',
        ],
        [
            '00:20 task.claimed bob task/1/claimed/eve/20000 hook task_id="1" subject="s" owner="eve" by="bob"',
            '00:20 task.started bob task/1/started/20000 hook task_id="1" subject="s" owner="eve" by="bob"',
        ],
    ],
}
