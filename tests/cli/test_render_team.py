"""Team events as people read them."""

from __future__ import annotations

import io
import time
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from beam.base import clock
from beam.cli.render.days import Days
from beam.cli.render.stream import Stream
from beam.cli.render.team import (
    ASCII_MARKS,
    has_own_event,
    print_mail,
    print_tasks,
    print_team,
    print_teams,
    print_waits,
    state_lines,
    task_line,
    team_event_text,
    usage_text,
)
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Usage
from beam.teams.board import MailLine, MemberLine, TaskLine, TeamLine, TeamShown
from beam.teams.model import Task
from beam.teams.stuck import Wait

OF_TEAM = [cls for tag, cls in events.types().items() if tag.partition(".")[0] in ("team", "member", "task", "mail")]
FIELDS: dict[str, Any] = {
    "team": "session-1",
    "ts": "2026-11-21T22:30:14.000000Z",
    "agent": "bob@session-1",
    "member": "bob",
    "what": "plan",
    "request_id": "r",
    "sender": "bob",
    "approved": True,
    "task_id": "1",
    "mail_id": "m",
    "to": "amy",
    "text": "hello \x1b[31mred\x07",
    "subject": "\x1b]0;owned\x07parser",
    "prompt": "\x9b31m",
    "reason": "\x1b[2J",
    "waited_s": 90.0,
    "usage": Usage(input_tokens=1),
    "unpriced": ("\x1b[2Jmodel",),
}


def made(cls: type[Event]) -> Any:
    return cls(**{name: FIELDS[name] for name in cls.__struct_fields__ if name in FIELDS})


@pytest.mark.parametrize("cls", OF_TEAM, ids=lambda cls: cls.__struct_config__.tag)
def test_every_event_of_a_team_is_one_line_in_which_no_escape_sequence_works(cls: type[Event]) -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(SINCE))
    stream.event(made(cls))
    line = out.getvalue()
    assert line.count("\n") == 1 and "bob@1" in line
    assert not [char for char in line if char != "\n" and (char < " " or "\x7f" <= char <= "\x9f")]


@pytest.mark.parametrize("cls", OF_TEAM, ids=lambda cls: cls.__struct_config__.tag)
def test_plain_marks_are_ascii(cls: type[Event]) -> None:
    said = team_event_text(made(cls))
    assert said is not None and said[0].translate(ASCII_MARKS).isascii()


def test_mail_of_the_teams_own_protocol_is_reported_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {
        "task_assignment": '{"taskId": "1", "subject": "Write parser", "type": "task_assignment"}',
        "idle_notification": '{"idleReason": "available", "summary": "[to bob] ready"}',
        "shutdown_approved": '{"type": "shutdown_approved"}',
        "message": '{"reason": "x"}',
    }
    at = "2026-11-21T22:30:14.000000Z"
    head = {"team": "t", "mail_id": "m", "at": at, "sender": "a", "to": "b", "summary": "", "state": "sent"}
    print_mail(
        [MailLine(**head, kind=kind, text=text, thread="a · b") for kind, text in texts.items()], by_thread=False
    )
    assert [line.partition(" (sent) ")[2].rstrip() for line in capsys.readouterr().out.splitlines()[1:]] == [
        "[task_assignment] #1 Write parser",
        "[idle_notification] [to bob] ready",
        "[shutdown_approved]",
        '{"reason": "x"}',
    ]


