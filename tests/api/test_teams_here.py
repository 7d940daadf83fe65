"""The teams of a home as values, and how a name finds one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw

from beam.agents.claude.history import TranscriptLine
from beam.api import teams as module
from beam.api.team_actions import TeamActions, create_team
from beam.api.teams import TeamsHere, install_hooks, teams
from beam.base.errors import NotFoundError, UsageError
from beam.model.events import Text, ToolCalled
from beam.teams.board import LastActivity
from tests.support.refused import refused
from tests.teams.teams_home import Home


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    for name in ("review", "previews"):
        create_team(environ, name, cwd="/work")
        TeamActions(environ, name).files.add_member({"name": "ann", "agentId": f"ann@{name}", "joinedAt": 1})
    return environ


@pytest.fixture
def here(environ: dict[str, str]) -> TeamsHere:
    return TeamsHere(environ)


def test_teams_are_listed_the_living_first_and_then_by_age(environ: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / ".claude"
    for name, created in (("review", 2), ("previews", 1)):
        path = home / "teams" / name / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "createdAt": created}))
    (home / "teams/left/inboxes").mkdir(parents=True)
    (home / "teams/left/inboxes/bob.json").write_text("[]")
    (home / "tasks/listed").mkdir(parents=True)
    (home / "tasks/listed/1.json").write_text(json.dumps({"id": "1", "subject": "x", "status": "pending"}))
    found = [(line.team, line.state) for line in TeamsHere(environ).teams()]
    assert found == [("previews", "live"), ("review", "live"), ("left", "orphan"), ("listed", "tasks")]
    assert TeamsHere(environ, claude_homes=[str(tmp_path / "none")]).teams() == []


def test_a_team_is_shown_with_its_members_and_no_usage_that_nobody_knows(here: TeamsHere) -> None:
    shown = here.show("review")
    assert (shown.team.team, shown.team.state) == ("review", "live")
    assert [each.member for each in shown.members] == ["team-lead", "ann"]
    assert (shown.waits, shown.usage) == ((), ())


def test_tasks_and_mail_of_a_team_are_lines(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = iter(f"2026-01-01T00:00:0{number}.000Z" for number in range(9))
    monkeypatch.setattr("beam.teams.act.current_timestamp", lambda: next(stamps))
    actions = TeamActions(environ, "review")
    actions.add_task("Sweep")
    for number, (to, sender) in enumerate((("ann", "x"), ("team-lead", "y"), ("ann", "x"))):
        actions.send(to, f"text {number}", sender=sender)
    here = TeamsHere(environ)
    assert [(each.id, each.subject) for each in here.tasks("review")] == [("1", "Sweep")]
    assert [each.text for each in here.mail("review")] == ["text 0", "text 1", "text 2"]
    threads = [(each.thread, each.text) for each in here.mail("review", by_thread=True)]
    assert [text for _, text in threads] == ["text 1", "text 0", "text 2"]
    assert here.tasks("previews") == here.mail("previews") == []


def test_mail_that_was_taken_out_of_its_inbox_is_read_of_the_transcripts(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    home.config("bob")
    text = '<teammate-message teammate_id="human">\nhi\n</teammate-message>'
    home.add({"type": "user", "timestamp": "1970-01-01T00:00:03Z", "message": {"content": text}}, 3)
    (line,) = TeamsHere({"HOME": str(tmp_path)}).mail("session-1")
    assert (line.sender, line.to, line.text, line.state) == ("human", "team-lead", "hi", "delivered")


def test_a_team_is_found_by_its_name_or_a_part_of_it(here: TeamsHere, tmp_path: Path) -> None:
    for name in ("nothing", ""):
        with refused(NotFoundError, f"there is no team {name!r}", "beam team list", subject=name):
            here.tasks(name)
    with pytest.raises(UsageError) as several:
        here.tasks("view")
    home = tmp_path / ".claude"
    assert several.value.message.startswith("'view' matches 2 teams: ")
    assert sorted(several.value.message.partition(": ")[2].split(", ")) == [f"previews ({home})", f"review ({home})"]
    assert (several.value.hint, several.value.subject) == ("give its whole name", "view")
    assert here.tasks("previ") == []


def test_who_waits_longest_comes_first(here: TeamsHere, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def waits(team: Any, now_ns: int, *, longer_than_s: float) -> list[Any]:
        given.append((team.name, longer_than_s))
        return [SimpleNamespace(seconds=5 if team.name == "review" else 9)]

    monkeypatch.setattr(module, "stuck", waits)
    monkeypatch.setattr(module, "redact_event", lambda wait: (wait, 0))
    assert [each.seconds for each in here.stuck(3.0)] == [9, 5]
    assert sorted(given) == [("previews", 3.0), ("review", 3.0)]
    assert [each.seconds for each in here.stuck(3.0, names=["review"])] == [5]
    with pytest.raises(NotFoundError):
        here.stuck(3.0, names=["nothing"])


# -- what a transcript says --------------------------------------------------------------------------------------------


def line(kind: str = "assistant", at: str = "", *bodies: Any, ends_turn: bool = False) -> Any:
    return SimpleNamespace(kind=kind, at=at, bodies=bodies, ends_turn=ends_turn)


CALL = ToolCalled(call_id="c", name="Bash", input=Raw(b'{"command":"ls"}'))


@pytest.mark.parametrize(
    ("before", "seen", "after"),
    [
        (LastActivity(), line("system", "t1", CALL), LastActivity('Bash {"command":"ls"}')),
        (LastActivity(), line("assistant", "", Text(text="hi")), LastActivity("", "hi")),
        (LastActivity(), line("assistant", "t1"), LastActivity("", "", "working", "t1", "t1")),
        (LastActivity(), line("user", "t1", ends_turn=True), LastActivity("", "", "idle", "t1", "t1")),
        (
            LastActivity("d", "w", "working", "t0", "t1"),
            line("user", "t2"),
            LastActivity("d", "w", "working", "t0", "t2"),
        ),
        (LastActivity("d", "w", "idle", "t0", "t1"), line("user", "t2"), LastActivity("d", "w", "working", "t2", "t2")),
        (
            LastActivity(),
            line("user", "t1", Text(text="a"), CALL, Text(text="b")),
            LastActivity('Bash {"command":"ls"}', "b", "working", "t1", "t1"),
        ),
    ],
)
def test_what_a_member_does_is_read_of_its_transcript_line_by_line(
    before: LastActivity, seen: TranscriptLine, after: LastActivity
) -> None:
    assert module._updated_activity(before, seen) == after


def test_the_last_lines_of_each_member_are_what_it_does() -> None:
    lines = [("ann", line("user", "t1")), ("bob", line("user", "t2")), ("ann", line("assistant", "t3", ends_turn=True))]
    assert module._activities(lines) == {
        "ann": LastActivity("", "", "idle", "t3", "t3"),
        "bob": LastActivity("", "", "working", "t2", "t2"),
    }


def test_living_teams_of_two_and_more_stand_the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    believed: list[Any] = []

    def team(name: str, *, is_live: bool = True, count: int = 2) -> Any:
        members = SimpleNamespace(present=["x"] * count, assume_activity=lambda *given: believed.append((name, *given)))
        return SimpleNamespace(name=name, is_live=is_live, members=members)

    there = [team("a"), team("b", is_live=False), team("c", count=1), team("d"), team("e", count=3)]
    created = {"a": "1", "d": "3", "e": None}
    live = SimpleNamespace(
        diff=SimpleNamespace(teams=dict(enumerate(there))),
        last_lines=lambda team: [("ann", line("user", "2026-01-01T00:00:00Z"))] if team.name == "a" else [],
    )
    given: list[Any] = []
    monkeypatch.setattr(
        module.board, "team_line", lambda team: SimpleNamespace(created=created[team.name], name=team.name)
    )
    monkeypatch.setattr(module.board, "member_lines", lambda team, used, doing: [(team.name, used, doing)])
    monkeypatch.setattr(
        module, "stuck", lambda team, now_ns, *, longer_than_s: given.append((now_ns, longer_than_s)) or ["w"]
    )
    monkeypatch.setattr(module, "TeamShown", lambda **fields: SimpleNamespace(**fields))
    monkeypatch.setattr(module, "redact_event", lambda shown: (shown, 0))
    found = module.standing(live, now_ns=7, longer_than_s=3.0)  # type: ignore[arg-type]
    assert [shown.team.name for shown in found] == ["d", "a", "e"] and given == [(7, 3.0)] * 3
    at = "2026-01-01T00:00:00Z"
    doing = {"ann": LastActivity("", "", "working", at, at)}
    assert [(shown.members, shown.waits, shown.usage) for shown in found] == [
        ((("d", (), {}),), ("w",), ()),
        ((("a", (), doing),), ("w",), ()),
        ((("e", (), {}),), ("w",), ()),
    ]
    ns = 1_767_225_600_000_000_000
    assert believed == [("a", "ann", "working", ns, ns)]


# -- watching and hooks ------------------------------------------------------------------------------------------------


def test_teams_are_watched_from_a_time(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    swept: list[Any] = []
    monkeypatch.setattr(module, "Teams", lambda *args, **options: given.append((args, options)))
    monkeypatch.setattr(module, "sweep", lambda spool, now_ns: swept.append((spool, now_ns > 0)))
    teams(environ)
    teams(environ, claude_homes=["/c"], since="1970-01-01T00:00:01Z", with_gone=True, also=[Path("/j")], poll_only=True)
    spool = Path(environ["XDG_STATE_HOME"]) / "beam/hooks"
    plain = {"spool": spool, "also": (), "since_ns": None, "with_gone": False, "poll_only": False}
    assert given == [
        (((f"{environ['HOME']}/.claude",),), plain),
        (
            (("/c",),),
            {"spool": spool, "also": [Path("/j")], "since_ns": 1_000_000_000, "with_gone": True, "poll_only": True},
        ),
    ]
    assert swept == [(spool, True)] * 2


def test_hooks_are_installed_and_removed(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    for name in ("install", "uninstall"):
        monkeypatch.setattr(
            module.hooks_install, name, lambda path, name=name, **options: given.append((name, path, options)) or name
        )
    project = Path("/p")
    assert install_hooks("user", environ=environ, project=project) == "install"  # type: ignore[comparison-overlap]
    environ["BEAM_STATE"] = "/s"
    assert install_hooks("project", environ=environ, project=project) == "install"  # type: ignore[comparison-overlap]
    assert install_hooks("local", environ=environ, project=project, remove=True) == "uninstall"  # type: ignore[comparison-overlap]
    kept = Path(environ["XDG_STATE_HOME"]) / "beam/settings"
    assert [(name, str(path)) for name, path, _ in given] == [
        ("install", f"{environ['HOME']}/.claude/settings.json"),
        ("install", "/p/.claude/settings.json"),
        ("uninstall", "/p/.claude/settings.local.json"),
    ]
    assert [options.get("state") for _, _, options in given] == ["", "/s", None]
    assert given[0][2]["kept"] == kept and set(given[2][2]) == {"kept"}
