"""What beam says of the file that a real agent CLI wrote in a turn, for every CLI that can write: `beam diff`, and
`expect: files_changed` of a scenario."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.agents import registry
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


@pytest.mark.parametrize(
    "agent",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.soak) for name in ADAPTERS],
    indirect=True,
)
def test_a_file_that_the_agent_and_git_name_is_counted_once_in_each_mode(agent: Subject) -> None:
    access = "edit" if "edit" in agent.can.access else "full"
    modes = {"exec", "dialogue"} & registry.adapter(agent.name).card.faces.keys()
    assert modes
    for via in modes:
        made = agent.cli.project / f"made-{via}"
        prompt = agent.data.write.prompt(path=str(made), text="by the agent")
        own = [".aider*", ".gitignore", "path"] if agent.name == "aider" else []  # and the file of its own example
        check = {"least": 1, "only": [made.name, *own], **({} if own else {"most": 1})}
        step = {"send": agent.name, "via": via, "access": access, "prompt": prompt, "expect": {"files_changed": check}}
        (agent.cli.project / "s.yaml").write_text(json.dumps({"beam": 1, "steps": [step]}))
        done = agent.cli.with_env({"BEAM_TRUST": "1"})("run", "s.yaml", "--json", timeout=240)
        assert done.code == 0, done.json["why"]
