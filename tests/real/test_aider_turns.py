"""What is peculiar to the real aider, through the real `beam`, against the scripted model, in a git repository."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

import pytest

from beam.testing.fake_model import FakeModel
from tests.support.cli import Cli, eventually

pytestmark = [pytest.mark.real, pytest.mark.acceptance]
EDIT = "README.md\n```\nnew\n```\n"  # the whole file: aider's format for a model that it does not know
FILTER = '[ -e "{place}/hang" ] && touch "{place}/hung" && sleep 60\ncat\n'


@pytest.fixture
def aider(beam: Cli, agents_path: str) -> Iterator[Cli]:
    """beam in a place where `aider` edits a file with changes that nobody committed, and git takes long as soon as
    there is a file `hang`: aider commits such changes after its answer, and before its own edit."""
    if shutil.which("aider", path=agents_path) is None:
        pytest.skip("left out: aider does not install here")
    home = beam.base / "home"
    program = beam.base / "filter.sh"
    program.write_text(FILTER.format(place=beam.base))
    with (home / ".gitconfig").open("a") as settings:
        settings.write(f'[filter "slow"]\n\tclean = sh {program}\n')
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "attributes").write_text("*.md filter=slow\n")
    (beam.project / "README.md").write_text("changed\n")
    with FakeModel({"rules": [{"regex": ".", "text": EDIT, "stall": 2}]}) as model:
        yield beam.with_env({"PATH": agents_path, **model.env("aider", home)})


@pytest.mark.soak
def test_an_aider_that_is_killed_after_its_answer_and_before_its_edit_has_crashed(aider: Cli) -> None:
    sending = aider.start("send", "aider", "--access", "full", "--json", "make it new")
    eventually(lambda: "prompt.sent" in aider.types("aider"), 60)
    started = next(event for event in aider.journal("aider") if event["type"] == "agent.started")
    eventually(lambda: "session.started" in aider.types("aider"), 60)
    (aider.base / "hang").touch()
    eventually((aider.base / "hung").exists, 60)
    eventually(lambda: "text" in aider.types("aider"), 30)
    os.kill(started["pid"], 9)
    out, err = sending.communicate(timeout=60)
    outcome = json.loads(out)
    assert (sending.returncode, outcome["status"], outcome["class"]) == (1, "failed", "crashed"), (outcome, err)
    assert "SIGKILL after its answer" in outcome["reason"]
    assert (aider.project / "README.md").read_text() == "changed\n"


@pytest.mark.soak
def test_an_aider_that_says_0_has_made_its_edit(aider: Cli) -> None:
    done = aider("send", "aider", "--access", "full", "--json", "make it new", timeout=120).json
    assert done["status"] == "completed", done
    assert (aider.project / "README.md").read_text() == "new\n"
