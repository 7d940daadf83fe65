"""No process outlives its turn, or its holder, by more than five seconds: through the real beam, for nasty trees."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.process.trees import TREES, in_folder, is_gone
from tests.support.cli import Cli, eventually, kill_hard

pytestmark = pytest.mark.acceptance
PROGRAM = Path(__file__).parent / "trees.py"


@pytest.fixture
def folder(beam: Cli) -> Path:
    """Where the tree's processes leave a file each."""
    folder = beam.base / "tree"
    folder.mkdir()
    return folder


def agent(beam: Cli, kind: str, folder: Path, then: str) -> None:
    beam.config(f"agents:\n  nasty:\n    command: [{sys.executable}, -I, -S, {PROGRAM}, {kind}, {folder}, {then}]\n")


@pytest.mark.parametrize("kind", sorted(TREES))
def test_nothing_of_it_is_left_when_the_turn_is_over(beam: Cli, folder: Path, kind: str) -> None:
    agent(beam, kind, folder, "exit")
    done = beam("send", "nasty", "go", "--json").json
    assert (done["status"], done["class"]) == ("failed", "crashed")  # the program exits with 7
    assert is_gone(folder)


@pytest.mark.parametrize("kind", sorted(TREES))
def test_nothing_of_it_is_left_five_seconds_after_its_holder_was_killed(beam: Cli, folder: Path, kind: str) -> None:
    agent(beam, kind, folder, "stay")
    sending = beam.start("send", "nasty", "go")
    eventually(lambda: any(event["type"] == "text.delta" for event in beam.journal("nasty")))
    assert in_folder(folder)
    kill_hard(sending)
    eventually(lambda: is_gone(folder), 5, "it outlived its holder")


def test_a_timeout_ends_a_tree_that_ignores_every_polite_signal(beam: Cli, folder: Path) -> None:
    agent(beam, "stubborn-cleared-daemon", folder, "stay")
    done = beam("send", "nasty", "go", "--timeout", "1s", "--json")
    assert (done.code, done.json["status"]) == (3, "timeout")
    assert is_gone(folder)
