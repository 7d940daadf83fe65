"""From snapshots of teams to events, without any file."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from beam.agents.claude.history import TranscriptLine, read
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Usage
from beam.teams import model
from beam.teams.diff import CONFIG_GONE_NS, Diff
from beam.teams.model import HookCall, Mail, Member, Roster, Session, Task
from beam.teams.stuck import stuck
from tests.teams.teams_replay import RECORDINGS, lines

H, T = "/home", "session-1"
S = 1_000_000_000
LEAD = Member(name="team-lead", agent_id="team-lead@x", cwd="/p", joined_ns=S)
BOB = Member(name="bob", agent_id="bob@x", joined_ns=2 * S, colour="blue")


def roster(*members: Member) -> Roster:
    return Roster(name=T, created_ns=S, lead_id="team-lead@x", session_id="sid", members=(LEAD, *members))


def tags(found: list[Event]) -> list[str]:
    return [str(event.__struct_config__.tag) for event in found]


def started(*members: Member) -> Diff:
    diff = Diff()
    diff.config(H, T, roster(*members), S)
    diff.begin(S)
    return diff


def mail(number: int = 1, sender: str = "bob", **given: Any) -> Mail:
    return Mail(**{"id": f"id-{number}", "sender": sender, "text": f"text {number}", "sent_ns": 3 * S, **given})


def frame(number: int, **value: Any) -> Mail:
    text = json.dumps(value)
    return mail(number, text=text, kind=value["type"], frame=value)


def test_a_team_starts_with_its_members_once() -> None:
    diff = Diff()
    assert tags(diff.config(H, T, roster(BOB), S)) == ["team.started", "member.joined", "member.joined"]
    assert diff.config(H, T, roster(BOB), 2 * S) == []


def test_a_member_that_is_in_the_configuration_no_more_left() -> None:
    diff = started(BOB)
    assert tags(diff.config(H, T, roster(), 5 * S)) == ["member.left"]
    assert diff.config(H, T, roster(), 6 * S) == []


def test_a_member_that_was_missing_in_one_snapshot_is_there_again() -> None:
    diff = started(BOB)
    diff.config(H, T, roster(), 5 * S)
    diff.config(H, T, roster(BOB), 6 * S)
    (team,) = diff.teams.values()
    assert sorted(team.members.present) == ["bob", "team-lead"]


def test_a_member_that_left_is_not_brought_back_by_an_older_snapshot() -> None:
    diff = started(BOB)
    gone = frame(1, type="teammate_terminated", message="bob has shut down.")
    text = f'<teammate-message teammate_id="system">\n{gone.text}\n</teammate-message>'
    value = {"type": "user", "timestamp": "1970-01-01T00:00:05.000Z", "message": {"content": text}}
    line = read(json.dumps(value).encode())
    assert line is not None
    assert tags(diff.line(diff.teams[H, T], "team-lead", line)) == ["member.left"]
    assert diff.config(H, T, roster(BOB), 5 * S) == diff.config(H, T, roster(), 6 * S) == []
    again = Member(name="bob", agent_id="bob@x", joined_ns=9 * S)
    assert tags(diff.config(H, T, roster(again), 9 * S)) == ["member.joined"]


def test_another_member_of_the_same_name_is_another_member() -> None:
    diff = started(BOB)
    again = Member(name="bob", agent_id="bob@x", joined_ns=9 * S)
    assert tags(diff.config(H, T, roster(again), 9 * S)) == ["member.left", "member.joined"]


def test_a_message_is_sent_when_it_appears_and_delivered_when_it_vanishes() -> None:
    diff = started(BOB)
    assert tags(diff.inbox(H, T, "team-lead", [mail()], 3 * S)) == ["mail.sent"]
    assert diff.inbox(H, T, "team-lead", [mail()], 4 * S) == []
    (delivered,) = diff.inbox(H, T, "team-lead", [], 5 * S)
    assert isinstance(delivered, events.MailDelivered) and delivered.waited_s == 2.0


def test_februarys_messages_stay_in_the_inbox_and_are_delivered_when_they_are_read() -> None:
    diff = started(BOB)
    diff.inbox(H, T, "bob", [mail(is_read=False)], 3 * S)
    assert tags(diff.inbox(H, T, "bob", [mail(is_read=True)], 4 * S)) == ["mail.delivered", "member.working"]
    assert diff.inbox(H, T, "bob", [], 5 * S) == []


def test_what_lies_in_an_inbox_when_the_team_ends_is_lost() -> None:
    diff = started(BOB)
    diff.inbox(H, T, "ghost", [mail()], 3 * S)
    assert tags(diff.team_gone(H, T, 9 * S)) == ["mail.lost", "member.left", "member.left", "team.ended"]
    assert diff.team_gone(H, T, 10 * S) == []


def test_an_idle_notification_makes_a_member_idle_and_its_next_mail_makes_it_work() -> None:
    diff = started(BOB)
    work = {"completedTaskId": "3", "completedStatus": "blocked"}
    idle = frame(1, type="idle_notification", idleReason="failed", failureReason="boom", **work)
    found = diff.inbox(H, T, "team-lead", [idle], 3 * S)
    assert tags(found) == ["mail.sent", "member.idle"]
    assert isinstance(found[1], events.MemberIdle) and (found[1].reason, found[1].failure) == ("failed", "boom")
    assert (found[1].task_id, found[1].task_status) == ("3", "blocked")
    diff.inbox(H, T, "bob", [mail(2, "team-lead")], 4 * S)
    assert tags(diff.inbox(H, T, "bob", [], 5 * S)) == ["mail.delivered", "member.working"]


def test_requests_and_their_answers_are_reported_and_waited_for() -> None:
    diff = started(BOB)
    kinds = {
        "plan": ("plan_approval_request", "plan_approval_response", {"approved": True}, True),
        "shutdown": ("shutdown_request", "shutdown_rejected", {"reason": "busy"}, False),
        "permission": ("permission_request", "permission_response", {"subtype": "success"}, True),
    }
    for number, (what, (request, answer, fields, approved)) in enumerate(kinds.items()):
        name = "request_id" if what == "permission" else "requestId"
        asked = frame(10 + number, type=request, tool_name="Bash", **{name: what})
        found = diff.inbox(H, T, "team-lead", [asked], 3 * S)
        (first,) = [event for event in found if isinstance(event, events.MemberAsked)]
        assert (first.what, first.request_id) == (what, what)
        assert [wait.who for wait in stuck(diff.teams[H, T], 100 * S, longer_than_s=1) if "answer" in wait.what] == [
            "bob"
        ]
        found = diff.inbox(H, T, "bob", [frame(20 + number, type=answer, **{name: what}, **fields)], 4 * S)
        (said,) = [event for event in found if isinstance(event, events.MemberAnswered)]
        assert (said.what, said.approved) == (what, approved)
        assert not [wait for wait in stuck(diff.teams[H, T], 100 * S, longer_than_s=1) if "answer" in wait.what]


def test_a_host_that_a_sandbox_asks_for_is_named_and_allowed_or_not() -> None:
    diff = started(BOB)
    asked = frame(1, type="sandbox_permission_request", requestId="s", hostPattern={"host": "example.org"})
    (first,) = [e for e in diff.inbox(H, T, "team-lead", [asked], 3 * S) if isinstance(e, events.MemberAsked)]
    assert (first.what, first.text) == ("permission", "example.org")
    for number, allow in enumerate((True, False)):
        said = frame(2 + number, type="sandbox_permission_response", requestId=f"s{number}", allow=allow)
        found = diff.inbox(H, T, "bob", [said], 4 * S)
        assert [event.approved for event in found if isinstance(event, events.MemberAnswered)] == [allow]


def test_a_tasks_life_is_reported_step_by_step() -> None:
    diff = started(BOB)

    def step(**fields: Any) -> list[str]:
        return tags(diff.task(H, T, Task(**{"id": "1", "subject": "s", **fields}), 3 * S))

    assert step() == ["task.created"]
    assert step(owner="bob") == ["task.claimed"]
    assert step(owner="bob", status="in_progress") == ["task.started"]
    assert step(owner="bob", status="completed") == ["task.completed"]
    assert step(owner=None, status="pending") == ["task.reopened"]
    assert step(subject="t") == ["task.changed"]
    assert step(subject="t", status="deleted") == ["task.deleted"]


def test_of_a_task_that_was_there_only_its_last_change_has_a_time() -> None:
    diff = Diff()
    for number, fields in enumerate(({}, {"owner": "bob"}, {"owner": "bob", "status": "in_progress"})):
        found = diff.task(H, T, Task(id=str(number), subject="s", **fields), 3 * S)  # type: ignore[arg-type]
        assert tags(found) == [("task.created", "task.claimed", "task.started")[number]]
    done = Task(id="9", subject="s", owner="bob", status="completed")
    assert tags(diff.task(H, T, done, 3 * S)) == ["task.completed"]
    diff.begin(4 * S)
    assert tags(diff.task(H, T, Task(id="10", subject="s", owner="bob"), 5 * S)) == ["task.created", "task.claimed"]


def test_states_that_nobody_saw_are_merged_into_what_came_of_them() -> None:
    diff = started(BOB)
    done = Task(id="1", owner="bob", status="completed")
    assert tags(diff.task(H, T, done, 3 * S)) == ["task.created", "task.claimed", "task.completed"]


def test_a_task_is_unblocked_when_the_last_that_it_waits_for_is_done_or_gone() -> None:
    diff = started()
    for number in "12":
        diff.task(H, T, Task(id=number), 3 * S)
    diff.task(H, T, Task(id="3", blocked_by=("1", "2")), 3 * S)
    assert tags(diff.task(H, T, Task(id="1", status="completed"), 4 * S)) == ["task.completed"]
    assert tags(diff.task_gone(H, T, "2", 5 * S)) == ["task.deleted", "task.unblocked"]


def call(event: str, **given: Any) -> HookCall:
    return HookCall(at_ns=4 * S, event=event, session_id="sid", **given)


def update(number: int, to: str, **given: Any) -> HookCall:
    response = {"success": True, "taskId": "1", "updatedFields": ["status"], "statusChange": {"from": "x", "to": to}}
    return call(
        "PostToolUse", tool="TaskUpdate", call_id=f"c{number}", input={"taskId": "1"}, response=response, **given
    )


def test_a_change_that_files_and_a_record_tell_is_told_once_in_either_order() -> None:
    diff = started(BOB)
    diff.task(H, T, Task(id="1"), 3 * S)
    assert tags(diff.task(H, T, Task(id="1", status="in_progress"), 4 * S)) == ["task.started"]
    assert diff.hook(H, update(1, "in_progress")) == []
    assert tags(diff.hook(H, update(2, "completed")) or []) == ["task.completed"]
    assert diff.task(H, T, Task(id="1", status="completed"), 5 * S) == []


def test_a_change_that_no_file_showed_is_reported_by_its_record() -> None:
    diff = started(BOB)
    diff.task(H, T, Task(id="1"), 3 * S)
    assert tags(diff.task(H, T, Task(id="1", status="completed"), 5 * S)) == ["task.completed"]
    (found,) = diff.hook(H, update(1, "in_progress")) or []
    assert isinstance(found, events.TaskStarted) and found.by == "team-lead"
    assert diff.hook(H, update(1, "in_progress")) == []


def test_what_is_older_than_the_state_that_is_known_changes_nothing() -> None:
    diff = started(Member(name="bob", agent_id="bob@x", joined_ns=2 * S, backend="tmux", active=True))
    idle = Member(name="bob", agent_id="bob@x", joined_ns=2 * S, backend="tmux", active=False)
    assert tags(diff.config(H, T, roster(idle), 9 * S)) == ["member.idle"]
    members = diff.teams[H, T].members
    assert members.on_working("bob", 8 * S, "transcript", "a line that was written late") == []
    assert tags(members.on_working("bob", 10 * S, "transcript", "another turn")) == ["member.working"]


def test_the_end_of_a_turn_tells_what_it_used_and_which_model_has_no_price() -> None:
    diff = started(BOB)
    team = diff.teams[H, T]

    def said(model: str, number: int) -> list[Event]:
        usage = {"input_tokens": 1000, "output_tokens": 20, "cache_read_input_tokens": 10}
        message = {"id": f"r{number}", "model": model, "usage": usage, "stop_reason": "end_turn", "content": []}
        value = {"type": "assistant", "timestamp": "2026-11-21T00:00:00.000Z", "message": message}
        line = read(json.dumps(value).encode())
        assert line is not None
        return [event for event in diff.line(team, "bob", line) if isinstance(event, events.MemberUsed)]

    (used,) = said("claude-haiku-4-5", 1)
    assert isinstance(used, events.MemberUsed) and (used.agent, used.unpriced) == (f"bob@{T}", ())
    assert used.usage == Usage(input_tokens=1010, output_tokens=20, cached_tokens=10)
    assert used.cost_usd is not None and round(used.cost_usd, 6) == 0.001101
    (unknown,) = said("claude-next", 2)
    assert isinstance(unknown, events.MemberUsed)
    assert (unknown.cost_usd, unknown.unpriced) == (None, ("claude-next",))


def test_a_claim_that_no_file_showed_names_its_owner() -> None:
    diff = started(BOB)
    diff.task(H, T, Task(id="1", subject="s"), 3 * S)
    response = {"success": True, "taskId": "1", "updatedFields": ["owner"]}
    given = {"taskId": "1", "owner": "bob"}
    claimed = hook("PostToolUse", tool="TaskUpdate", call_id="c1", input=given, response=response)
    (event,) = diff.hook(H, claimed) or []
    assert isinstance(event, events.TaskClaimed) and event.owner == "bob"


def test_a_task_given_to_whom_it_was_given_before_is_no_second_claim() -> None:
    diff = started(BOB)
    diff.task(H, T, Task(id="1", subject="s"), 3 * S)
    diff.task(H, T, Task(id="1", subject="s", owner="bob"), 4 * S)
    response = {"success": True, "taskId": "1", "updatedFields": ["owner"]}
    calls = [
        hook(
            "PostToolUse", tool="TaskUpdate", call_id=f"c{n}", input={"taskId": "1", "owner": "bob"}, response=response
        )
        for n in range(3)
    ]
    assert [diff.hook(H, call) for call in calls[:2]] == [[], []]
    assert tags(diff.task(H, T, Task(id="1", subject="s"), 5 * S)) == ["task.reopened"]
    (claimed,) = diff.hook(H, calls[2]) or []
    assert isinstance(claimed, events.TaskClaimed)
    assert diff.task(H, T, Task(id="1", subject="s", owner="bob"), 6 * S) == []


def test_a_member_of_a_team_that_no_file_showed_joined_as_the_call_that_made_it_says() -> None:
    diff = started()
    response = {"status": "teammate_spawned", "name": "eve", "team_name": "session-2"}
    made = hook("PostToolUse", tool="Agent", call_id="c1", session_id="other", response=response)
    assert diff.hook(H, made) is None
    (event,) = diff.hook(H, made, may_guess=True) or []
    assert isinstance(event, events.MemberJoined) and (event.team, event.member) == ("session-2", "eve")


def test_a_call_of_a_session_whose_team_shows_only_its_tasks_is_that_teams_call() -> None:
    diff = Diff()
    diff.begin(S)
    diff.task(H, "session-c7b5231e", Task(id="1", subject="parser"), 2 * S)
    response = {"task": {"id": "3", "subject": "junk"}}
    given = {"subject": "junk"}
    made = hook("PostToolUse", tool="TaskCreate", session_id="c7b5231e-1", input=given, response=response, call_id="c")
    assert diff.hook(H, made) is None
    (event,) = diff.hook(H, made, may_guess=True) or []
    assert isinstance(event, events.TaskCreated) and (event.team, event.task_id) == ("session-c7b5231e", "3")
    other = hook("PostToolUse", tool="TaskCreate", session_id="00000000-1", input=given, response=response, call_id="d")
    assert diff.hook(H, other, may_guess=True) is None


def hook(event: str, **given: Any) -> HookCall:
    return HookCall(**{"at_ns": 9 * S, "event": event, "session_id": "sid", **given})


def test_a_send_that_reached_no_inbox_is_lost_and_says_why() -> None:
    diff = started(BOB)
    routing = {"sender": "team-lead", "target": "@bob", "content": "hi"}
    silent = {"success": True, "message": "Message sent to bob's inbox", "routing": routing}
    refused = {"success": False, "message": "No teammate named 'ghost'"}
    for number, response in enumerate((silent, refused)):
        made = call("PostToolUse", tool="SendMessage", call_id=f"c{number}", input={"to": "ghost"}, response=response)
        (lost,) = diff.hook(H, made) or []
        assert isinstance(lost, events.MailLost)
        assert lost.to == ("bob", "ghost")[number] and ("locked", "No teammate")[number] in lost.why


def in_a_pane(number: int = 1) -> HookCall:
    """bob's own hook, in a session of his own that nothing told of: he wrote to the lead."""
    routing = {"sender": "bob", "target": "@team-lead", "content": f"text {number}"}
    response = {"success": True, "routing": routing, "msg_id": f"id-{number}"}
    given = {"to": "team-lead", "message": f"text {number}"}
    return hook(
        "PostToolUse",
        tool="SendMessage",
        session_id="panes-own",
        call_id=f"s{number}",
        input=given,
        response=response,
    )


