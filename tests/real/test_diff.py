"""`beam diff` after a turn in which a real agent CLI wrote a file, for every CLI that can write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.adapters import ADAPTERS
from tests.conformance.subject import Subject, place

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
QUICK = ("codex",)


@pytest.fixture
def agent(request: pytest.FixtureRequest, tmp_path: Path, agents_path: str) -> Iterator[Subject]:
    """The CLI that the test is for, in a git work tree."""
    yield from place(request.param, tmp_path, agents_path)


@pytest.mark.parametrize(
    "agent",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.soak) for name in ADAPTERS],
    indirect=True,
)
def test_what_a_turn_wrote_is_its_diff_and_what_was_there_before_is_not(agent: Subject) -> None:
    (agent.cli.project / "mine").write_text("by a person\n")
    access = "edit" if "edit" in agent.can.access else "full"
    prompt = agent.data.write.prompt(path=str(agent.cli.project / "made"), text="by the agent")
    outcome = agent.send(prompt, access=access).json
    assert outcome["status"] == "completed", outcome
    found = agent.cli("diff", agent.name, "--json").json
    paths = {file["path"] for file in found["files"]}  # aider makes files of its own, too
    assert "made" in paths and "mine" not in paths and "+by the agent" in found["patch"], found
