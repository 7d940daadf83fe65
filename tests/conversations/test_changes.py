"""What changed in a folder during a run, by git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.conversations.changes import Repository
from tests.support.repository import make_repository

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder, home = tmp_path / "shop", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    make_repository(folder, home)
    return folder


@pytest.fixture
def repository(folder: Path, tmp_path: Path) -> Iterator[Repository]:
    found = Repository(folder, {**os.environ, "HOME": str(tmp_path / "home")})
    yield found
    found.close()


def mark(folder: Path, how: str) -> None:
    subprocess.run(["git", "update-index", how, "README.md"], cwd=folder, check=True)


@pytest.mark.parametrize("how", ["--assume-unchanged", "--skip-worktree"])
@pytest.mark.parametrize("text", ["Changed, and hidden from git.\n", None])
def test_an_agent_that_tells_git_not_to_look_at_a_file_hides_no_change_of_it(
    folder: Path, repository: Repository, how: str, text: str | None
) -> None:
    before = repository.snapshot()
    mark(folder, how)
    if text is None:
        (folder / "README.md").unlink()
    else:
        (folder / "README.md").write_text(text)
    assert repository.changes(before, repository.snapshot()).paths == ("README.md",)


def test_what_a_sparse_checkout_leaves_out_is_no_change(folder: Path, repository: Repository) -> None:
    (folder / "here").touch()
    (folder / "README.md").unlink()
    mark(folder, "--skip-worktree")
    assert repository.changes(repository.snapshot(), repository.snapshot()).paths == ()
