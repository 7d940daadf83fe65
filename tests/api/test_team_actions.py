"""What a person does to a team: the files that it makes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beam.api import team_actions
from beam.api.team_actions import Delivery, TeamActions, create_team
from beam.base.errors import NotFoundError, UsageError
from tests.support.refused import refused


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The home of a person whose team `review` has the members `ann` and `bob`."""
    environ = {"HOME": str(tmp_path)}
    create_team(environ, "review", cwd="/work")
    files = TeamActions(environ, "review").files
    for name in ("ann", "bob"):
        files.add_member({"name": name})
    return environ


@pytest.fixture
def actions(environ: dict[str, str]) -> TeamActions:
    return TeamActions(environ, "review")


def letters(actions: TeamActions, to: str) -> list[dict[str, Any]]:
    path = Path(actions.files.inbox(to))
    return json.loads(path.read_text()) if path.exists() else []


def frames(actions: TeamActions, to: str) -> list[dict[str, Any]]:
    found = [{**json.loads(one["text"]), "by": one["from"]} for one in letters(actions, to)]
    return [{key: value for key, value in one.items() if key != "timestamp"} for one in found]


def test_a_team_is_made_once_in_claude_codes_own_place_with_a_lead_in_that_folder(tmp_path: Path) -> None:
    create_team({"HOME": str(tmp_path)}, "review", cwd="/work")
    made = json.loads((tmp_path / ".claude/teams/review/config.json").read_text())
    assert made["name"] == "review" and made["leadSessionId"]
    assert [member["cwd"] for member in made["members"]] == ["/work"]
    with pytest.raises(UsageError, match="review"):
        create_team({"HOME": str(tmp_path)}, "review")


def test_another_home_of_claude_code_can_be_named(tmp_path: Path) -> None:
    create_team({"HOME": str(tmp_path)}, "review", claude_homes=[str(tmp_path / "other")])
    assert (tmp_path / "other/teams/review").is_dir() and not (tmp_path / ".claude").exists()
    assert TeamActions({"HOME": str(tmp_path)}, "review", claude_homes=[str(tmp_path / "other")]).team == "review"
    with pytest.raises(NotFoundError):
        TeamActions({"HOME": str(tmp_path)}, "review")


def test_a_team_is_named_by_its_name_or_a_part_that_no_other_has(environ: dict[str, str], tmp_path: Path) -> None:
    for name in ("previews", "pre"):
        create_team(environ, name)
    (tmp_path / ".claude/teams/inboxes-alone/inboxes").mkdir(parents=True)
    assert [TeamActions(environ, name).team for name in ("review", "pre", "views")] == ["review", "pre", "previews"]
    for name in ("nothing", "", "alone"):
        with refused(NotFoundError, f"there is no team {name!r}", "beam team list", subject=name):
            TeamActions(environ, name)
    home = tmp_path / ".claude"
    with pytest.raises(UsageError) as several:
        TeamActions(environ, "re")
    assert several.value.message.startswith("'re' matches 3 teams: ")
    assert sorted(several.value.message.partition(": ")[2].split(", ")) == [
        f"pre ({home})",
        f"previews ({home})",
        f"review ({home})",
    ]
    assert (several.value.hint, several.value.subject) == ("give its whole name", "re")


def test_a_message_lies_in_its_members_inbox(actions: TeamActions) -> None:
    sent = actions.send("ann", "look  at\nthis")
    named = actions.send("ann", "again", sender="me", summary="twice")
    first, second = letters(actions, "ann")
    assert sent == Delivery(team="review", to="ann", mail_id=first["msg_id"], sender="human")
    assert named == Delivery(team="review", to="ann", mail_id=second["msg_id"], sender="me")
    assert [(one["from"], one["text"], one["summary"]) for one in (first, second)] == [
        ("human", "look  at\nthis", "look at this"),
        ("me", "again", "twice"),
    ]


@pytest.mark.parametrize(("length", "summary"), [(60, "x" * 60), (61, "x" * 59 + "…")])
def test_a_summary_is_a_line(length: int, summary: str, actions: TeamActions) -> None:
    actions.send("ann", "x" * length)
    assert letters(actions, "ann")[0]["summary"] == summary