def test_a_mail_of_a_teammate_in_a_pane_is_told_once_though_its_hooks_have_a_session_of_their_own() -> None:
    diff = started(BOB)
    assert tags(diff.inbox(H, T, "team-lead", [mail()], 3 * S)) == ["mail.sent"]
    assert diff.hook(H, in_a_pane()) is None  # a team of its own may come yet
    assert diff.hook(H, in_a_pane(), may_guess=True) == []
    assert list(diff.teams) == [(H, T)]


def test_a_mail_that_only_a_hook_of_a_pane_saw_is_of_the_team_that_both_are_in() -> None:
    diff = started(BOB)
    (sent,) = diff.hook(H, in_a_pane(), may_guess=True) or []
    assert isinstance(sent, events.MailSent) and (sent.team, sent.to) == (T, "team-lead")
    assert diff.inbox(H, T, "team-lead", [mail()], 5 * S) == []


def test_a_mail_that_was_taken_for_another_teams_is_not_reported_again() -> None:
    diff = Diff()
    (sent,) = diff.hook(H, in_a_pane(), may_guess=True) or []
    assert isinstance(sent, events.MailSent) and sent.team == "session-panes-ow"
    diff.config(H, T, roster(BOB), S)
    assert diff.inbox(H, T, "team-lead", [mail()], 5 * S) == []
    assert tags(diff.inbox(H, T, "team-lead", [], 6 * S)) == ["mail.delivered"]


