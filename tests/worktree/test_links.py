"""Links in a folder lead beam nowhere when its work tree is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.root.git_place import GitPlace
from beam.worktree.calls import GitCall
from beam.worktree.index import prepare_index
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
    times = b"  ctime: 1:0\n  mtime: 1:0\n  dev: 1\tino: 1\n  uid: 0\tgid: 0\n  size: 0\tflags: 0\n"
    listing = b"".join(b"S 120000 c0ffee 0\t" + path + b"\0" + times for path in (b"dangling", b"absent"))
    asked: list[tuple[tuple[str, ...], bytes | None]] = []

    def git(*words: str, stdin: bytes | None = None) -> GitCall:
        asked.append((words, stdin))
        return GitCall(argv=words, word=words[0], cwd=tmp_path, env={}, stdin=stdin, within_s=1.0)

    calls = prepare_index(git, tmp_path, 2, keep_absent=True)
    next(calls)
    calls.send(listing)
    calls.send(b"")
    assert asked[-1] == (("update-index", "-z", "--index-info"), b"120000 c0ffee 0\tdangling")
