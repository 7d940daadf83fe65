"""The complete events of a team's members, from configurations, messages of the team's protocol, and hooks."""

from __future__ import annotations

from typing import Any

import pytest

from beam.teams.model import Member, Session, Task
from tests.teams.teams_told import BOB, LEAD, H, S, T, frame, hook, line, roster, started, tags, told


def test_a_member_in_a_pane_works_and_waits_as_its_configuration_says() -> None:
    diff, team = started(BOB)

    def seen(active: bool | None, at: int) -> Any:
        return told(diff.config(H, T, roster(LEAD, Member(name="bob", joined_ns=2 * S, active=active)), at * S))

    assert seen(True, 3) == ['00:03 member.working bob working/bob/3000 files member="bob" why="its pane"']
    assert seen(True, 4) == []
    assert seen(False, 5) == ['00:05 member.idle bob idle/bob/5000 files member="bob"']
    assert seen(None, 6) == []
    assert (team.members.states["bob"].since_ns, team.members.states["bob"].said_ns) == (5 * S, 0)


def test_a_member_that_another_replaces_leaves_first() -> None:
    diff, _ = started(BOB)
    assert told(diff.config(H, T, roster(LEAD, Member(name="bob", joined_ns=9 * S)), 9 * S)) == [
        '00:09 member.left bob left/bob/2000 files member="bob" reason="another took its name"',
        '00:09 member.joined bob joined/bob/9000 files member="bob"',
    ]
    assert told(diff.config(H, T, roster(LEAD), 10 * S)) == ['00:10 member.left bob left/bob/9000 files member="bob"']


def test_one_change_that_two_sources_see_in_the_same_millisecond_is_told_once() -> None:
    _, team = started(BOB)
    members = team.members
    ms = 1_000_000
    assert tags(members.on_working("bob", 3 * S + 800_000, "hook", "a turn")) == ["member.working"]
    assert tags(members.on_idle("bob", 3 * S + 2 * ms, "hook")) == ["member.idle"]
    assert members.on_working("bob", 3 * S + 600_000, "files", "mail", is_said=False) == []
    assert members.states["bob"].activity == "idle"
    assert tags(members.on_working("bob", 3 * S + 3 * ms, "files", "mail", is_said=False)) == ["member.working"]


def test_what_a_member_says_later_counts_and_what_is_older_does_not() -> None:
    _, team = started(BOB)
    members = team.members
    assert members.on_working("", 3 * S, "hook", "why") == []
    assert told(members.on_working("bob", 3 * S, "hook", "why")) == [
        '00:03 member.working bob working/bob/3000 hook member="bob" why="why"'
    ]
    assert members.on_working("bob", 5 * S, "hook", "why") == []
    assert members.on_idle("bob", 4 * S, "hook") == []
    assert told(members.on_idle("bob", 5 * S, "hook", summary="done")) == [
        '00:05 member.idle bob idle/bob/5000 hook member="bob" summary="done"'
    ]
    assert members.states["bob"].summary == "done"
    members.assume_activity("bob", "working", 7 * S, 8 * S)
    assert members.states["bob"].activity == "idle"
    members.assume_activity("eve", "", 7 * S, 8 * S)
    assert "eve" not in members.states
    members.assume_activity("eve", "working", 7 * S, 8 * S)
    assert (members.states["eve"].since_ns, members.states["eve"].said_ns) == (7 * S, 8 * S)
    assert members.on_idle("eve", 7 * S + 1, "hook") == []


_FRAMES: dict[str, dict[str, Any]] = {
    "idle": {"type": "idle_notification"},
    "idle, and why": {
        "type": "idle_notification",
        "idleReason": "failed",
        "summary": "all of it",
        "failureReason": "boom",
        "completedTaskId": "3",
        "completedStatus": "blocked",
    },
    "gone": {"type": "teammate_terminated", "message": "bob has shut down."},
    "a plan": {"type": "plan_approval_request", "requestId": "r", "planContent": "the plan", "description": "other"},
    "an end": {"type": "shutdown_request", "request_id": "r", "reason": "we are done"},
    "a permission": {
        "type": "permission_request",
        "tool_name": "Bash",
        "description": "list",
        "input": {"command": "ls"},
        "requestId": "r",
    },
    "a host": {"type": "sandbox_permission_request", "requestId": "r", "hostPattern": {"host": "example.org"}},
    "a plan approved": {"type": "plan_approval_response", "requestId": "r", "approved": True, "feedback": "good"},
    "a plan not approved": {"type": "plan_approval_response", "requestId": "r", "approved": "yes", "reason": "no"},
    "an end approved": {"type": "shutdown_approved", "request_id": "r"},
    "an end refused": {"type": "shutdown_rejected", "requestId": "r", "reason": "busy"},
    "a permission given": {"type": "permission_response", "request_id": "r", "subtype": "success"},
    "a permission refused": {"type": "permission_response", "request_id": "r", "subtype": "error", "error": "never"},
    "a host allowed": {"type": "sandbox_permission_response", "requestId": "r", "allow": True},
    "anything else": {"type": "task_assignment", "subject": "nothing more"},
}


