"""Every agent CLI once in a folder that is in no git repository, as a person's first trial often is; all other tests of
them work in one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.testing.conformance.subject import WAIT
from beam.testing.fake_model import FakeModel
from tests.conformance.adapters import ADAPTERS
from tests.conformance.subject import Subject, place
from tests.support.repository import is_in_repository

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
SCREENS = ("claude", "codex", "gemini", "opencode", "aider", "qwen", "copilot")
ANSWER = "plain words"
QUICK = ("codex",)


@pytest.fixture
def agent(request: pytest.FixtureRequest, tmp_path: Path, agents_path: str) -> Iterator[Subject]:
    """The CLI that the test is for, in a plain folder."""
    model = FakeModel({"rules": [{"match": "PLAIN", "text": ANSWER}]})
    for subject in place(request.param, tmp_path, agents_path, model, is_repository=False):
        if request.param == "claude":
            known = {"hasCompletedOnboarding": True, "theme": "dark"}
            (subject.cli.base / "home" / ".claude.json").write_text(json.dumps(known))
        assert not is_in_repository(subject.cli.project)
        yield subject


def each(*names: str) -> pytest.MarkDecorator:
    """For each of the CLIs; `make test` takes those that start quickly, `make soak` all."""
    marks = {name: () if name in QUICK else pytest.mark.soak for name in names}
    return pytest.mark.parametrize("agent", [pytest.param(name, marks=marks[name]) for name in names], indirect=True)


@each(*ADAPTERS)
def test_headless_it_answers_outside_of_a_repository(agent: Subject) -> None:
    done = agent.send("PLAIN here")
    assert (done.code, done.json["status"], done.json["reply"]) == (0, "completed", ANSWER), done
    assert not (agent.cli.project / ".git").exists()


@pytest.mark.soak
@each(*SCREENS)
def test_on_its_screen_it_answers_outside_of_a_repository(agent: Subject) -> None:
    assert agent.cli("trust", "--yes").code == 0
    done = agent.cli("send", agent.name, "--via", "terminal", "--json", "PLAIN here", timeout=WAIT)
    assert (done.code, done.json["status"], done.json["reply"]) == (0, "completed", ANSWER), done
    agent.cli("broker", "stop", "--grace", "0s")
