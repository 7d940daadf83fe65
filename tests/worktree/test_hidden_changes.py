"""Each way in which git can be kept from looking at a changed file, for each reader that compares what git sees: none
hides a change. Times are set, so that nothing depends on when a second ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beam.conversations.changes import FolderChanges
from beam.conversations.run_worktree import RunWorktrees
from beam.conversations.scenario import Worktree
from beam.turns.snapshot import WorkTree

pytestmark = pytest.mark.slow

LONG_AGO = 1_000_000_000
OLD, NEW = "honest\n", "hidden\n"  # of one size
Paths = tuple[str, ...]


class Reader:
    """What compares the files before a turn and after it: those in `tree`, which a run's own work tree is only once it
    began. `index` is where git keeps the files' times from the one look to the other."""

    repository: Path
    tree: Path
    index: Path

    def begin(self) -> None:
        """Look at the files before the turn."""

    def changed(self) -> Paths:
        """Look at them again, and return those that changed."""
        raise NotImplementedError


class BeamDiff(Reader):
    """`beam diff` and the snapshots of turns. The next turn's snapshot must see the same."""

    def __init__(self, work_tree: Path, tmp_path: Path) -> None:
        self.repository = self.tree = work_tree
        self.index = tmp_path / "snapshots/index-worker"
        self._made = WorkTree.of(tmp_path / "snapshots", work_tree, os.environ)
        self._before = ""

    def begin(self) -> None:
        self._before = asyncio.run(self._made.take("worker"))

    def changed(self) -> Paths:
        async def compared() -> tuple[Paths, Paths]:
            beside = await self._made.compare(self._before, await self._made.take_with_copied_index("worker"))
            after = await self._made.compare(self._before, await self._made.take("worker"))
            return tuple(file.path for file in beside.files), tuple(file.path for file in after.files)

        beside, after = asyncio.run(compared())
        assert beside == after
        return after


class OfARun(Reader):
    """The changes that checks, prompts and reports of a run tell."""

    def __init__(self, work_tree: Path, tmp_path: Path) -> None:
        self.repository = self.tree = work_tree
        self.store = tmp_path / "store"
        self._made = FolderChanges(work_tree, {**os.environ, "HOME": str(tmp_path / "home")}, store=self.store)
        self._before = ""

    def begin(self) -> None:
        self._before = self._made.snapshot()
        (self.index,) = self.store.glob(".run-*/index")

    def changed(self) -> Paths:
        after = self._made.snapshot()
        found = self._made.changes(self._before, after).paths
        self._made.close()
        return found


class Branch(Reader):
    """What the branch of a run's own work tree gets."""

    def __init__(self, work_tree: Path, tmp_path: Path) -> None:
        self.tree = tmp_path / "own"
        self.repository = work_tree
        self._trees = RunWorktrees(work_tree, {**os.environ, "HOME": str(tmp_path / "home")}, store=tmp_path / "store")
        self.index = work_tree / ".git/worktrees/own/index"

    def begin(self) -> None:
        self._made = self._trees.add(self.tree, "branch", "HEAD")
        self._before = self._made.snapshot()

    def changed(self) -> Paths:
        told = self._trees.end(self._made, self.tree, "branch", Worktree(start="HEAD"), self._before).files
        words = ("diff", "--name-only", "HEAD", "branch")
        assert tuple(git(self.repository, *words).splitlines()) == told
        return told


@pytest.fixture(params=[BeamDiff, OfARun, Branch])
def reader(request: pytest.FixtureRequest, work_tree: Path, tmp_path: Path) -> Iterator[Reader]:
    (work_tree / "file").write_text(OLD)
    (work_tree / "link").symlink_to("honest")
    (work_tree / "ignored").write_text(OLD)
    (work_tree / ".gitignore").write_text("ignored\n")
    (work_tree / "sub").mkdir()
    (work_tree / "sub/file").write_text(OLD)
    git(work_tree, "add", "--all", "--force")
    git(work_tree, "commit", "-qm", "files")
    yield request.param(work_tree, tmp_path)


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def write_in_place(path: Path, text: str) -> None:
    with path.open("r+") as file:
        file.write(text)


