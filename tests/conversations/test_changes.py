"""What changed in a folder during a run, by git."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import structs

from beam.base.errors import DiskError
from beam.conversations.changes import Repository
from beam.conversations.scenario import Worktree
from beam.process import owned, tree
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
def repository(folder: Path, tmp_path: Path) -> Iterator[Repository]:
    found = Repository(folder, {**os.environ, "HOME": str(tmp_path / "home")}, store=tmp_path / "store")
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


@pytest.mark.parametrize("way", ["fetch", "filter"])
def test_git_runs_nothing_of_a_repository_that_an_agent_made_in_the_folder(
    folder: Path, repository: Repository, tmp_path: Path, way: str
) -> None:
    ran = tmp_path / "ran"
    before = repository.snapshot()
    make_hostile_repository(folder / "sub", ran, way)
    for _ in range(3):
        assert repository.changes(before, repository.snapshot()).paths == ("sub",)
    assert not ran.exists()


def test_git_runs_nothing_of_what_an_agent_configured_in_the_repository(
    folder: Path, repository: Repository, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    before = repository.snapshot()
    subprocess.run(["git", "config", "filter.x.clean", f"touch {ran}; cat"], cwd=folder, check=True)
    (folder / ".gitattributes").write_text("* filter=x\n")
    (folder / "README.md").write_text("Changed.\n")
    assert set(repository.changes(before, repository.snapshot()).paths) == {".gitattributes", "README.md"}
    assert not ran.exists()


def test_an_agent_that_forges_gits_index_hides_no_change(folder: Path, repository: Repository) -> None:
    before = repository.snapshot()
    (folder / ".git/index").write_bytes(b"nothing")
    (folder / ".git/info/exclude").write_text("*\n")
    (folder / "README.md").write_text("Changed.\n")
    (folder / "new").touch()
    assert set(repository.changes(before, repository.snapshot()).paths) == {"README.md", "new"}


def test_a_repository_without_a_commit_in_the_folder_hides_no_change(folder: Path, repository: Repository) -> None:
    before = repository.snapshot()
    subprocess.run(["git", "init", "-q", "deep/sub"], cwd=folder, check=True)
    (folder / "README.md").write_text("Changed.\n")
    assert repository.changes(before, repository.snapshot()).paths == ("README.md",)


def test_a_work_tree_is_committed_with_the_submodules_that_are_not_there(
    folder: Path, repository: Repository, tmp_path: Path
) -> None:
    words = ("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    subprocess.run(["git", *words], cwd=folder, check=True)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, "commit", "-qm", "lib"], cwd=folder, check=True)
    place = tmp_path / "made"
    made = repository.add_worktree(place, "branch", "HEAD")
    before = made.snapshot()
    (place / "new").touch()
    done = repository.end_worktree(made, place, "branch", Worktree(start="HEAD"), before)
    assert done.files == ("new",)
    listed = subprocess.run(["git", "ls-tree", "branch"], cwd=folder, check=True, capture_output=True, text=True)
    assert [line.split("\t")[1] for line in listed.stdout.splitlines()] == ["README.md", "lib", "new"]


def test_of_a_snapshot_that_could_not_be_begun_nothing_is_left(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.conversations import changes

    def full(path: Path, data: bytes) -> None:
        raise DiskError("no space left")

    monkeypatch.setattr(changes.files, "replace", full)
    for _ in range(2):
        with pytest.raises(DiskError):
            repository.snapshot()
    repository.close()
    assert list((tmp_path / "store").iterdir()) == []


def test_what_a_killed_run_left_of_its_snapshots_goes_with_the_next_one_and_that_of_a_live_one_stays(
    repository: Repository, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    for name, pid in (("dead", 2**22 + 1), ("alive", os.getpid())):
        (store / f".run-{name}.tmp" / "objects").mkdir(parents=True)
        owner = structs.replace(tree.this_process(), pid=pid)
        (store / f".run-{name}.tmp" / "owner").write_text(owned.text_of(owner))
    (store / ".run-nobodys.tmp").mkdir()
    repository.snapshot()
    repository.close()
    assert {path.name for path in store.iterdir()} == {".run-alive.tmp", ".run-nobodys.tmp"}


def test_a_disk_that_is_full_for_git_is_a_full_disk_and_no_mistake_of_the_caller(folder: Path, tmp_path: Path) -> None:
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    full = 'echo "error: file write error: No space left on device" >&2; echo "fatal: it failed" >&2; exit 128'
    git.write_text(f'#!/bin/sh\ncase "$*" in *" write-tree"*) {full};; esac\nexec {shutil.which("git")} "$@"\n')
    git.chmod(0o755)
    environ = {**os.environ, "HOME": str(tmp_path / "home"), "PATH": f"{git.parent}:{os.environ['PATH']}"}
    repository = Repository(folder, environ, store=tmp_path / "store")
    with pytest.raises(DiskError, match="the disk is full") as error:
        repository.snapshot()
    assert error.value.exit_code == 74
    repository.close()


def test_a_work_tree_is_its_runs_from_the_moment_when_it_is_made(
    folder: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.conversations import changes

    class KilledError(Exception):
        pass

    def then_killed(words: list[str], **more: object) -> None:
        subprocess.run(words, **more)  # type: ignore[call-overload]
        raise KilledError

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(changes, "subprocess", SimpleNamespace(**{**vars(subprocess), "run": then_killed}))
        repository.add_worktree(tmp_path / "made", "branch", "HEAD")
    listed = subprocess.run(["git", "worktree", "list", "--porcelain"], cwd=folder, check=True, capture_output=True)
    assert b"\nlocked beam run " in listed.stdout
