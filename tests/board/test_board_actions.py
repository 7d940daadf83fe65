"""What a person does from the board, up to the public API."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beam import Beam, BeamError, UsageError
from beam.board.actions import Actions, attempt, seconds_of
from beam.board.rows import Row, agent_key
from tests.board.made import ASK, PROJECT

BUILDER = Row(key=agent_key(PROJECT, "builder"), name="builder", kind="agent", place="p", state="idle", project=PROJECT)
SESSION = Row(key="codex~1", name="codex~1", kind="session", place="/x", state="idle")
MEMBER = Row(key="al@ice@docs", name="al@ice", kind="member", place="docs", state="idle")


class FakeBeam:
    """Records the calls of its methods."""

    def __init__(self) -> None:
        self.home = SimpleNamespace(project=PROJECT)
        self.environ = {"BEAM_ROOT": "/elsewhere", "HOME": "/home/me"}
        self.did: list[tuple[Any, ...]] = []

    def default_access(self, agent: str, via: str | None) -> str:
        """Ask."""
        return "ask"

    def message(self, agent: str, text: str, *, wait: bool, options: Any) -> tuple[str, str, bool, str]:
        """The message."""
        return agent, text, wait, options.access

    def __getattr__(self, name: str) -> Any:
        def verb(*given: Any, **more: Any) -> str:
            self.did.append((name, *given, *more.items()))
            return "done"

        return verb


def fake() -> tuple[FakeBeam, Actions]:
    beam = FakeBeam()
    return beam, Actions(cast("Beam", beam))


def test_a_message_does_not_wait_and_may_ask_where_the_agent_can() -> None:
    beam, does = fake()
    assert does.send(BUILDER, "hi") == "sent done"
    assert beam.did == [("put", ("builder", "hi", False, "ask"))]


def test_each_action_is_one_call_of_the_public_api() -> None:
    beam, does = fake()
    does.steer(BUILDER, "go")
    does.interrupt(BUILDER, "m1")
    does.pause(BUILDER)
    does.decide(PROJECT, ASK, "approve")
    does.decide(PROJECT, ASK, "always")
    does.decide(PROJECT, ASK, "deny")
    assert beam.did == [
        ("steer", "builder", "go"),
        ("interrupt", "m1"),
        ("pause", "builder"),
        ("approve", ASK.id, ("always", False)),
        ("approve", ASK.id, ("always", True)),
        ("deny", ASK.id),
    ]


def test_a_session_that_beam_did_not_start_is_not_changed_and_the_reason_is_reported() -> None:
    beam, does = fake()
    for action in (does.send, does.steer, does.interrupt):
        is_done, text = attempt(lambda action=action: action(SESSION, "x"))  # type: ignore[misc]
        assert not is_done and text.startswith("codex~1 was not started by beam")
    assert beam.did == []


def test_a_member_of_a_team_gets_mail_and_nobody_of_a_team_with_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, str]] = []

    class FakeTeam:
        def __init__(self, environ: object, name: str, *, claude_homes: object) -> None:
            self.team = name if not sent else name + "-2"

        def send(self, to: str, text: str) -> Any:
            sent.append((to, text))
            return SimpleNamespace(to=to, sender="human")

    monkeypatch.setattr("beam.TeamActions", FakeTeam, raising=False)
    _, does = fake()
    assert does.send(MEMBER, "hello").startswith("in the inbox of al@ice")
    assert attempt(lambda: does.send(MEMBER, "again")) == (False, "team docs is gone; beam team list")
    assert sent == [("al@ice", "hello")]


@pytest.mark.slow
def test_tasks_and_mail_of_a_team_are_changed_in_its_own_home_as_beam_team_does(tmp_path: Path) -> None:
    from beam import TeamsHere, create_team

    environ = {"HOME": str(tmp_path)}
    for home in ("one", "two"):  # of the same name in both
        create_team(environ, "docs", claude_homes=[str(tmp_path / home)])
    line, other = (TeamsHere(environ, claude_homes=[str(tmp_path / home)]).teams()[0] for home in ("one", "two"))
    _, does = fake()
    assert does.add_task(line, "Write it") == "#1 Write it: pending"
    assert does.add_task(line, "Test it") == "#2 Test it: pending"
    assert does.block_task(line, "2", "1") == "#2 Test it: pending, waits for 1"
    assert attempt(lambda: does.claim_task(line, "2", "human")) == (False, "task 2 waits for 1; beam team tasks")
    assert does.claim_task(line, "1", "human") == "#1 Write it: pending, human's"
    assert does.start_task(line, "1") == "#1 Write it: in_progress, human's"
    assert does.finish_task(line, "1") == "#1 Write it: completed, human's"
    is_done, text = attempt(lambda: does.mail(line, "team-lead", "well done"))
    assert is_done and text.startswith("in the inbox of team-lead; that it comes from human")
    assert attempt(lambda: does.mail(line, "team-lead", '{"type":"shutdown_request"}'))[0] is False
    assert TeamsHere(environ, claude_homes=[other.home]).tasks("docs") == []


def test_another_folder_has_a_root_of_its_own_whatever_beam_root_says(tmp_path: Path) -> None:
    _, does = fake()
    other = does.beam_for_project(tmp_path)
    assert "BEAM_ROOT" not in other.environ and other is does.beam_for_project(tmp_path)


def test_what_went_wrong_is_reported_with_what_to_do() -> None:
    def fails() -> str:
        raise UsageError("no such agent", "beam status")

    def breaks() -> str:
        raise OSError("disk full")

    assert issubclass(UsageError, BeamError)
    assert attempt(fails) == (False, "no such agent; beam status") and attempt(breaks) == (False, "disk full")
    assert attempt(lambda: "done") == (True, "done")
    assert seconds_of("1970-01-01T00:00:02Z") == 2 and seconds_of("yesterday") is None