def set_times(index: Path, file: Path, *, written_s: int, changed_s: int | None = None) -> None:
    """Write the index as if git had written it at `written_s`, and had seen the file's times as they are now; or with
    `changed_s` another time of its last change."""
    raw = bytearray(index.read_bytes()[:-20])
    times = list(divmod(file.stat().st_ctime_ns, 10**9) + divmod(file.stat().st_mtime_ns, 10**9))
    struct.pack_into(">4I", raw, raw.index(b"file\0") - 62, *[changed_s or times[0], *times[1:]])
    index.write_bytes(bytes(raw) + hashlib.sha1(raw).digest())
    os.utime(index, (written_s, written_s))


def in_place(reader: Reader) -> Path:
    """Change the file: its size, its inode and its time of modification, which is set to LONG_AGO, stay the same."""
    file = reader.tree / "file"
    write_in_place(file, NEW)
    os.utime(file, (LONG_AGO, LONG_AGO))
    return file


# -- the ways: each changes files, and returns their paths -------------------------------------------------------------


def in_the_second_in_which_the_index_was_written(reader: Reader) -> Paths:
    reader.begin()
    set_times(reader.index, in_place(reader), written_s=LONG_AGO)
    return ("file",)


def in_that_second_with_a_time_set_back(reader: Reader) -> Paths:
    reader.begin()
    file = in_place(reader)
    set_times(reader.index, file, written_s=int(file.stat().st_ctime))
    return ("file",)


def with_an_index_whose_time_was_set_ahead(reader: Reader) -> Paths:
    reader.begin()
    changed_s = written_s = 0
    while not changed_s or changed_s != written_s:  # both in one second: only then could the index hide the change
        file = in_place(reader)
        set_times(reader.index, file, written_s=LONG_AGO * 2)
        changed_s, written_s = int(file.stat().st_ctime), int(reader.index.stat().st_ctime)
    return ("file",)


def with_a_time_set_back(reader: Reader) -> Paths:
    reader.begin()
    set_times(reader.index, in_place(reader), written_s=LONG_AGO + 100, changed_s=LONG_AGO)
    return ("file",)


def with_settings_that_have_git_look_less(reader: Reader) -> Paths:
    reader.begin()
    for name, value in {"trustctime": "false", "checkStat": "minimal", "ignoreStat": "true"}.items():
        git(reader.tree, "config", f"core.{name}", value)
    set_times(reader.index, in_place(reader), written_s=LONG_AGO + 100, changed_s=LONG_AGO)
    return ("file",)


def by_another_file_in_its_place(reader: Reader) -> Paths:
    reader.begin()
    file, other = reader.tree / "file", reader.tree / "other"
    found = file.stat()
    other.write_text(NEW)
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.rename(file)
    return ("file",)


def marked(how: str, *, first: bool) -> Callable[[Reader], Paths]:
    def way(reader: Reader) -> Paths:
        if first and reader.tree.exists():
            git(reader.tree, "update-index", how, "file")
        reader.begin()
        git(reader.tree, "update-index", how, "file")
        (reader.tree / "file").write_text(NEW)
        return ("file",)

    return way


def left_out_of_the_checkout(reader: Reader) -> Paths:
    """What was absent, as in a sparse checkout, is made in the turn, with the content that git expects there."""
    if not reader.tree.exists():
        reader.begin()
        git(reader.tree, "update-index", "--skip-worktree", "file")
        (reader.tree / "file").write_text(NEW)
        return ("file",)
    git(reader.tree, "update-index", "--skip-worktree", "file", "sub/file")
    (reader.tree / "file").unlink()
    (reader.tree / "sub/file").unlink()
    reader.begin()
    (reader.tree / "file").write_text(OLD)
    (reader.tree / "sub").mkdir(exist_ok=True)
    (reader.tree / "sub/file").write_text(NEW)
    return ("file", "sub/file")