@pytest.mark.parametrize("name", _FRAMES)
def test_a_message_of_the_teams_own_protocol_is_reported_for_what_it_says(name: str) -> None:
    diff, _ = started(BOB)
    found = diff.inbox(H, T, "team-lead", [frame(1, **_FRAMES[name])], 4 * S)
    assert tags(found[:1]) == ["mail.sent"]
    assert told(found[1:]) == _SAID[name]
    assert tags(diff.inbox(H, T, "team-lead", [frame(2, **_FRAMES[name])], 4 * S)[1:]) == ["mail.delivered"]


_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "a member is idle": ("TeammateIdle", {"member": "bob"}),
    "a member begins": ("SubagentStart", {"member": "bob"}),
    "a stranger begins": ("SubagentStart", {"member": "stranger"}),
    "the lead begins": ("SubagentStart", {}),
    "a member stops": ("Stop", {"member": "bob"}),
    "a member wants to": ("PermissionRequest", {"member": "bob", "tool": "Bash", "input": {"command": "ls"}}),
    "the lead wants to, and why": (
        "PermissionRequest",
        {"tool": "Bash", "input": {"command": "ls", "description": "lists"}},
    ),
    "a tool of no team": ("PostToolUse", {"tool": "Bash", "call_id": "c"}),
    "a member is made": (
        "PostToolUse",
        {
            "member": "bob",
            "tool": "Agent",
            "call_id": "c",
            "response": {"status": "teammate_spawned", "name": "eve", "prompt": "go"},
        },
    ),
    "a member is made that is there": (
        "PostToolUse",
        {"tool": "Agent", "call_id": "c", "response": {"status": "teammate_spawned", "name": "bob"}},
    ),
    "a task is done": (
        "PostToolUse",
        {
            "tool": "TaskUpdate",
            "call_id": "c",
            "response": {"success": True, "taskId": "1", "statusChange": {"to": "completed"}},
        },
    ),
    "a message is refused": (
        "PostToolUse",
        {
            "member": "bob",
            "tool": "SendMessage",
            "call_id": "c",
            "input": {"to": "ann", "message": "hi"},
            "response": {"success": False},
        },
    ),
}


@pytest.mark.parametrize("name", _CALLS)
def test_a_hooks_call_is_reported_for_what_it_proves(name: str) -> None:
    diff, _ = started(BOB)
    diff.task(H, T, Task(id="1", subject="s", owner="bob"), 3 * S)
    event, given = _CALLS[name]
    found = diff.hook(H, hook(event, **given))
    assert found is not None
    assert told(found) == _CALLED[name]


def test_a_permission_that_was_asked_for_is_answered_by_the_call_of_that_member_with_that_tool() -> None:
    diff, team = started(BOB)
    diff.hook(H, hook("PermissionRequest", member="bob", tool="Bash", input={"command": "ls"}))
    assert diff.hook(H, hook("PostToolUse", member="bob", tool="Edit", call_id="a", at_ns=5 * S)) == []
    assert diff.hook(H, hook("PostToolUse", tool="Bash", call_id="b", at_ns=5 * S)) == []
    assert told(diff.hook(H, hook("PostToolUse", member="bob", tool="Bash", call_id="c", at_ns=5 * S)) or []) == [
        (
            '00:05 member.answered team-lead answered/bob-Bash-4000 hook what="permission" '
            'request_id="bob-Bash-4000" from="team-lead" approved=true'
        )
    ]
    assert team.members.asks == {}


def test_a_tool_that_failed_was_permitted_too_and_a_strangers_start_is_no_turn() -> None:
    diff, team = started(BOB)
    diff.hook(H, hook("PermissionRequest", member="bob", tool="Bash", input={"command": "ls"}))
    assert tags(diff.hook(H, hook("PostToolUseFailure", member="bob", tool="Bash", at_ns=5 * S)) or []) == [
        "member.answered"
    ]
    assert diff.hook(H, hook("SubagentStart", member="stranger")) == []
    assert list(team.members.states) == []


def test_what_a_member_that_left_had_asked_for_is_asked_no_more() -> None:
    diff, team = started(BOB)
    asked = [
        frame(number, sender=sender, type="permission_request", requestId=sender)
        for number, sender in enumerate(("bob", "ann"))
    ]
    diff.inbox(H, T, "team-lead", asked, 3 * S)
    team.members.on_working("bob", 3 * S, "hook", "why")
    team.members.on_left("bob", 4 * S, "gone", "files")
    assert (list(team.members.asks), list(team.members.states)) == (["ann"], [])
    team.members.on_left("team-lead", 4 * S, "gone", "files")
    assert team.members.asks == {}


