"""The complete events of a team and of its lead, and which members wait."""

from __future__ import annotations

from typing import Any

import pytest

from beam.teams.board import mail_lines
from beam.teams.diff import CONFIG_GONE_NS, Diff
from beam.teams.model import Mail, Member, Session, Task
from beam.teams.stuck import stuck
from tests.teams.teams_told import BOB, LEAD, H, S, T, frame, roster, started, told


def test_a_team_starts_with_what_its_configuration_says_of_its_lead_and_of_each_member() -> None:
    assert told(Diff().config(H, T, roster(LEAD, BOB), 9 * S)) == [
        '00:01 team.started - started/1000 files lead="team-lead" session_id="sid" cwd="/p"',
        '00:01 member.joined team-lead joined/team-lead/1000 files member="team-lead" cwd="/p"',
        (
            '00:02 member.joined bob joined/bob/2000 files member="bob" kind="tester" model="haiku" '
            'colour="blue" backend="tmux" pane="%2" cwd="/q" prompt="test it"'
        ),
    ]


def test_a_configuration_without_times_begins_when_it_was_seen() -> None:
    lead, bob = Member(name="team-lead"), Member(name="bob")
    assert told(Diff().config(H, T, roster(lead, bob, created_ns=0, lead_id=""), 9 * S)) == [
        '00:09 team.started - started/9000 files lead="team-lead" session_id="sid"',
        '00:09 member.joined team-lead joined/team-lead/9000 files member="team-lead"',
        '00:09 member.joined bob joined/bob/9000 files member="bob"',
    ]


def test_a_configuration_without_a_lead_names_none() -> None:
    assert told(Diff().config(H, T, roster(lead_id="?"), 9 * S)) == [
        '00:01 team.started - started/1000 files session_id="sid"'
    ]


def test_a_team_whose_directory_goes_loses_its_mail_its_members_and_ends() -> None:
    diff, team = started(BOB)
    diff.inbox(H, T, "bob", [Mail(id="m2", sender="a", text="two"), Mail(id="m1", sender="a", text="one")], 3 * S)
    assert told(diff.team_gone(H, T, 5 * S)) == [
        (
            '00:05 mail.lost a lost/bob/m1 files mail_id="m1" from="a" to="bob" why="the team ended before it '
            'was read" text="one"'
        ),
        (
            '00:05 mail.lost a lost/bob/m2 files mail_id="m2" from="a" to="bob" why="the team ended before it '
            'was read" text="two"'
        ),
        '00:05 member.left team-lead left/team-lead/1000 files member="team-lead" reason="the team ended"',
        '00:05 member.left bob left/bob/2000 files member="bob" reason="the team ended"',
        '00:05 team.ended - ended/1000 files reason="its lead left"',
    ]
    assert not team.is_live and diff.team_gone(H, T, 6 * S) == [] == diff.team_gone(H, "other", 6 * S)
    assert told(diff.config(H, T, roster(LEAD, created_ns=7 * S), 7 * S)) == [
        '00:07 team.started - started/7000 files lead="team-lead" session_id="sid" cwd="/p"'
    ]
    assert team.is_live


def test_a_team_that_only_had_an_inbox_ends_without_an_event_of_its_own() -> None:
    diff = Diff()
    diff.begin(S)
    diff.inbox(H, "orphan", "bob", [Mail(id="m", sender="a", text="hi")], 3 * S)
    assert told(diff.team_gone(H, "orphan", 5 * S)) == [
        (
            '00:05 mail.lost a lost/bob/m files mail_id="m" from="a" to="bob" why="the team ended before it was '
            'read" text="hi"'
        )
    ]


def test_an_inbox_that_is_deleted_loses_the_mail_that_nobody_took() -> None:
    diff, _ = started(BOB)
    mails = [Mail(id="m1", sender="a", text="one", is_read=True), Mail(id="m2", sender="a", text="two")]
    diff.inbox(H, T, "bob", mails, 3 * S)
    assert told(diff.inbox_gone(H, T, "bob", 5 * S)) == [
        '00:05 mail.lost a lost/bob/m2 files mail_id="m2" from="a" to="bob" why="its inbox was deleted" text="two"'
    ]
    assert diff.inbox_gone(H, T, "bob", 6 * S) == []
    assert [(line.mail_id, line.state) for line in mail_lines(diff.team(H, T))] == [("m1", "delivered"), ("m2", "lost")]


