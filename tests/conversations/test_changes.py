"""What changed in a folder during a run, by git."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from beam.base.errors import DiskError
from beam.conversations.changes import FolderChanges
from beam.process import owned, tree
from tests.support.repository import make_hostile_repository

pytestmark = pytest.mark.slow


@pytest.fixture
def changes(work_tree: Path, tmp_path: Path) -> Iterator[FolderChanges]:
    found = FolderChanges(work_tree, {**os.environ, "HOME": str(tmp_path / "home")}, store=tmp_path / "store")
    yield found
    found.close()


def mark(work_tree: Path, how: str) -> None:
    subprocess.run(["git", "update-index", how, "README.md"], cwd=work_tree, check=True)


@pytest.mark.parametrize("how", ["--assume-unchanged", "--skip-worktree"])
@pytest.mark.parametrize("text", ["Changed, and hidden from git.\n", None])
def test_an_agent_that_tells_git_not_to_look_at_a_file_hides_no_change_of_it(
    work_tree: Path, changes: FolderChanges, how: str, text: str | None
) -> None:
    before = changes.snapshot()
    mark(work_tree, how)
    if text is None:
        (work_tree / "README.md").unlink()
    else:
        (work_tree / "README.md").write_text(text)
    assert changes.changes(before, changes.snapshot()).paths == ("README.md",)


def test_what_a_sparse_checkout_leaves_out_is_no_change(work_tree: Path, changes: FolderChanges) -> None:
    (work_tree / "here").touch()
    (work_tree / "README.md").unlink()
    mark(work_tree, "--skip-worktree")
    assert changes.changes(changes.snapshot(), changes.snapshot()).paths == ()


@pytest.mark.parametrize("way", ["fetch", "filter"])
def test_git_runs_nothing_of_a_repository_that_an_agent_made_in_the_folder(
    work_tree: Path, changes: FolderChanges, tmp_path: Path, way: str
) -> None:
    ran = tmp_path / "ran"
    before = changes.snapshot()
    make_hostile_repository(work_tree / "sub", ran, way)
    for _ in range(3):
        assert changes.changes(before, changes.snapshot()).paths == ("sub",)
    assert not ran.exists()


def test_git_runs_nothing_of_what_an_agent_configured_in_the_repository(
    work_tree: Path, changes: FolderChanges, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    before = changes.snapshot()
    subprocess.run(["git", "config", "filter.x.clean", f"touch {ran}; cat"], cwd=work_tree, check=True)
    (work_tree / ".gitattributes").write_text("* filter=x\n")
    (work_tree / "README.md").write_text("Changed.\n")
    assert set(changes.changes(before, changes.snapshot()).paths) == {".gitattributes", "README.md"}
    assert not ran.exists()


def test_an_agent_that_forges_gits_index_hides_no_change(work_tree: Path, changes: FolderChanges) -> None:
    before = changes.snapshot()
    (work_tree / ".git/index").write_bytes(b"nothing")
    (work_tree / ".git/info/exclude").write_text("*\n")
    (work_tree / "README.md").write_text("Changed.\n")
    (work_tree / "new").touch()
    assert set(changes.changes(before, changes.snapshot()).paths) == {"README.md", "new"}


def test_a_repository_without_a_commit_in_the_folder_hides_no_change(work_tree: Path, changes: FolderChanges) -> None:
    before = changes.snapshot()
    subprocess.run(["git", "init", "-q", "deep/sub"], cwd=work_tree, check=True)
    (work_tree / "README.md").write_text("Changed.\n")
    assert changes.changes(before, changes.snapshot()).paths == ("README.md",)


def test_of_a_snapshot_that_could_not_be_begun_nothing_is_left(
    changes: FolderChanges, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise DiskError("no space left")

    monkeypatch.setattr("beam.worktree.snapshots.files.replace", full)
    for _ in range(2):
        with pytest.raises(DiskError):
            changes.snapshot()
    changes.close()
    assert list((tmp_path / "store").iterdir()) == []


def test_what_an_agent_writes_into_the_persons_own_git_configuration_counts_for_nothing(
    work_tree: Path, changes: FolderChanges, tmp_path: Path
) -> None:
    ran, home = tmp_path / "ran", tmp_path / "home"
    before = changes.snapshot()
    (tmp_path / "ignored").write_text("*\n")
    with (home / ".gitconfig").open("a") as file:
        file.write(f'[core]\n\texcludesFile = {tmp_path}/ignored\n[filter "x"]\n\tclean = "touch {ran}; cat"\n')
    (work_tree / ".gitattributes").write_text("* filter=x\n")
    (work_tree / "README.md").write_text("Changed.\n")
    assert set(changes.changes(before, changes.snapshot()).paths) == {".gitattributes", "README.md"}
    assert not ran.exists()


@pytest.mark.parametrize("where", ["shop/.git/info/exclude", "home/.config/git/ignore", "named"])
def test_what_git_ignored_for_the_person_before_the_run_is_no_change(
    work_tree: Path, changes: FolderChanges, tmp_path: Path, where: str
) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("*.swp\n")
    if where == "named":
        with (tmp_path / "home/.gitconfig").open("a") as file:
            file.write(f"[core]\n\texcludesFile = {path}\n")
    before = changes.snapshot()
    (work_tree / "x.swp").touch()
    (work_tree / "new").touch()
    assert changes.changes(before, changes.snapshot()).paths == ("new",)


def test_a_lock_that_a_killed_git_left_keeps_no_snapshot_from_being_made(
    work_tree: Path, changes: FolderChanges, tmp_path: Path
) -> None:
    before = changes.snapshot()
    next((tmp_path / "store").glob(".run-*")).joinpath("index.lock").touch()
    assert changes.snapshot() == before


def test_in_a_part_of_a_repository_only_that_part_counts(work_tree: Path, tmp_path: Path) -> None:
    (work_tree / "part").mkdir()
    (work_tree / "part/one").write_text("1\n")
    found = FolderChanges(work_tree / "part", {**os.environ, "HOME": str(tmp_path / "home")}, store=tmp_path / "store")
    before = found.snapshot()
    (work_tree / "README.md").write_text("Changed.\n")
    (work_tree / "part/one").write_text("2\n")
    subprocess.run(["git", "init", "-q", "part/sub"], cwd=work_tree, check=True)
    after = found.snapshot()
    assert found.changes(before, after).paths == ("one",)
    (work_tree / "part/one").write_text("1\n")
    assert found.apply(found.patch(before, after)) == ""
    assert (work_tree / "part/one").read_text() == "2\n"
    found.close()


def test_what_a_killed_run_left_of_its_snapshots_goes_with_the_next_one_and_that_of_a_live_one_stays(
    changes: FolderChanges, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    for name, pid in (("dead", 2**22 + 1), ("alive", os.getpid())):
        (store / f".run-{name}.tmp" / "objects").mkdir(parents=True)
        owner = structs.replace(tree.this_process(), pid=pid)
        (store / f".run-{name}.tmp" / "owner").write_text(owned.owner_text(owner))
    (store / ".run-nobodys.tmp").mkdir()
    changes.snapshot()
    changes.close()
    assert {path.name for path in store.iterdir()} == {".run-alive.tmp", ".run-nobodys.tmp"}


def test_a_disk_that_is_full_for_git_is_a_full_disk_and_no_mistake_of_the_caller(
    work_tree: Path, tmp_path: Path
) -> None:
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    full = 'echo "error: file write error: No space left on device" >&2; echo "fatal: it failed" >&2; exit 128'
    git.write_text(f'#!/bin/sh\ncase "$*" in *" write-tree"*) {full};; esac\nexec {shutil.which("git")} "$@"\n')
    git.chmod(0o755)
    environ = {**os.environ, "HOME": str(tmp_path / "home"), "PATH": f"{git.parent}:{os.environ['PATH']}"}
    changes = FolderChanges(work_tree, environ, store=tmp_path / "store")
    with pytest.raises(DiskError, match="the disk is full") as error:
        changes.snapshot()
    assert error.value.exit_code == 74
    changes.close()
