"""One look at the teams of a home: what is there, and what the transcripts have of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.teams.diff import Team
from beam.teams.look import TeamsSnapshot
from beam.teams.model import Task
from tests.teams.teams_home import Home, S


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "claude")


def only(look: TeamsSnapshot) -> Team:
    (team,) = look.teams()
    return team


def test_a_look_knows_what_each_kind_of_file_says(home: Home) -> None:
    home.config("bob")
    home.lead()
    home.put("tasks/session-1/1.json", {"id": "1", "subject": "parser"}, 4)
    home.put("tasks/session-1/2.json", b"{half", 4)
    home.put("teams/session-1/inboxes/bob.json", [{"from": "a", "msg_id": "m", "text": "hi"}], 5)
    home.put("teams/session-1/inboxes/ann.json", b"[half", 5)
    look = TeamsSnapshot([home.text])
    team = only(look)
    assert (team.name, team.home, team.is_live, team.session_id) == ("session-1", home.text, True, "sid")
    assert list(team.members.present) == ["team-lead", "bob"]
    assert team.tasks.known == {"1": Task(id="1", subject="parser")}
    assert [(one.to, one.mail.id, one.at_ns) for one in team.post.waiting] == [("bob", "m", 5 * S)]
    assert team.lead_pid is not None and look.now_ns > 1_700_000_000 * S


def test_a_look_at_a_team_without_a_lead_finds_it_stale_and_reads_no_last_lines(home: Home) -> None:
    home.config("bob")
    home.say(6, "I begin")
    look = TeamsSnapshot([home.text])
    team = only(look)
    assert (team.is_stale, team.lead_pid) == (True, None)
    assert look.last_lines(team) == []
    assert [(member, is_member) for member, is_member, _ in look.lines(team)] == [("team-lead", True)]


def test_the_last_lines_of_a_living_team_are_in_the_order_of_their_times(home: Home) -> None:
    home.config("bob")
    home.lead()
    home.say(6, "I begin")
    home.say(8, "I go on")
    meta = {"name": "bob", "taskKind": "in_process_teammate", "teamName": "session-1"}
    home.say(7, "me too", name="sid/subagents/agent-abob")
    home.put("projects/-p/sid/subagents/agent-abob.meta.json", meta, 7)
    look = TeamsSnapshot([home.text])
    assert [(name, line.at[17:19]) for name, line in look.last_lines(only(look))] == [
        ("team-lead", "06"),
        ("bob", "07"),
        ("team-lead", "08"),
    ]


def test_what_the_transcripts_have_of_the_mail_is_remembered_for_who_asks(home: Home) -> None:
    home.config("bob")
    home.lead()
    text = '<teammate-message teammate_id="human">\nhi\n</teammate-message>'
    home.add({"type": "user", "timestamp": "1970-01-01T00:00:03Z", "message": {"content": text}}, 3)
    look = TeamsSnapshot([home.text])
    team = only(look)
    assert team.post.letters == []
    look.apply_transcripts(team)
    assert [(one.to, one.mail.sender, one.mail.text) for one in team.post.letters] == [("team-lead", "human", "hi")]


def test_a_look_at_several_homes_and_at_none(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    home.config("bob")
    other.config("eve", name="session-2")
    look = TeamsSnapshot([home.text, other.text, str(tmp_path / "none")])
    assert [(team.home, team.name) for team in look.teams()] == [(home.text, "session-1"), (other.text, "session-2")]
    assert TeamsSnapshot([]).teams() == []