def test_a_permission_that_a_hook_saw_asked_is_answered_when_the_tool_runs() -> None:
    diff = started(BOB)
    asked = diff.hook(H, call("PermissionRequest", tool="Bash", member="bob", agent_id="abob", input={"command": "ls"}))
    assert tags(asked or []) == ["member.asked"]
    assert tags(diff.hook(H, call("PostToolUseFailure", tool="Bash", member="bob", agent_id="abob")) or []) == [
        "member.answered"
    ]


def test_a_lead_that_goes_on_after_its_team_ended_says_nothing_of_that_team() -> None:
    diff = started(BOB)
    diff.team_gone(H, T, 5 * S)
    response = {"task": {"id": "1", "subject": "after resume"}}
    assert diff.hook(H, hook("PostToolUse", tool="TaskCreate", call_id="c1", response=response)) is None


def test_a_hook_of_no_known_team_belongs_to_nobody_yet() -> None:
    assert Diff().hook(H, call("TeammateIdle", team="session-9", member="bob")) is None


def test_the_lead_is_found_by_its_session_and_after_a_resume_by_place_and_time() -> None:
    diff = started()
    team = diff.teams[H, T]
    diff.session(H, Session(pid=1, start=1, session_id="other", cwd="/p", started_ns=S))
    found = diff.lead_of(team)
    assert found is not None and found.pid == 1
    diff.session(H, Session(pid=2, start=1, session_id="sid", cwd="/elsewhere"))
    found = diff.lead_of(team)
    assert found is not None and found.pid == 2