def test_a_session_that_its_transcript_or_the_register_told_of_speaks_for_its_member() -> None:
    diff, team = started(BOB)
    found = line(3, "user", sessionId="own", agentName="bob", teamName=T)
    assert tags(diff.line(team, "bob", found)) == ["member.working"]
    idle = hook("TeammateIdle", session_id="own", at_ns=5 * S)
    assert told(diff.hook(H, idle) or []) == ['00:05 member.idle bob idle/bob/5000 hook member="bob"']
    assert diff.hook(H, hook("TeammateIdle", session_id="new")) is None
    diff.lead_lives(team, Session(pid=7, start=1, session_id="new"))
    assert told(diff.hook(H, hook("TeammateIdle", session_id="new")) or []) == [
        '00:04 member.idle team-lead idle/team-lead/4000 hook member="team-lead"'
    ]


_CALLED = {
    "a member is idle": ['00:04 member.idle bob idle/bob/4000 hook member="bob"'],
    "a member begins": ['00:04 member.working bob working/bob/4000 hook member="bob" why="a turn"'],
    "a stranger begins": [],
    "the lead begins": ['00:04 member.working team-lead working/team-lead/4000 hook member="team-lead" why="a turn"'],
    "a member stops": [],
    "a member wants to": [
        (
            '00:04 member.asked bob asked/bob-Bash-4000 hook what="permission" request_id="bob-Bash-4000" '
            'from="bob" to="team-lead" text="ls" tool="Bash" input={"command": "ls"}'
        )
    ],
    "the lead wants to, and why": [
        (
            '00:04 member.asked team-lead asked/team-lead-Bash-4000 hook what="permission" '
            'request_id="team-lead-Bash-4000" from="team-lead" to="team-lead" text="lists" tool="Bash" '
            'input={"command": "ls", "description": "lists"}'
        )
    ],
    "a tool of no team": [],
    "a member is made": ['00:04 member.joined eve joined/eve/4000 hook member="eve" backend="in-process" prompt="go"'],
    "a member is made that is there": [],
    "a task is done": [
        '00:04 task.completed team-lead task/1/completed/4000 hook task_id="1" subject="s" owner="bob" by="team-lead"'
    ],
    "a message is refused": [
        '00:04 mail.lost bob lost/ann/c hook mail_id="" from="bob" to="ann" why="it was refused" text="hi"'
    ],
}


_SAID = {
    "idle": ['00:03 member.idle bob idle/bob/3000 files member="bob"'],
    "idle, and why": [
        (
            '00:03 member.idle bob idle/bob/3000 files member="bob" reason="failed" summary="all of it" '
            'failure="boom" task_id="3" task_status="blocked"'
        )
    ],
    "gone": ['00:03 member.left bob left/bob/2000 files member="bob" reason="bob has shut down."'],
    "a plan": [
        '00:03 member.asked bob asked/r files what="plan" request_id="r" from="bob" to="team-lead" text="the plan"'
    ],
    "an end": [
        (
            '00:03 member.asked bob asked/r files what="shutdown" request_id="r" from="bob" to="team-lead" '
            'text="we are done"'
        )
    ],
    "a permission": [
        (
            '00:03 member.asked bob asked/r files what="permission" request_id="r" from="bob" to="team-lead" '
            'text="list" tool="Bash" input={"command": "ls"}'
        )
    ],
    "a host": [
        (
            '00:03 member.asked bob asked/r files what="permission" request_id="r" from="bob" to="team-lead" '
            'text="example.org"'
        )
    ],
    "a plan approved": [
        '00:03 member.answered bob answered/r files what="plan" request_id="r" from="bob" approved=true text="good"'
    ],
    "a plan not approved": [
        '00:03 member.answered bob answered/r files what="plan" request_id="r" from="bob" approved=false text="no"'
    ],
    "an end approved": [
        '00:03 member.answered bob answered/r files what="shutdown" request_id="r" from="bob" approved=true'
    ],
    "an end refused": [
        (
            '00:03 member.answered bob answered/r files what="shutdown" request_id="r" from="bob" approved=false '
            'text="busy"'
        )
    ],
    "a permission given": [
        '00:03 member.answered bob answered/r files what="permission" request_id="r" from="bob" approved=true'
    ],
    "a permission refused": [
        (
            '00:03 member.answered bob answered/r files what="permission" request_id="r" from="bob" '
            'approved=false text="never"'
        )
    ],
    "a host allowed": [
        '00:03 member.answered bob answered/r files what="permission" request_id="r" from="bob" approved=true'
    ],
    "anything else": [],
}
