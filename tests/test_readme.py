"""README.md says what is so: its examples are played with the real beam, in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beam.testing.fake_model import FakeModel
from tests.support import console
from tests.support.cli import Cli
from tests.support.markdown import blocks

pytestmark = pytest.mark.acceptance
README = (Path(__file__).parents[1] / "README.md").read_text()
CONSOLE = blocks(README, "console")
# What the model says to the README's two prompts.
MODEL = {"rules": [{"match": "What does", "text": "It prints the primes below 100."}], "otherwise": "Line 3."}


def test_the_console_examples_print_what_they_promise(beam: Cli) -> None:
    examples = [block.text for block in CONSOLE if block.note != "claude"]

    assert len(examples) >= 4
    assert console.play(beam, examples) == []


@pytest.mark.real
def test_the_claude_example_prints_what_it_promises_with_the_real_claude(beam: Cli, agents_path: str) -> None:
    (example,) = [block.text for block in CONSOLE if block.note == "claude"]

    with FakeModel(MODEL) as model:
        there = beam.with_env({**model.env("claude"), "PATH": agents_path})
        assert console.play(there, [example], timeout=120) == []


def test_the_python_example_runs(beam: Cli) -> None:
    (example,) = blocks(README, "python")
    assert beam("agent", "add", "shout", "--command", "tr a-z A-Z").code == 0

    done = subprocess.run(
        [sys.executable, "-c", example.text],
        cwd=beam.project, env=beam.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == example.text.rpartition("# ")[2].strip()
