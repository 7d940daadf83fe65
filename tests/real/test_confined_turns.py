"""Real CLIs below full access under Landlock: beam's own files are out of their reach, and all else works as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.process import landlock
from tests.conformance.subject import Subject, place

pytestmark = [
    pytest.mark.real,
    pytest.mark.acceptance,
    pytest.mark.skipif(landlock.abi() == 0, reason="left out: this system has no Landlock"),
]
SLOW = pytest.mark.soak


@pytest.fixture
def agent(request: pytest.FixtureRequest, tmp_path: Path, agents_path: str) -> Iterator[Subject]:
    """The CLI that the test is for, in a HOME that is new."""
    yield from place(request.param, tmp_path, agents_path)


def each(*names: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("agent", names, indirect=True)


@each(*(pytest.param(name, marks=SLOW) for name in ("opencode", "kilo")))
def test_at_edit_a_link_in_the_project_leads_no_file_tool_into_beams_state(agent: Subject) -> None:
    project, state = agent.cli.project, agent.cli.base / "home/.local/state/beam"
    queue = state / "projects/other/agents/claude/queue/new"
    queue.mkdir(parents=True)
    (project / "folder").symlink_to(queue)
    (project / "file").symlink_to(queue / "by-file.json")
    tries = (project / "folder/by-folder.json", project / "file", state / "absolute", project / "inside")
    wanted = " ".join(agent.data.write.prompt(path=str(path), text="x") for path in tries)
    done = agent.send(wanted, "--new", access="edit").json
    assert done["status"] in ("completed", "denied"), done
    came = sorted(event["is_error"] for event in agent.events("tool.returned", done["turn"]))
    assert came == [False, True, True, True]
    assert (project / "inside").read_text().strip() == "x"
    assert list(queue.iterdir()) == []
    assert not (state / "absolute").exists()


@each(*(pytest.param(name, marks=SLOW) for name in ("claude", "opencode", "kilo", "gemini", "copilot")))
def test_a_cli_works_and_resumes_at_read_and_at_edit_in_a_home_that_is_new_and_again(agent: Subject) -> None:
    for number, access in enumerate(("read", "edit", "read", "edit")):
        done = agent.send(f"hello {number}", access=access).json
        assert (done["status"], done["session"]) == ("completed", "resumed" if number else "new"), done
        assert f"hello {number}" in done["reply"]
    assert len({done["session_id"] for done in agent.events("turn.finished")}) == 1
    made = agent.cli.project / "made"
    agent.send(agent.data.write.prompt(path=str(made), text="x"), access="edit")
    assert made.read_text().strip() == "x"


@each("pi", *(pytest.param(name, marks=SLOW) for name in ("qwen", "aider", "vibe")))
def test_a_cli_that_only_reads_works_and_resumes_in_a_home_that_is_new_and_again(agent: Subject) -> None:
    for number in range(3):
        done = agent.send(f"hello {number}", access="read").json
        assert (done["status"], done["session"]) == ("completed", "resumed" if number else "new"), done
        assert f"hello {number}" in done["reply"]
