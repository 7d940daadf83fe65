"""Snapshots of a git work tree: what is recorded, what is not, and that nothing of the folder takes effect."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from beam.base.errors import UnsupportedError
from beam.turns.snapshot import WorkTree
from beam.worktree.calls import GitError
from beam.worktree.snapshots import Bounds, ChangedFile
from tests.support.repository import make_hostile_repository, make_repository

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder, home = tmp_path / "shop", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    make_repository(folder, home)
    return folder


@pytest.fixture
def tree(folder: Path, tmp_path: Path) -> WorkTree:
    return WorkTree.of(tmp_path / "snapshots", folder, os.environ)


def take(tree: WorkTree) -> str:
    return asyncio.run(tree.take("worker"))


def changed(tree: WorkTree, before: str) -> list[tuple[str, int | None, int | None]]:
    async def compared() -> tuple[ChangedFile, ...]:
        return (await tree.compare(before, await tree.take_beside("worker"))).files

    return [(file.path, file.added, file.removed) for file in asyncio.run(compared())]


def test_new_changed_and_removed_files_are_found_committed_or_not(folder: Path, tree: WorkTree) -> None:
    (folder / "gone").write_text("1\n")
    before = take(tree)
    (folder / "README.md").write_text("Another project.\nOf two lines.\n")
    (folder / "gone").unlink()
    (folder / "sub").mkdir()
    (folder / "sub" / "bin").write_bytes(b"\0\1")
    subprocess.run(["git", "add", "sub"], cwd=folder, check=True)
    assert changed(tree, before) == [("README.md", 2, 1), ("gone", 0, 1), ("sub/bin", None, None)]


def test_what_was_changed_before_the_snapshot_is_no_change(folder: Path, tree: WorkTree) -> None:
    (folder / "README.md").write_text("Mine, and not committed.\n")
    assert changed(tree, take(tree)) == []


def test_what_git_ignores_is_left_out(folder: Path, tree: WorkTree) -> None:
    (folder / ".gitignore").write_text("build\n")
    before = take(tree)
    (folder / "build").write_text("made")
    assert changed(tree, before) == []


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_was_told_not_to_look_at_is_looked_at(folder: Path, tree: WorkTree, mark: str) -> None:
    subprocess.run(["git", "update-index", mark, "README.md"], cwd=folder, check=True)
    before = take(tree)
    (folder / "README.md").write_text("Changed, and hidden from git.\n")
    assert changed(tree, before) == [("README.md", 1, 1)]


def test_what_a_sparse_checkout_leaves_out_is_no_change(folder: Path, tree: WorkTree) -> None:
    (folder / "README.md").unlink()
    subprocess.run(["git", "update-index", "--skip-worktree", "README.md"], cwd=folder, check=True)
    assert changed(tree, take(tree)) == []


def test_the_folders_repository_is_not_changed(folder: Path, tree: WorkTree) -> None:
    def stands() -> list[tuple[str, bytes]]:
        return sorted((str(path), path.read_bytes()) for path in (folder / ".git").rglob("*") if path.is_file())

    was = stands()
    (folder / "new").write_text("x")
    changed(tree, take(tree))
    assert stands() == was


def test_a_filter_hook_or_monitor_of_the_folder_is_not_run(folder: Path, tree: WorkTree, tmp_path: Path) -> None:
    mark, touch = tmp_path / "mark", f"touch {tmp_path / 'mark'}"
    with (folder / ".git" / "config").open("a") as file:
        file.write(f'[core]\n\tfsmonitor = "{touch};false"\n[filter "x"]\n\tclean = "{touch};cat"\n\trequired = true\n')
        file.write(f'[diff "x"]\n\tcommand = "{touch}"\n\ttextconv = "{touch}"\n[diff]\n\texternal = "{touch}"\n')
    (folder / ".gitattributes").write_text("* filter=x diff=x\n")
    for name in ("post-index-change", "reference-transaction", "pre-commit"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{touch}\n")
        hook.chmod(0o755)
    before = take(tree)
    (folder / "README.md").write_text("Changed.\n")
    assert changed(tree, before) == [("README.md", 1, 1)]
    assert not mark.exists()


def test_a_link_is_recorded_and_not_followed(folder: Path, tree: WorkTree, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("one\n")
    (folder / "link").symlink_to(tmp_path / "secret")
    before = take(tree)
    (tmp_path / "secret").write_text("two\n")
    assert changed(tree, before) == []


def test_a_pipe_is_left_out_and_keeps_nobody_waiting(folder: Path, tree: WorkTree) -> None:
    before = take(tree)
    os.mkfifo(folder / "pipe")
    assert changed(tree, before) == []


@pytest.mark.parametrize(
    "bounds, said", [(Bounds(within_s=5.0, largest_kib=8), "git add"), (Bounds(within_s=0.0), "longer than")]
)
def test_a_file_that_is_too_large_and_git_that_takes_too_long_make_it_fail(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: Bounds, said: str
) -> None:
    monkeypatch.setattr("beam.turns.snapshot._BOUNDS", bounds)
    (folder / "large").write_bytes(os.urandom(64 << 10))
    with pytest.raises(GitError, match=said):
        take(WorkTree.of(tmp_path / "snapshots", folder, os.environ))


def test_an_index_that_is_damaged_or_was_left_locked_is_made_anew(folder: Path, tree: WorkTree, tmp_path: Path) -> None:
    before = take(tree)
    index = tmp_path / "snapshots" / "index-worker"
    index.write_bytes(b"no index")
    index.with_name("index-worker.lock").touch()
    assert take(tree) == before


def test_what_the_repository_has_is_not_stored_again(folder: Path, tree: WorkTree, tmp_path: Path) -> None:
    (folder / "large").write_bytes(os.urandom(1 << 20))
    subprocess.run(["git", "add", "large"], cwd=folder, check=True)
    take(tree)
    stored = sum(path.stat().st_size for path in (tmp_path / "snapshots" / "objects").rglob("*") if path.is_file())
    assert stored < 10_000


def test_outside_of_a_work_tree_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no git work tree"):
        WorkTree.of(tmp_path / "snapshots", tmp_path, os.environ)


def test_without_git_the_reason_is_told(folder: Path, tmp_path: Path) -> None:
    tree = WorkTree.of(tmp_path / "snapshots", folder, {"PATH": str(tmp_path)})
    with pytest.raises(GitError, match="git is not installed"):
        take(tree)


@pytest.mark.parametrize("way", ["fetch", "filter"])
def test_git_runs_nothing_of_a_repository_that_was_made_in_the_folder(
    folder: Path, tree: WorkTree, tmp_path: Path, way: str
) -> None:
    mark = tmp_path / "ran"
    make_hostile_repository(folder / "sub", mark, way)
    before = take(tree)
    assert take(tree) == before
    (folder / "README.md").write_text("Changed.\n")
    assert changed(tree, before) == [("README.md", 1, 1)]
    assert not mark.exists()
    subprocess.run(["git", "-C", str(folder / "sub"), "status"], capture_output=True, check=False)
    assert mark.exists()  # git alone runs it


def test_a_repository_without_a_commit_in_the_folder_hides_no_change(folder: Path, tree: WorkTree) -> None:
    before = take(tree)
    subprocess.run(["git", "init", "-q", "deep/sub"], cwd=folder, check=True)
    (folder / "README.md").write_text("Changed.\n")
    assert changed(tree, before) == [("README.md", 1, 1)]


def test_an_agent_that_forges_gits_index_hides_no_change_of_a_turn_beside_others(folder: Path, tree: WorkTree) -> None:
    before = asyncio.run(tree.take_beside("worker"))
    (folder / "README.md").write_text("Changed, and hidden.\n")
    os.utime(folder / "README.md", (1, 1))
    subprocess.run(["git", "add", "README.md"], cwd=folder, check=True)
    blob = subprocess.run(["git", "rev-parse", "HEAD:README.md"], cwd=folder, check=True, capture_output=True).stdout
    new = subprocess.run(["git", "rev-parse", ":README.md"], cwd=folder, check=True, capture_output=True).stdout
    index = folder / ".git/index"
    forged = index.read_bytes()[:-20].replace(bytes.fromhex(new.decode()), bytes.fromhex(blob.decode()))
    index.write_bytes(forged + hashlib.sha1(forged).digest())
    assert changed(tree, before) == [("README.md", 1, 1)]