def of_a_sparse_checkout(reader: Reader) -> Paths:
    place = reader.repository
    git(place, "sparse-checkout", "set", "--cone", "other")
    reader.begin()
    (reader.tree / "sub").mkdir(exist_ok=True)
    (reader.tree / "sub/file").write_text(NEW)
    (reader.tree / "sub/new").write_text(NEW)
    return ("sub/file", "sub/new")


def in_a_split_index(reader: Reader) -> Paths:
    place = reader.repository
    git(place, "config", "core.splitIndex", "true")
    git(place, "update-index", "--split-index")
    reader.begin()
    for name in ("file", "ignored"):
        (reader.tree / name).write_text("changed\n")
    return ("file", "ignored")


def that_a_monitor_calls_unchanged(reader: Reader) -> Paths:
    place = reader.repository
    monitor = place.parent / "monitor"
    monitor.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    monitor.chmod(0o755)
    git(place, "config", "core.fsmonitor", str(monitor))
    git(place, "status")
    git(place, "update-index", "--fsmonitor")
    reader.begin()
    (reader.tree / "file").write_text(NEW)
    return ("file",)


def in_a_folder_that_a_cache_of_untracked_files_knows(reader: Reader) -> Paths:
    place = reader.repository
    git(place, "config", "core.untrackedCache", "true")
    git(place, "update-index", "--force-untracked-cache")
    git(place, "status")
    reader.begin()
    git(reader.tree, "status")
    found = (reader.tree / "sub").stat()
    (reader.tree / "sub/new").write_text(NEW)
    os.utime(reader.tree / "sub", ns=(found.st_atime_ns, found.st_mtime_ns))
    return ("sub/new",)


def announced_with_intent_to_add(reader: Reader) -> Paths:
    if reader.tree.exists():
        (reader.tree / "new").touch()
        git(reader.tree, "add", "--intent-to-add", "new")
    reader.begin()
    (reader.tree / "new").write_text(NEW)
    (reader.tree / "later").write_text(NEW)
    git(reader.tree, "add", "--intent-to-add", "later")
    return ("later", "new")


def of_the_mode_alone(reader: Reader) -> Paths:
    reader.begin()
    (reader.tree / "file").chmod(0o755)
    return ("file",)


def of_a_link(reader: Reader) -> Paths:
    reader.begin()
    for name in ("link", "file"):
        (reader.tree / name).unlink()
        (reader.tree / name).symlink_to("hidden")
    return ("file", "link")


def in_a_folder_made_a_repository(reader: Reader) -> Paths:
    reader.begin()
    git(reader.tree / "sub", "init", "-q")
    git(reader.tree / "sub", "commit", "-q", "--allow-empty", "-m", "its own")
    (reader.tree / "sub/file").write_text(NEW)
    return ("sub/file",)


WAYS = {
    way.__name__: way
    for way in (
        in_the_second_in_which_the_index_was_written,
        in_that_second_with_a_time_set_back,
        with_an_index_whose_time_was_set_ahead,
        with_a_time_set_back,
        by_another_file_in_its_place,
        with_settings_that_have_git_look_less,
        left_out_of_the_checkout,
        of_a_sparse_checkout,
        in_a_split_index,
        that_a_monitor_calls_unchanged,
        in_a_folder_that_a_cache_of_untracked_files_knows,
        announced_with_intent_to_add,
        of_the_mode_alone,
        of_a_link,
        in_a_folder_made_a_repository,
    )
} | {
    f"{how}-{'first' if first else 'later'}": marked(how, first=first)
    for how in ("--assume-unchanged", "--skip-worktree")
    for first in (True, False)
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_hides_a_change(reader: Reader, way: str) -> None:
    wanted = WAYS[way](reader)
    assert reader.changed() == wanted