def test_a_team_with_the_name_of_one_that_ended_has_a_lead_of_its_own() -> None:
    diff = started()
    team = diff.teams[H, T]
    before, now = (Session(pid=pid, start=1, session_id=sid) for pid, sid in ((1, "sid"), (2, "sid-2")))
    diff.session(H, before)
    diff.lead_lives(team, before)
    diff.team_gone(H, T, 5 * S)
    diff.session(H, now)
    diff.config(H, T, msgspec.structs.replace(roster(), created_ns=6 * S, session_id="sid-2"), 6 * S)
    assert (team.session_id, team.lead_pid, diff.lead_of(team)) == ("sid-2", None, now)


def test_a_dead_lead_makes_a_stale_team_and_orphans() -> None:
    apart = Member(name="erry", agent_id="erry@x", backend="tmux", pane="%1", joined_ns=3 * S)
    diff = started(BOB, apart)
    team = diff.teams[H, T]
    diff.lead_lives(team, Session(pid=7, start=1, session_id="sid"))
    found = diff.lead_died(team, 9 * S, orphans={"erry": 99})
    assert tags(found) == ["team.stale", "member.left", "member.orphaned"]
    assert isinstance(found[0], events.TeamStale) and found[0].pid == 7
    assert diff.lead_died(team, 10 * S, orphans={}) == []