def test_a_configuration_that_is_gone_for_two_seconds_is_a_notice_or_where_nobody_leads_the_end() -> None:
    diff, team = started(BOB)
    diff.config_gone(H, T, 5 * S)
    diff.config_gone(H, T, 6 * S)
    diff.config_gone(H, "none", 6 * S)
    assert diff.tick(team, 5 * S + CONFIG_GONE_NS - 1) == []
    assert told(diff.tick(team, 5 * S + CONFIG_GONE_NS)) == [
        '00:07 member.left team-lead left/team-lead/1000 files member="team-lead" reason="the team ended"',
        '00:07 member.left bob left/bob/2000 files member="bob" reason="the team ended"',
        '00:07 team.ended - ended/1000 files reason="its config.json is gone and nobody leads it"',
    ]
    assert diff.tick(team, 60 * S) == []
    diff, team = started(BOB)
    diff.lead_lives(team, Session(pid=7, start=1, session_id="sid"))
    diff.config_gone(H, T, 5 * S)
    assert told(diff.tick(team, 9 * S)) == [
        (
            '00:09 notice @session-1 - - text="team session-1 has no config.json any more; its lead still runs" '
            'code="team_config_gone"'
        )
    ]
    assert diff.tick(team, 60 * S) == []


def test_a_lead_that_lives_works_and_waits_as_the_register_says() -> None:
    diff, team = started(BOB)
    busy = Session(pid=7, start=1, session_id="sid", status="busy", status_ns=4 * S)
    idle = Session(pid=7, start=1, session_id="sid", status="idle", status_ns=5 * S)
    assert diff.session(H, busy) == []
    assert told(diff.lead_lives(team, busy)) == [
        '00:04 member.working team-lead working/team-lead/4000 process member="team-lead" why="busy"'
    ]
    assert told(diff.session(H, idle)) == ['00:05 member.idle team-lead idle/team-lead/5000 process member="team-lead"']
    assert diff.session("/other", idle) == [] == diff.session(H, Session(pid=7, start=1, session_id="sid"))
    assert diff.session(H, Session(pid=8, start=1, session_id="x", status="busy", status_ns=6 * S)) == []
    diff.session_gone(H, 7)
    diff.session_gone(H, 7)
    assert diff.lead_of(team) is None


@pytest.mark.parametrize(
    ("given", "is_lead"),
    [
        ({"session_id": "sid"}, True),
        ({"session_id": "new", "cwd": "/p", "started_ns": 15 * S}, True),
        ({"session_id": "new", "cwd": "/p", "started_ns": 16 * S}, False),
        ({"session_id": "new", "cwd": "/q", "started_ns": S}, False),
        ({"session_id": "taken", "cwd": "/p", "started_ns": S}, False),
    ],
)
def test_a_session_leads_a_team_by_its_id_or_by_its_directory_within_15_seconds(
    given: dict[str, Any], is_lead: bool
) -> None:
    diff, team = started()
    diff.config(H, "session-2", roster(Member(name="team-lead", cwd="/r"), session_id="taken"), S)
    session = Session(pid=7, start=1, **given)
    diff.session("/other", session)
    assert diff.lead_of(team) is None
    diff.session(H, session)
    assert diff.lead_of(team) == (session if is_lead else None)


def test_of_two_sessions_that_may_lead_a_team_neither_does() -> None:
    diff, team = started()
    for pid in (7, 8):
        diff.session(H, Session(pid=pid, start=1, session_id=f"s{pid}", cwd="/p", started_ns=S))
    assert diff.lead_of(team) is None
    assert diff.lead_of(Diff().team(H, T)) is None


