"""A repository of another user, which git refuses: each place that asks git says so, and what lets git use it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from beam.base.errors import UsageError
from beam.conversations.changes import FolderChanges
from beam.conversations.run_worktree import RunWorktrees
from beam.worktree.repository import Repository
from tests.support.cli import Cli
from tests.support.repository import make_repository

pytestmark = pytest.mark.slow

SCENARIO = """\
beam: 1
agents:
  s: {{adapter: scripted}}
{more}
steps:
  - send: s
    prompt: {prompt}
    expect:
      - {check}
"""


@pytest.fixture
def environ(work_tree: Path, tmp_path: Path) -> dict[str, str]:
    """An environment in which git takes each repository for one of another user."""
    git = shutil.which("git")
    assert git is not None
    program = tmp_path / "tools/git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {git} "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}


PLACES: dict[str, Callable[[Path, dict[str, str], Path], object]] = {
    "a commit": lambda folder, environ, store: RunWorktrees(folder, environ, store=store).has_commit("HEAD"),
    "a new work tree": lambda folder, environ, store: RunWorktrees(folder, environ, store=store).add(
        store / "own", "branch", "HEAD"
    ),
    "changes": lambda folder, environ, store: FolderChanges(folder, environ, store=store).is_in_repository(),
    "output": lambda folder, environ, store: Repository(folder, environ).output("status"),
    "an answer": lambda folder, environ, store: Repository(folder, environ).succeeds("merge-base", "HEAD", "HEAD"),
}


@pytest.mark.parametrize("place", PLACES)
def test_each_call_of_git_names_what_lets_git_use_it(
    place: str, work_tree: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="belongs to another user") as found:
        PLACES[place](work_tree, environ, tmp_path / "store")
    assert found.value.hint == f"if you trust it: git config --global --add safe.directory {work_tree}"


@pytest.mark.parametrize(
    ("more", "prompt", "check", "code"),
    [
        ("worktree: true", "hi", "files_changed: false", 2),
        ("", "hi", "files_changed: false", 13),
        ("", "hi", "diff: {files: 1}", 13),
    ],
)
def test_a_run_that_needs_git_says_so(
    more: str, prompt: str, check: str, code: int, environ: dict[str, str], tmp_path: Path
) -> None:
    cli = Cli(tmp_path)
    make_repository(cli.project, tmp_path / "home")
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.format(more=more, prompt=prompt, check=check))
    done = cli.with_env({**environ, "BEAM_TRUST": "1"})("run", str(file))
    assert done.code == code, done
    assert "safe.directory" in done.out + done.err and "no git repository" not in done.out + done.err
