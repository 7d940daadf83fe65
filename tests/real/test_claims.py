"""What single cards claim, shown with the real CLI through the real `beam`, against the scripted model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, Ended

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"


class Agent:
    """One CLI in its scratch place, with the model that it talks to."""

    def __init__(self, name: str, beam: Cli, path: str, model: FakeModel) -> None:
        self.name = name
        self.model = model
        self.cli = beam.with_env({"PATH": path, **model.env(name, beam.base / "home")})

    def send(self, text: str, *options: str) -> Ended:
        return self.cli("send", self.name, "--json", *options, "--", text, timeout=300)

    def sent(self) -> str:
        """All that the model was sent, as JSON."""
        return json.dumps([request.body for request in self.model.requests if request.asked is not None])


@pytest.fixture
def agent(request: pytest.FixtureRequest, beam: Cli, agents_path: str) -> Iterator[Agent]:
    """The CLI that the test is for."""
    if shutil.which(request.param, path=agents_path) is None:
        pytest.skip(f"left out: {request.param} does not install here")
    with FakeModel() as model:
        yield Agent(request.param, beam, agents_path, model)


def each(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("agent", names, indirect=True)


@pytest.mark.soak
@each("opencode", "copilot")
def test_an_attached_file_reaches_the_model(agent: Agent) -> None:
    note = agent.cli.project / "a note.txt"
    note.write_text("the plums are ripe\n")
    done = agent.send("look", "--attach", str(note))
    assert done.json["status"] == "completed", done
    assert "the plums are ripe" in agent.sent() or str(note) in agent.sent()


@pytest.mark.soak
@each("qwen")
def test_max_turns_ends_a_turn_that_calls_tools_without_end(agent: Agent) -> None:
    call = f"!tool list_directory {json.dumps({'path': str(agent.cli.project)})}"
    done: Any = agent.send(f"{call} !then {call} !then {call} !then !say done", "--max-turns", "1").json
    assert (done["status"], done["reply"]) == ("limit", None), done


@pytest.mark.soak
def test_access_read_of_aider_changes_no_file_though_the_model_answers_with_an_edit_and_full_does(
    beam: Cli, agents_path: str
) -> None:
    if shutil.which("aider", path=agents_path) is None:
        pytest.skip("left out: aider does not install here")
    edit = "plums.txt\n```\nnew\n```\n"  # the whole file: aider's format for a model that it does not know
    with FakeModel({"replies": [edit, edit]}) as model:
        agent = Agent("aider", beam, agents_path, model)
        done = agent.send("make plums.txt", "--access", "read")
        assert done.json["status"] == "completed", done
        assert not (agent.cli.project / "plums.txt").exists()
        assert agent.send("make plums.txt", "--access", "full").json["status"] == "completed"
        assert (agent.cli.project / "plums.txt").read_text() == "new\n"