def test_mail_of_a_kind_that_no_other_event_tells_is_shown_and_of_an_unknown_one_all_that_it_carries() -> None:
    head = {"team": "t", "mail_id": "m", "sender": "a", "to": "b"}
    texts = {
        "mode_set_request": ('{"type": "mode_set_request", "mode": "plan", "from": "a"}', '{"mode":"plan"}'),
        "brand_new": ('{"type": "brand_new", "x": [1]}', '{"x":[1]}'),
        "team_permission_update": ('{"type": "team_permission_update", "description": "all may"}', "all may"),
    }
    for kind, (text, words) in texts.items():
        assert team_event_text(events.MailSent(**head, kind=kind, text=text)) == ("→", f"b: [{kind}] {words}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"type": "plan_approval_response", "approved": true, "permissionMode": "default"}', "yes"),
        ('{"type": "plan_approval_response", "approved": false, "feedback": "too long"}', "no too long"),
        ('{"type": "permission_response", "request_id": "p", "subtype": "error", "error": "denied"}', "no denied"),
        ('{"type": "sandbox_permission_response", "requestId": "s", "host": "x.org", "allow": true}', "yes"),
    ],
)
def test_an_answer_among_the_mail_says_yes_or_no(capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    head = {"team": "t", "mail_id": "m", "at": FIELDS["ts"], "sender": "a", "to": "b", "summary": "", "state": "sent"}
    print_mail([MailLine(**head, kind="answer", text=text, thread="a · b")], by_thread=False)
    assert capsys.readouterr().out.endswith(f"[answer] {words}\n")


def test_lost_mail_is_reported_in_words_too() -> None:
    frame = '{"type": "task_assignment", "taskId": "1", "subject": "Write parser"}'
    for text, words in ((frame, "[task_assignment] #1 Write parser"), ("hello", "hello"), ('{"x": 1}', '{"x": 1}')):
        lost = events.MailLost(team="t", mail_id="m", sender="a", to="b", why="its inbox was deleted", text=text)
        assert team_event_text(lost) == ("†", f"mail to b lost: its inbox was deleted: {words}")


def test_protocol_mail_and_quick_deliveries_are_not_for_people() -> None:
    assert team_event_text(events.MailSent(team="t", mail_id="m", sender="a", to="b", kind="idle_notification")) is None
    assert team_event_text(events.MailDelivered(team="t", mail_id="m", sender="a", to="b", waited_s=1.0)) is None


def test_a_members_calls_of_the_teams_tools_are_reported_by_what_came_of_them() -> None:
    out = io.StringIO()
    stream = Stream(out, as_json=False, days=Days(SINCE))
    stream.event(events.ToolCalled(call_id="1", name="SendMessage", agent="bob@t"))
    stream.event(events.ToolReturned(call_id="1", output="ok", agent="bob@t"))
    assert out.getvalue() == ""
    stream.event(events.ToolCalled(call_id="2", name="SendMessage", agent="bob"))
    stream.end()
    assert "SendMessage" in out.getvalue()


def test_a_wait_is_a_row_with_who_waits_for_whom(capsys: pytest.CaptureFixture[str]) -> None:
    since = "2026-11-21T22:30:14.000000Z"
    print_waits(
        [
            Wait(team="t", who="bob", on="eve", what="an answer", since=since, seconds=700),
            Wait(team="t", who="", on="", what="task #3", since=since, seconds=700),
        ]
    )
    out = capsys.readouterr().out
    assert "bob" in out and "waits for eve" in out and "an answer" in out
    assert "anyone" in out and "task #3" in out


HEAD: dict[str, Any] = {"team": "t", "agent": "bob@t"}
MEMBER: dict[str, Any] = {**HEAD, "member": "bob"}
TASK: dict[str, Any] = {**HEAD, "task_id": "3", "subject": "Write parser"}
MAIL: dict[str, Any] = {**HEAD, "mail_id": "m", "sender": "ann", "to": "bob"}


@pytest.mark.parametrize(
    ("event", "sign", "words"),
    [
        (events.TeamStarted(**HEAD, cwd="/p"), "●", "team t started in /p"),
        (events.TeamStarted(**HEAD), "●", "team t started"),
        (events.TeamEnded(**HEAD, reason="its lead left"), "○", "team ended: its lead left"),
        (events.TeamStale(**HEAD, reason="no lead"), "!", "team is stale: no lead"),
        (
            *(events.MemberJoined(**MEMBER, kind="writer", model="opus", backend="tmux", prompt="go"), "+"),
            "joined (writer, opus, tmux) go",
        ),
        (events.MemberJoined(**MEMBER, backend="tmux"), "+", "joined (tmux) "),
        *((events.MemberWorking(**MEMBER, why=why), "▶", "works") for why in ("", "transcript", "its pane", "a turn")),
        (events.MemberWorking(**MEMBER, why="busy"), "▶", "works"),
        (events.MemberWorking(**MEMBER, why="a hook"), "▶", "works (a hook)"),
        (events.MemberIdle(**MEMBER), "■", "idle"),
        (events.MemberIdle(**MEMBER, summary="done"), "■", "idle done"),
        (events.MemberIdle(**MEMBER, reason="failed", failure="no key"), "■", "idle (failed) no key"),
        (events.MemberIdle(**MEMBER, task_id="3"), "■", "idle"),
        (events.MemberIdle(**MEMBER, task_status="failed"), "■", "idle"),
        (events.MemberIdle(**MEMBER, task_id="3", task_status="failed"), "■", "idle (task 3 failed)"),
        (
            *(events.MemberUsed(**MEMBER, usage=Usage(input_tokens=1), cost_usd=0.5), "·"),
            "used 1 tokens, $0.5000",
        ),
        (events.MemberLeft(**MEMBER, reason="shut down"), "-", "left: shut down"),
        (events.MemberLeft(**MEMBER), "-", "left"),
        (events.MemberOrphaned(**MEMBER, pid=7), "!", "orphaned: its lead is gone and it runs on (pid 7)"),
        (events.MemberOrphaned(**MEMBER), "!", "orphaned: its lead is gone and it runs on"),
        (
            events.MemberAsked(
                **HEAD, what="permission", request_id="r", sender="bob", to="ann", text="ls", tool="Bash"
            ),
            *("?", "asks ann (permission) to use Bash: ls"),
        ),
        (
            events.MemberAsked(**HEAD, what="plan", request_id="r", sender="bob", to="ann", text="first"),
            *("?", "asks ann (plan): first"),
        ),
        (
            *(events.MemberAnswered(**HEAD, what="plan", request_id="r", sender="ann", approved=True), "·"),
            "says yes (plan)",
        ),
        (
            events.MemberAnswered(**HEAD, what="plan", request_id="r", sender="ann", approved=False, text="too long"),
            *("·", "says no (plan) too long"),
        ),
        (events.MailSent(**MAIL, text="hello you", summary="hello…"), "→", "bob: hello you"),
        (events.MailSent(**MAIL, text="hello you", summary="greeting"), "→", "bob: greeting: hello you"),
        (events.MailSent(**MAIL, text="hello you"), "→", "bob: hello you"),
        (events.MailLost(**MAIL, why="no inbox"), "†", "mail to bob lost: no inbox"),
        (events.MailDelivered(**MAIL, waited_s=60.0), "✉", "took the mail of ann after 1m00s"),
        (events.TaskCreated(**TASK), "☐", "#3 Write parser"),
        (events.TaskCreated(**TASK, blocked_by=("1", "2")), "☐", "#3 Write parser (after #1 #2)"),
        (events.TaskClaimed(**TASK, owner="bob"), "☐", "#3 is bob's: Write parser"),
        (events.TaskStarted(**TASK), "◧", "#3 started: Write parser"),
        (events.TaskCompleted(**TASK), "☑", "#3 done: Write parser"),
        (events.TaskReopened(**TASK), "☐", "#3 open again: Write parser"),
        (events.TaskDeleted(**TASK), "☒", "#3 deleted: Write parser"),
        (events.TaskUnblocked(**TASK, blocker="1"), "☐", "#3 waits no more, #1 is done: Write parser"),
        (
            *(events.TaskChanged(**TASK, fields=("blockedBy",), blocked_by=("1", "2")), "☐"),
            "#3 comes after #1 #2: Write parser",
        ),
        (events.TaskChanged(**TASK, fields=("blockedBy",)), "☐", "#3 comes after nothing: Write parser"),
        (
            *(events.TaskChanged(**TASK, fields=("subject", "blockedBy"), blocked_by=("1",)), "☐"),
            "#3 subject, blockedBy changed: Write parser",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Event) else value if len(value) > 1 else "",
)
def test_what_happens_in_a_team_has_a_sign_and_words(event: Any, sign: str, words: str) -> None:
    assert team_event_text(event) == (sign, words)


@pytest.mark.parametrize("waited_s", [None, 59.9])
def test_mail_that_is_taken_within_a_minute_is_no_news(waited_s: float | None) -> None:
    assert team_event_text(events.MailDelivered(**MAIL, waited_s=waited_s)) is None


FRAMES = [
    "idle_notification",
    "permission_request",
    "permission_response",
    "plan_approval_request",
    "plan_approval_response",
    "sandbox_permission_request",
    "sandbox_permission_response",
    "shutdown_approved",
    "shutdown_rejected",
    "shutdown_request",
    "task_assignment",
    "task_completed",
    "teammate_terminated",
]


@pytest.mark.parametrize("kind", FRAMES)
def test_mail_that_an_event_of_its_own_tells_is_not_reported_twice(kind: str) -> None:
    assert team_event_text(events.MailSent(**MAIL, kind=kind, text="{}")) is None


@pytest.mark.parametrize("key", ["subject", "summary", "reason", "planContent", "description", "feedback", "message"])
def test_a_frame_is_reported_by_its_first_text(key: str) -> None:
    frame = {"type": "new", "idleReason": "later", "error": "last", key: "this"}
    sent = events.MailSent(**MAIL, kind="new", text=msgspec.json.encode(frame).decode())
    assert team_event_text(sent) == ("→", "bob: [new] this")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"error": "late"}, "late"),
        ({"idleReason": "quiet", "error": "late"}, "quiet"),
        ({"taskId": "3", "approved": True, "reason": "good"}, "#3 yes good"),
        ({"taskId": 3, "x": 1}, '{"taskId":3,"x":1}'),
        ({"approved": "yes", "allow": False}, "no"),
        ({"subtype": "success", "approved": False}, "yes"),
        ({"subject": "", "reason": "because"}, "because"),
        (
            {
                **dict.fromkeys(("from", "timestamp", "requestId", "request_id", "paneId", "backendType"), "x"),
                "permissionMode": "plan",
            },
            "",
        ),
    ],
)
def test_a_frame_of_the_teams_protocol_is_reported_without_its_bookkeeping(fields: dict[str, Any], words: str) -> None:
    sent = events.MailSent(**MAIL, kind="new", text=msgspec.json.encode({"type": "new", **fields}).decode())
    assert team_event_text(sent) == ("→", f"bob: [new] {words}".rstrip())


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ((999, 0), "999 tokens, $0.5000"),
        ((999, 1), "1.0k tokens, $0.5000"),
        ((999_999, 0), "1000.0k tokens, $0.5000"),
        ((1_000_000, 500_000), "1.5M tokens, $0.5000"),
        ((None, None), "0 tokens, $0.5000"),
    ],
)
def test_tokens_are_counted_in_thousands_and_millions(tokens: tuple[int | None, int | None], words: str) -> None:
    usage = Usage(input_tokens=tokens[0], output_tokens=tokens[1])
    assert usage_text(events.MemberUsed(**MEMBER, usage=usage, cost_usd=0.5)) == words
    unpriced = events.MemberUsed(**MEMBER, usage=Usage(), unpriced=("one", "two"))
    assert usage_text(unpriced) == "0 tokens, no price for one, two"


