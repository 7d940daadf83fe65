"""The git work tree of a run's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from beam.base.errors import DiskError, UsageError
from beam.conversations.repeat_worktree import RepeatWorktree
from beam.conversations.run_worktree import RunWorktrees
from beam.conversations.scenario import Worktree
from beam.process import tree
from beam.worktree import git
from beam.worktree.calls import GitCall

pytestmark = pytest.mark.slow


@pytest.fixture
def worktrees(work_tree: Path, tmp_path: Path) -> RunWorktrees:
    return RunWorktrees(work_tree, {**os.environ, "HOME": str(tmp_path / "home")}, store=tmp_path / "store")


def test_a_work_tree_is_committed_with_the_submodules_that_are_not_there(
    work_tree: Path, worktrees: RunWorktrees, tmp_path: Path
) -> None:
    words = ("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    subprocess.run(["git", *words], cwd=work_tree, check=True)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, "commit", "-qm", "lib"], cwd=work_tree, check=True)
    place = tmp_path / "made"
    made = worktrees.add(place, "branch", "HEAD")
    before = made.snapshot()
    (place / "new").touch()
    done = worktrees.end(made, place, "branch", Worktree(start="HEAD"), before)
    assert done.files == ("new",)
    listed = subprocess.run(["git", "ls-tree", "branch"], cwd=work_tree, check=True, capture_output=True, text=True)
    assert [line.split("\t")[1] for line in listed.stdout.splitlines()] == ["README.md", "lib", "new"]


def git_text(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("start", ["HEAD", "tagged"])
def test_a_run_that_changes_nothing_leaves_no_branch_wherever_it_began(
    work_tree: Path, worktrees: RunWorktrees, tmp_path: Path, start: str
) -> None:
    git_text(work_tree, "tag", "-a", "tagged", "-m", "a tag with a text")
    git_text(work_tree, "tag", "branch", "HEAD")
    made = worktrees.add(tmp_path / "made", "branch", start)
    git_text(work_tree, "commit", "-q", "--allow-empty", "-m", "what the person does in the meantime")
    done = worktrees.end(made, tmp_path / "made", "branch", Worktree(start=start), made.snapshot())
    assert (done.branch, git_text(work_tree, "branch", "--list", "branch")) == ("", "")


LEAVES = [
    [("checkout", "-q", "--detach")],
    [("checkout", "-q", "-b", "own")],
    [("checkout", "-q", "--detach"), ("commit", "-q", "--allow-empty", "-m", "the agent's")],
]


@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("is_killed", [False, True])
def test_what_a_run_changed_is_in_its_branch_even_if_the_work_tree_has_left_it(
    work_tree: Path,
    worktrees: RunWorktrees,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    leaves: list[tuple[str, ...]],
    is_killed: bool,
) -> None:
    place = tmp_path / "made"
    made = worktrees.add(place, "branch", "HEAD")
    before = made.snapshot()
    for words in leaves:
        git_text(place, *words)
    (place / "new").touch()
    if is_killed:
        monkeypatch.setattr(tree, "is_alive", lambda owner: False)
        assert worktrees.remove_leftovers(tmp_path) == ["branch"]
    else:
        assert worktrees.end(made, place, "branch", Worktree(start="HEAD"), before).branch == "branch"
    assert git_text(work_tree, "ls-tree", "--name-only", "branch").split() == ["README.md", "new"]
    assert git_text(work_tree, "rev-list", "--count", "main..branch") == str(len(leaves))
    assert not place.exists()


@pytest.mark.parametrize(
    ("leaves", "why"),
    [
        (("checkout", "-q", "--detach", "HEAD~1"), "and the commit {} there does not contain it"),
        (("branch", "-q", "-m", "own"), "which is gone"),
    ],
)
def test_a_work_tree_whose_changes_can_not_be_added_to_its_branch_stays(
    work_tree: Path,
    worktrees: RunWorktrees,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    leaves: tuple[str, ...],
    why: str,
) -> None:
    place = tmp_path / "made"
    made = worktrees.add(place, "branch", "HEAD")
    before = made.snapshot()
    git_text(place, "commit", "-q", "--allow-empty", "-m", "the agent's")
    git_text(place, *leaves)
    (place / "new").touch()
    monkeypatch.setattr(tree, "is_alive", lambda owner: False)
    assert worktrees.remove_leftovers(tmp_path) == []
    with pytest.raises(UsageError) as error:
        worktrees.end(made, place, "branch", Worktree(start="HEAD"), before)
    head = git_text(place, "rev-parse", "HEAD")
    assert error.value.message == f"the work tree has left its branch branch, {why.format(head[:12])}"
    assert git_text(place, "ls-tree", "--name-only", "HEAD").split() == ["README.md", "new"]


def test_a_work_tree_is_its_runs_from_the_moment_when_it_is_made(
    work_tree: Path, worktrees: RunWorktrees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    called = git.run_one_blocking

    def then_killed(call: GitCall) -> bytes:
        called(call)
        raise KilledError

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(git, "run_one_blocking", then_killed)
        worktrees.add(tmp_path / "made", "branch", "HEAD")
    listed = subprocess.run(["git", "worktree", "list", "--porcelain"], cwd=work_tree, check=True, capture_output=True)
    assert b"\nlocked beam run " in listed.stdout


def test_a_work_tree_that_can_not_be_unlocked_keeps_the_reason_why_its_changes_are_not_in_the_branch(
    work_tree: Path, worktrees: RunWorktrees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(what: str) -> Callable[..., None]:
        def fail(*_: object) -> None:
            raise DiskError(f"the disk is full for {what}")

        return fail

    made = worktrees.add(tmp_path / "made", "branch", "HEAD")
    monkeypatch.setattr(worktrees, "end", fails("the commit"))
    monkeypatch.setattr(worktrees, "unlock", fails("the lock"))
    one = RepeatWorktree(worktrees, made, tmp_path / "made", "branch", Worktree())
    done = one.end(made.snapshot())
    assert (done.branch, done.path) == ("branch", str(tmp_path / "made"))
    assert "the commit" in one.lost
