"""Links in a folder lead beam nowhere when its work tree is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.root.git_place import GitPlace
from beam.worktree.index import unchecked_files
from beam.worktree.snapshots import Bounds, Snapshots


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name in ("objects", "refs"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return folder


def test_an_index_that_is_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"not the folder's")
    (folder / ".git/index").symlink_to(tmp_path / "secret")
    place = GitPlace(work_tree=str(folder), repository=str(folder / ".git"), branch=None, commit=None)
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.touch(mode=0o755)
    snapshots = Snapshots(tmp_path / "own", place, {"PATH": str(git.parent)}, bounds=Bounds(within_s=1.0))
    snapshots.make_directory()
    assert list(snapshots.copy_index(tmp_path / "own" / "index")) == []  # no call of git: nothing was read
    assert not (tmp_path / "own" / "index").exists()


def test_a_marked_link_that_leads_nowhere_is_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    found = unchecked_files(b"S dangling\0S absent\0", tmp_path)
    assert (found.skipped, found.absent) == ({b"dangling"}, {b"absent"})
    assert found.unmark_arguments() == [(("--no-skip-worktree", "-z", "--stdin"), b"dangling")]