def test_no_frame_is_sent_and_nothing_in_a_members_name(actions: TeamActions) -> None:
    for text, sender, to in (('{"type": "x"}', "human", "ann"), (" ", "human", "ann"), ("hi", "bob", "ann")):
        with pytest.raises(UsageError):
            actions.send(to, text, sender=sender)
    with pytest.raises(NotFoundError):
        actions.send("nobody", "hi")
    assert letters(actions, "ann") == []


def test_a_task_is_added_claimed_begun_blocked_and_finished(actions: TeamActions) -> None:
    task = actions.add_task("Sweep", description="All of it.")
    assert (task.id, task.subject, task.description, task.status) == ("1", "Sweep", "All of it.", "pending")
    assert actions.add_task("Dust", after=["1"]).blocked_by == ("1",)
    assert actions.add_task("Mop").blocked_by == ()
    assert actions.block_task("3", "2").blocked_by == ("2",)
    assert actions.claim_task("1").owner == "human"
    assert [actions.start_task("1").status, actions.finish_task("1").status] == ["in_progress", "completed"]
    assert letters(actions, "ann") == letters(actions, "bob") == []
    with refused(UsageError, "a task needs a subject"):
        actions.add_task(" \n")


def test_a_member_is_told_of_a_task_that_it_is_given(actions: TeamActions) -> None:
    actions.add_task("Sweep", description="All of it.")
    assert actions.claim_task("1", "ann").owner == "ann"
    assert frames(actions, "ann") == [
        {
            "type": "task_assignment",
            "taskId": "1",
            "subject": "Sweep",
            "description": "All of it.",
            "assignedBy": "human",
            "by": "human",
        }
    ]
    actions.add_task("Dust")
    with pytest.raises(NotFoundError):
        actions.claim_task("2", "nobody")


def test_all_members_but_the_lead_are_asked_to_end_or_one(
    actions: TeamActions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_actions.time, "time_ns", lambda: 1_700_000_000_123_456_789)
    found = actions.shut_down()
    assert [(one.team, one.to, one.sender) for one in found] == [
        ("review", "ann", "team-lead"),
        ("review", "bob", "team-lead"),
    ]
    assert [one.mail_id for one in found] == [letters(actions, name)[0]["msg_id"] for name in ("ann", "bob")]
    request = {"type": "shutdown_request", "requestId": "shutdown-1700000000123@ann", "from": "team-lead"}
    assert frames(actions, "ann") == [{**request, "by": "team-lead"}]
    assert [one.to for one in actions.shut_down("ann", reason="late")] == ["ann"]
    assert frames(actions, "ann")[1] == {**request, "reason": "late", "by": "team-lead"}
    assert letters(actions, "team-lead") == [] and len(letters(actions, "bob")) == 1
    with refused(UsageError, "team-lead leads the team; end its own program", subject="team-lead"):
        actions.shut_down("team-lead")
    with pytest.raises(NotFoundError):
        actions.shut_down("nobody")


def test_in_a_team_without_a_lead_all_are_asked_to_end(actions: TeamActions) -> None:
    actions.files.remove_member("team-lead")
    assert [one.to for one in actions.shut_down()] == ["ann", "bob"]


def test_a_permission_is_given_or_denied_in_the_leads_name(actions: TeamActions) -> None:
    found = [actions.approve("ann", "perm-1"), actions.approve("ann", "perm-2", deny="not now")]
    ids = [one["msg_id"] for one in letters(actions, "ann")]
    assert found == [Delivery(team="review", to="ann", mail_id=each, sender="team-lead") for each in ids]
    answer = {"type": "permission_response", "by": "team-lead"}
    assert frames(actions, "ann") == [
        {**answer, "request_id": "perm-1", "subtype": "success", "response": {"permission_updates": []}},
        {**answer, "request_id": "perm-2", "subtype": "error", "error": "not now"},
    ]
    for request in ("1", "perm-", "xperm-1", "perm-1 x", "perm-" + "x" * 101):
        with refused(UsageError, f"{request!r} is not the id of a permission", "beam watch shows it: perm-…"):
            actions.approve("ann", request)
    actions.approve("bob", "perm-" + "x" * 100)
    with pytest.raises(NotFoundError):
        actions.approve("nobody", "perm-1")
