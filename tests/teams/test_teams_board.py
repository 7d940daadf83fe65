"""What people look at of a team, and who waits."""

from __future__ import annotations

from beam.model.prices import Tokens
from beam.teams import board
from beam.teams.board import LastActivity
from beam.teams.diff import Diff, Team
from beam.teams.model import Mail, Member, Roster, Session, Task
from beam.teams.stuck import stuck
from beam.teams.usage import MemberUsage

S = 1_000_000_000


def team() -> Team:
    diff = Diff()
    members = tuple(Member(name=name, agent_id=f"{name}@t", joined_ns=S, cwd="/p") for name in ("team-lead", "bob"))
    diff.config("/h", "t", Roster(name="t", created_ns=S, session_id="sid", members=members), S)
    diff.lead_lives(diff.teams["/h", "t"], Session(pid=1, start=1, session_id="sid"))
    tasks = [
        Task(id="10", subject="later"),
        Task(id="2", subject="blocked", blocked_by=("10", "1")),
        Task(id="1", subject="done", status="completed"),
        Task(id="3", subject="going", status="in_progress", owner="bob", active_form="Going"),
    ]
    for task in tasks:
        diff.task("/h", "t", task, 2 * S)
    diff.inbox("/h", "t", "bob", [Mail(id="m", sender="team-lead", text="hi", sent_ns=3 * S)], 3 * S)
    diff.inbox("/h", "t", "ghost", [Mail(id="g", sender="team-lead", text="boo", sent_ns=4 * S)], 4 * S)
    return diff.teams["/h", "t"]


def test_the_line_of_a_team_counts_what_is_in_it() -> None:
    line = board.team_line(team())
    assert (line.state, line.members, line.waiting_mail) == ("live", 2, 2)
    assert line.tasks == {"pending": 2, "completed": 1, "in_progress": 1}
    assert line.orphan_inboxes == ("ghost",)


def test_the_board_has_what_goes_on_first_then_what_is_ready_then_what_waits() -> None:
    lines = board.task_lines(team())
    assert [line.id for line in lines] == ["3", "10", "2", "1"]
    assert [line.is_ready for line in lines] == [False, True, False, False]
    assert lines[2].blocked_by == ("10",)


def test_a_member_has_its_task_its_mail_and_what_it_used() -> None:
    used = [
        MemberUsage(member="bob", model="claude-x", tokens=Tokens(1, 2, 3, 4), replies=1, cost_usd=None),
        MemberUsage(member="bob", model="claude-y", tokens=Tokens(1), replies=1, cost_usd=0.5),
    ]
    _, bob = board.member_lines(team(), used, {"bob": LastActivity("", "done soon")})
    assert (bob.doing, bob.last_words, bob.unread) == ("#3 Going", "done soon", 1)
    assert (bob.tokens, bob.cost_usd, bob.unpriced) == (11, None, ("claude-x",))


def test_what_nobody_knows_of_a_team_is_null_and_never_0() -> None:
    one = team()
    lead, bob = board.member_lines(
        one, [MemberUsage(member="bob", model="m", tokens=Tokens(), replies=1, cost_usd=0.0)], {}
    )
    assert (lead.tokens, lead.cost_usd, bob.tokens, bob.cost_usd) == (None, None, 0, 0.0)
    assert (board.team_line(one).members, board.team_line(one).working) == (2, None)
    one.members.on_idle("bob", 50 * S, "files")
    assert board.team_line(one).working == 0
    orphan = Diff()
    orphan.inbox("/h", "x", "ghost", [], S)
    line = board.team_line(orphan.teams["/h", "x"])
    assert (line.state, line.members, line.working) == ("orphan", None, None)


def test_mail_is_reported_by_conversation() -> None:
    lines = board.group_by_thread(board.mail_lines(team()))
    assert [(line.thread, line.state) for line in lines] == [
        ("bob · team-lead", "waiting"),
        ("ghost · team-lead", "waiting"),
    ]


def test_who_waits_is_told_the_longest_first_and_only_if_long_enough() -> None:
    waits = stuck(team(), 100 * S, longer_than_s=0)
    assert [wait.seconds for wait in waits] == sorted((wait.seconds for wait in waits), reverse=True)
    said = {(wait.who, wait.on): wait.what for wait in waits}
    assert said["", "#10"] == "#2 blocked"
    assert said["#10", ""] == "later: nobody took it"
    assert said["team-lead", "ghost"].startswith("nobody is called ghost")
    assert said["team-lead", "bob"] == "its mail to be read"
    assert [wait.what for wait in stuck(team(), 100 * S, longer_than_s=97.5)] != []
    assert stuck(team(), 100 * S, longer_than_s=99) == []


def test_a_task_in_progress_of_an_idle_owner_is_stuck() -> None:
    one = team()
    one.members.on_idle("bob", 50 * S, "files")
    found = [wait for wait in stuck(one, 100 * S, longer_than_s=1) if wait.who == "#3"]
    assert [(wait.on, wait.seconds) for wait in found] == [("bob", 50.0)]
