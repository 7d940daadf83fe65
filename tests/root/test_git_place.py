"""Where a folder lies in git, as git's own files say; what is no such file is nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from beam.root.git_place import GitPlace, git_place


def git(folder: Path, *args: str) -> str:
    command = ["git", "-c", "user.email=a@example.com", "-c", "user.name=a", *args]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "begin")
    return folder


@pytest.mark.slow
def test_a_folder_in_a_repository_has_its_branch_also_further_down(repository: Path) -> None:
    (repository / "src").mkdir()
    place = GitPlace(branch="main", commit=None, work_tree=str(repository), repository=str(repository / ".git"))
    assert git_place(repository) == git_place(repository / "src") == place
    git(repository, "switch", "-q", "-c", "fix/parser")
    found = git_place(repository)
    assert found is not None and found.branch == "fix/parser"


@pytest.mark.slow
def test_a_linked_work_tree_has_its_own_branch_and_the_same_repository(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "review", str(tmp_path / "beside"))
    found = git_place(tmp_path / "beside")
    assert found == GitPlace(
        branch="review", commit=None, work_tree=str(tmp_path / "beside"), repository=str(repository / ".git")
    )


@pytest.mark.slow
def test_a_commit_that_is_checked_out_by_itself_is_named_by_its_beginning(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    found = git_place(repository)
    assert found is not None and (found.branch, found.commit) == (None, git(repository, "rev-parse", "HEAD")[:12])


@pytest.mark.slow
def test_a_repository_without_a_commit_has_a_branch_already(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    found = git_place(tmp_path)
    assert found is not None and found.branch == "trunk"


def test_what_is_no_repository_is_nothing_and_nobody_waits_for_it(tmp_path: Path) -> None:
    assert git_place(tmp_path) is None
    os.mkfifo(tmp_path / ".git")
    assert git_place(tmp_path) is None
    (tmp_path / ".git").unlink()
    (tmp_path / ".git").write_bytes(b"x" * 100_000)
    assert git_place(tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: nowhere\n")
    assert git_place(tmp_path) is None