def test_a_dead_lead_takes_the_members_in_its_process_along() -> None:
    ann = Member(name="ann", agent_id="ann@x", joined_ns=2 * S)
    diff, team = started(BOB, ann)
    diff.lead_lives(team, Session(pid=7, start=1, session_id="sid"))
    assert told(diff.lead_died(team, 5 * S, orphans={"bob": 99})) == [
        '00:05 team.stale - stale/1000 process reason="its lead (pid 7) is gone" pid=7',
        '00:05 member.orphaned bob orphaned/bob/2000 process member="bob" pid=99 pane="%2"',
        '00:05 member.left ann left/ann/2000 process member="ann" reason="its lead died"',
    ]
    assert diff.lead_died(team, 6 * S, orphans={}) == []
    assert diff.lead_died(Diff().team(H, T), 6 * S, orphans={}) == []


def test_a_team_that_no_process_ever_led_is_stale_for_that_reason() -> None:
    diff, team = started(BOB)
    assert told(diff.lead_died(team, 5 * S, orphans={"bob": None})) == [
        '00:05 team.stale - stale/1000 process reason="no process leads it"',
        '00:05 member.orphaned bob orphaned/bob/2000 process member="bob" pane="%2"',
    ]


def test_each_wait_of_a_team_is_listed_the_longest_first() -> None:
    ann = Member(name="ann", agent_id="ann@x", joined_ns=2 * S)
    diff, team = started(BOB, ann)
    asked = frame(1, at=3, type="permission_request", requestId="r", tool_name="Bash", description="list")
    diff.inbox(H, T, "team-lead", [asked], 3 * S)
    diff.inbox(H, T, "team-lead", [], 4 * S)
    diff.inbox(H, T, "ann", [Mail(id="m1", sender="bob", text="hi", sent_ns=5 * S)], 5 * S)
    diff.inbox(H, T, "ghost", [Mail(id="m2", sender="bob", text="hi", sent_ns=6 * S)], 6 * S)
    tasks = [
        Task(id="1", subject="free"),
        Task(id="2", subject="blocked", blocked_by=("1", "3"), owner="bob"),
        Task(id="3", subject="abandoned", owner="gone"),
        Task(id="4", subject="asleep", owner="ann", status="in_progress"),
        Task(id="5", subject="fine", owner="bob", status="in_progress"),
        Task(id="6", subject="done", owner="gone", status="completed"),
    ]
    for number, task in enumerate(tasks, 7):
        diff.task(H, T, task, number * S)
    team.members.on_working("bob", 14 * S, "hook", "why")
    team.members.on_idle("ann", 15 * S, "hook")

    def waits(longer_than_s: float = 0.0) -> list[tuple[Any, ...]]:
        found = stuck(team, 20 * S + 40_000_000, longer_than_s=longer_than_s)
        assert {wait.team for wait in found} <= {T}
        return [(wait.who, wait.on, wait.what, wait.since[17:19], wait.seconds) for wait in found]

    assert waits() == [
        ("bob", "team-lead", "an answer: permission (Bash) list", "03", 17.0),
        ("bob", "ann", "its mail to be read", "05", 15.0),
        ("bob", "ghost", "nobody is called ghost: its mail is never read", "06", 14.0),
        ("#1", "", "free: nobody took it", "07", 13.0),
        ("bob", "#1 #3", "#2 blocked", "08", 12.0),
        ("#3", "gone", "abandoned: its owner is not in the team", "09", 11.0),
        ("bob", "", "a sign of life: it works and says nothing", "14", 6.0),
        ("#4", "ann", "asleep: in progress, and its owner is idle", "15", 5.0),
    ]
    assert waits(13.04) == [
        ("bob", "team-lead", "an answer: permission (Bash) list", "03", 17.0),
        ("bob", "ann", "its mail to be read", "05", 15.0),
        ("bob", "ghost", "nobody is called ghost: its mail is never read", "06", 14.0),
        ("#1", "", "free: nobody took it", "07", 13.0),
    ]
    assert waits(15.05) == [("bob", "team-lead", "an answer: permission (Bash) list", "03", 17.0)]
    diff.lead_lives(team, Session(pid=7, start=1, session_id="sid"))
    diff.lead_died(team, 16 * S, orphans={"bob": 1, "ann": 2})
    assert waits(15.0) == [
        ("bob", "team-lead", "an answer: permission (Bash) list", "03", 17.0),
        ("bob", "ann", "its mail to be read; the team has no lead", "05", 15.0),
    ]