def test_a_vanished_configuration_is_no_end_while_the_lead_lives() -> None:
    diff = started(BOB)
    team = diff.teams[H, T]
    diff.lead_lives(team, Session(pid=7, start=1, session_id="sid"))
    diff.config_gone(H, T, 5 * S)
    assert diff.tick(team, 5 * S + 1) == []
    assert tags(diff.tick(team, 5 * S + CONFIG_GONE_NS)) == ["notice"]
    assert diff.tick(team, 9 * S) == []
    assert diff.config(H, T, roster(BOB), 10 * S) == []
    assert list(team.members.present) == ["team-lead", "bob"]


@pytest.mark.slow
def test_the_transcripts_alone_tell_of_every_message() -> None:
    diff = Diff()
    team = diff.team(H, "session-x")
    diff.begin(S)
    ids, found = set(), list[Event]()
    appended: list[tuple[str, str, TranscriptLine]] = []
    for line in lines(RECORDINGS / "in-process" / "versions.jsonl"):
        if line["op"] == "write" and "/inboxes/" in line["path"]:
            ids |= {one.id for one in model.inbox(line["content"].encode()) or ()}
        if line["op"] == "append":
            name = next((one for one in ("alice", "bob") if f"-a{one}-" in line["path"]), "team-lead")
            for raw in line["content"].encode().split(b"\n"):
                said = read(raw)
                if said is not None:
                    appended.append((said.at, name, said))
    for _, name, said in sorted(appended, key=lambda one: one[0]):
        found += diff.line(team, name, said)
    sent = [event for event in found if isinstance(event, events.MailSent)]
    assert len(sent) == len(ids)
    assert len({(one.sender, one.to, one.text, one.ts) for one in sent}) == len(sent)


def test_a_deaf_and_a_late_source_change_nothing_twice() -> None:
    diff = started(BOB)
    team = diff.teams[H, T]
    said = diff.inbox(H, T, "bob", [mail(1, "team-lead")], 3 * S)
    said += diff.inbox(H, T, "bob", [], 4 * S)
    text = '<teammate-message teammate_id="team-lead">\ntext 1\n</teammate-message>'
    late = json.dumps({"type": "user", "timestamp": "1970-01-01T00:00:05.000Z", "message": {"content": text}})
    for _ in range(2):
        line = read(late.encode())
        assert line is not None
        said += diff.line(team, "bob", line)
    assert tags(said).count("mail.sent") == 1 and tags(said).count("mail.delivered") == 1
