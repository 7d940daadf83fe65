"""`beam undo` after the first turn of a real agent CLI, in every mode in which it can write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import screens
from tests.conformance.adapters import COLUMNS
from tests.conformance.subject import Subject, place

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
QUICK = ("claude", "codex-dialogue")
NAMES_NONE = {  # in these modes the CLI names no file that it changed
    "aider", "kimi", "cline", "cn", "gemini-terminal", "qwen-terminal", "opencode-terminal", "copilot-terminal",
    "aider-terminal",
}  # fmt: skip


@pytest.fixture
def outside(request: pytest.FixtureRequest, tmp_path: Path, agents_path: str) -> Iterator[Subject]:
    """The same in a folder outside of git."""
    yield from place(request.param, tmp_path, agents_path, is_repository=False)


@pytest.fixture
def agent(request: pytest.FixtureRequest, tmp_path: Path, agents_path: str) -> Iterator[Subject]:
    """The CLI that the test is for, in a git work tree."""
    at = screens.place if COLUMNS[request.param].face == "terminal" else place
    yield from at(request.param, tmp_path, agents_path)


@pytest.mark.parametrize(
    "agent",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.conformance) for name in COLUMNS],
    indirect=True,
)
def test_what_its_first_turn_wrote_is_taken_back_and_nothing_else(agent: Subject) -> None:
    made, mine = agent.cli.project / "made", agent.cli.project / "mine"
    mine.write_text("by a person\n")
    access = next((each for each in ("edit", "full") if each in agent.can.access), None)
    begins = screens.SCREENS[agent.name].begins if agent.face == "terminal" else ""
    outcome = agent.send(begins + agent.data.write.prompt(path=str(made), text="by the agent"), access=access).json
    assert outcome["status"] == "completed" and made.read_text().strip() == "by the agent", outcome
    mine.write_text("by a person since\n")
    done = agent.cli("undo", agent.name, "--json", timeout=120)
    (found,) = (file for file in done.json["files"] if file["path"] == "made")  # aider makes files of its own, too
    assert found["left"] == ("not_named" if agent.column.id in NAMES_NONE else None), done
    if found["left"] is not None:
        assert made.exists() and agent.cli("undo", agent.name, "--all-files", timeout=120).code == 0
    assert (made.exists(), mine.read_text()) == (False, "by a person since\n")
    redone = agent.cli("undo", agent.name, "--redo", timeout=120)
    assert redone.code == 0 and made.read_text().strip() == "by the agent", redone


@pytest.mark.parametrize(
    "outside",
    [
        pytest.param(name, marks=() if name == "codex" else pytest.mark.conformance)
        for name in ("codex", "claude-dialogue", "gemini")
    ],
    indirect=True,
)
def test_outside_of_git_what_it_wrote_is_taken_back_too(outside: Subject) -> None:
    made = outside.cli.project / "made"
    outcome = outside.send(outside.data.write.prompt(path=str(made), text="by the agent"), access="edit").json
    assert outcome["status"] == "completed" and made.read_text().strip() == "by the agent", outcome
    assert "+by the agent" in outside.cli("diff", outside.name).out
    done = outside.cli("undo", outside.name, timeout=120)
    assert (done.code, done.out, made.exists()) == (0, "remove\tmade\n", False), done
    redone = outside.cli("undo", outside.name, "--redo", timeout=120)
    assert redone.code == 0 and made.read_text().strip() == "by the agent", redone


@pytest.mark.conformance
@pytest.mark.parametrize("agent", ["claude-dialogue", "codex-dialogue"], indirect=True)
@pytest.mark.parametrize("keeper", ["worker", "broker"])
def test_a_process_that_is_kept_ends_and_the_session_goes_on(agent: Subject, keeper: str) -> None:
    made = agent.cli.project / "made"
    if keeper == "broker":
        assert agent.cli("broker", "start").code == 0
    prompt = agent.data.write.prompt(path=str(made), text="by the agent")
    outcome = agent.send(prompt, *(("--keep", "5m") if keeper == "worker" else ()), access="edit").json
    assert outcome["status"] == "completed" and made.exists(), outcome
    done = agent.cli("undo", agent.name, timeout=120)
    assert (done.code, done.out, made.exists()) == (0, "remove\tmade\n", False), done
    again = agent.send("PLAIN", access="edit").json
    assert (again["status"], again["session"]) == ("completed", "resumed"), again
    agent.cli("broker", "stop", "--grace", "0s")
    agent.cli("agent", "release", agent.name)