@pytest.mark.parametrize("name", ["SendMessage", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "Bash"])
def test_calls_that_mail_and_tasks_tell_are_reported_by_those(name: str) -> None:
    for agent, of_team in (("bob@t", True), ("bob", False)):
        call = events.ToolCalled(call_id="1", name=name, agent=agent)
        assert has_own_event(call) is (of_team and name != "Bash")


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hours after `SINCE`."""
    monkeypatch.setattr(time, "time", lambda: clock.parse_rfc3339(SINCE) / 1e9 + 7200)


SINCE = "2026-11-21T22:30:14.000000Z"
LIVE = TeamLine(
    team="t", home="/h", state="live", lead="ann", lead_pid=7, cwd="/p", created=SINCE, members=3, working=1,
    tasks={"pending": 2, "in_progress": 1}, waiting_mail=4,
)  # fmt: skip
BARE = TeamLine(team="u", home="/h", state="orphan", members=2, orphan_inboxes=("bob", "eve"), cwd="/q")
NAKED = TeamLine(team="v", home="/h", state="tasks", cwd="/r")


def member(name: str, **more: Any) -> MemberLine:
    given: dict[str, Any] = {
        "member": name, "state": "working", "since": SINCE, "kind": "", "model": "opus", "colour": None, "backend": "",
        "pane": "", "doing": 'Bash {"command":"make"}', "last_words": "", "tasks": (), "unread": 2, "tokens": 1200,
        "cost_usd": 0.5,
    }  # fmt: skip
    return MemberLine(**{**given, **more})


MEMBERS = (
    member("ann"),
    member("bob", state="idle", last_words="all\ndone", tokens=9, cost_usd=None, unpriced=("next", "more")),
    member("cid", state="", since=None, model=None, doing="", unread=0, tokens=None, cost_usd=None, unpriced=("more",)),
)
WAITS = (
    Wait(team="t", who="bob", on="ann", what="an answer", since=SINCE, seconds=7200),
    Wait(team="t", who="#3", on="", what="an owner", since=SINCE, seconds=7200),
)
SHOWN = TeamShown(team=LIVE, members=MEMBERS, waits=WAITS, usage=(), prices_as_of="2026-11-01")


@pytest.mark.usefixtures("still")
def test_teams_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_teams([LIVE, BARE, NAKED])
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == [
        ["TEAM", "STATE", "AGE", "WORKING", "MAIL", "TASKS", "WHERE"],
        ["t", "live", "2h", "1/3", "4", "1 in_progress 2 pending", "/p"],
        ["u", "orphan", "", "?/2", "", "", "nobody reads bob, eve"],
        ["v", "tasks", "", "", "", "", "/r"],
    ]


@pytest.mark.usefixtures("still")
def test_a_team_is_its_head_its_members_their_last_words_and_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    print_team(SHOWN)
    assert capsys.readouterr().out == (
        "t: live, led by ann (pid 7), for 2h, in /p\n"
        "\n"
        "MEMBER\tSTATE\tFOR\tMODEL\tTOKENS\tCOST\tMAIL\tDOING\n"
        "ann\tworking\t2h\topus\t1,200\t$0.5000\t2\tBash make\n"
        "bob\tidle\t2h\topus\t9\t?\t2\t\n"
        "cid\t\t\t\t\t\t\t\n"
        "\n"
        "bob: all done\n"
        "\n"
        "no price known (as of 2026-11-01): more, next\n"
        "\n"
        "FOR\tTEAM\tWHO\tON\tWHAT\n"
        "2h\tt\tbob\twaits for ann\tan answer\n"
        "2h\tt\t#3\twaits\tan owner\n"
    )
    print_team(TeamShown(team=NAKED, members=(), waits=(), usage=()))
    assert capsys.readouterr().out == ("v: tasks, in /r\n\nMEMBER\tSTATE\tFOR\tMODEL\tTOKENS\tCOST\tMAIL\tDOING\n")
    print_team(TeamShown(team=replace(LIVE, lead_pid=None, created=None, cwd=""), members=(), waits=(), usage=()))
    assert capsys.readouterr().out.startswith("t: live, led by ann, in /h\n")


@pytest.mark.usefixtures("still")
def test_where_a_team_stands_is_a_line_a_member_and_a_wait() -> None:
    assert list(state_lines(SHOWN)) == [
        ("", "●", "3 members, 1 at work; tasks: 1 in progress, 2 pending; in /p"),
        ("ann", "▶", "works for 2h: Bash make"),
        ("bob", "■", "idle for 2h: all\ndone"),
        ("cid", "▶", "nothing was seen of it yet"),
        ("bob", "?", "waits for ann 2h already: an answer"),
        ("", "?", "#3 waits 2h already: an owner"),
    ]
    unseen = replace(NAKED, members=None)
    assert list(state_lines(TeamShown(team=unseen, members=(), waits=(), usage=()))) == [
        ("", "●", "0 members, an unknown number at work; tasks: none; in /r")
    ]
    quiet = TeamShown(team=LIVE, members=(member("eve", state="idle", since=None),), waits=(), usage=())
    assert list(state_lines(quiet))[1] == ("eve", "■", "idle")


@pytest.mark.usefixtures("still")
def test_a_board_says_what_is_ready_and_what_is_blocked(capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, Any] = {
        "team": "t", "status": "pending", "subject": "s", "owner": None, "is_ready": False, "blocked_by": (),
        "blocks": (), "since": None,
    }  # fmt: skip
    print_tasks(
        [
            TaskLine(**{**given, "id": "1", "is_ready": True}),
            TaskLine(**{**given, "id": "2", "blocked_by": ("1", "7")}),
            TaskLine(**{**given, "id": "3", "owner": "bob", "since": SINCE}),
            TaskLine(**{**given, "id": "4", "status": "completed", "blocked_by": ("1",)}),
        ]
    )
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == [
        ["TASK", "STATUS", "OWNER", "FOR", "AFTER", "SUBJECT"],
        ["#1", "ready", "", "", "", "s"],
        ["#2", "blocked", "", "", "#1 #7", "s"],
        ["#3", "pending", "bob", "2h", "", "s"],
        ["#4", "completed", "", "", "#1", "s"],
    ]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "#3 Write parser: pending"),
        ({"owner": "bob"}, "#3 Write parser: pending, bob's"),
        ({"owner": "bob", "blocked_by": ("1", "2")}, "#3 Write parser: pending, bob's, waits for 1, 2"),
    ],
)
def test_a_task_that_changed_is_reported_with_its_owner_and_what_it_waits_for(more: dict[str, Any], words: str) -> None:
    assert task_line(Task(id="3", subject="Write parser", status="pending", **more)) == words


def test_mail_by_thread_has_a_heading_a_conversation(capsys: pytest.CaptureFixture[str]) -> None:
    def line(thread: str, text: str) -> MailLine:
        head = {"team": "t", "mail_id": "m", "at": SINCE, "sender": "a", "to": "b", "kind": "message", "state": "sent"}
        return MailLine(**head, summary="", text=text, thread=thread)

    lines = [line("a · b", "one"), line("a · b", "two\nlines"), line("a · c", "three")]
    print_mail(lines, by_thread=True)
    assert capsys.readouterr().out == (
        "a · b\n"
        "  ── 2026-11-21 ──\n"
        "  22:30:14 a → b (sent) one\n"
        "  22:30:14 a → b (sent) two lines\n"
        "\n"
        "a · c\n"
        "  22:30:14 a → b (sent) three\n"
    )
    print_mail(lines[:1], by_thread=False)
    assert capsys.readouterr().out == "── 2026-11-21 ──\n22:30:14 a → b (sent) one\n"


@pytest.mark.usefixtures("still")
def test_whoever_waits_for_nobody_is_anyone_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    print_waits([WAITS[0], Wait(team="t", who="", on="", what="task #3", since=SINCE, seconds=7200)])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "2h\tt\tbob\twaits for ann\tan answer",
        "2h\tt\tanyone\twaits\ttask #3",
    ]
