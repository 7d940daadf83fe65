"""What an agent left in a folder leads no write out of it, and no write is seen half done."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beam.base.errors import RefusedFileError, UnfinishedError
from beam.worktree.restore import TEMPORARY, Folder, disk_error
from beam.worktree.snapshots import TreeFile, object_id
from tests.support.small_disk import SmallDisk

pytestmark = pytest.mark.slow
LIKE = b"0" * 40
OLD = b"as it was\n"


def file(data: bytes = OLD, mode: bytes = b"100644", like: bytes = LIKE) -> TreeFile:
    return TreeFile(mode, object_id(data, like))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"secret")
    top = tmp_path.resolve() / "top"
    top.mkdir()
    return top


@pytest.fixture
def folder(top: Path) -> Iterator[Folder]:
    with Folder(top) as folder:
        yield folder


def outside(top: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (top.parent / "outside").iterdir()}


# -- what it is meant for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "deep/er/a", "new\nline", "\xff", " a ", "...", ":a", ".github", ".gitignore"])
def test_a_file_is_written_seen_and_removed_with_its_folders(folder: Folder, top: Path, name: str) -> None:
    path = name.encode("latin-1")
    assert folder.has(path, None)
    folder.write(path, file(), OLD)
    assert (top / os.fsdecode(path)).read_bytes() == OLD
    assert folder.has(path, file()) and not folder.has(path, None) and not folder.has(path, file(b"other"))
    assert not folder.has(path, file(mode=b"100755")) and not folder.has(path, file(mode=b"120000"))
    folder.remove(path)
    assert list(top.iterdir()) == []


def test_a_folder_that_is_not_empty_stays(folder: Folder, top: Path) -> None:
    for name in (b"d/e/one", b"d/two"):
        folder.write(name, file(), OLD)
    folder.remove(b"d/e/one")
    assert [path.name for path in (top / "d").iterdir()] == ["two"]


@pytest.mark.parametrize(("mode", "before", "after"), [
    (b"100755", 0o640, 0o750), (b"100644", 0o750, 0o640), (b"100644", 0o600, 0o600), (b"100755", 0o444, 0o555),
    (b"100755", None, 0o755), (b"100644", None, 0o644),
])  # fmt: skip
def test_a_file_keeps_its_permissions_but_what_git_stores(
    folder: Folder, top: Path, mode: bytes, before: int | None, after: int
) -> None:
    umask = os.umask(0o022)
    try:
        if before is not None:
            (top / "a").write_bytes(b"now")
            (top / "a").chmod(before)
        folder.write(b"a", file(mode=mode), OLD)
    finally:
        os.umask(umask)
    assert (top / "a").stat().st_mode & 0o7777 == after and folder.has(b"a", file(mode=mode))


def test_a_link_is_written_and_read_as_a_link(folder: Folder, top: Path) -> None:
    link = file(b"../outside/secret", b"120000")
    folder.write(b"l", link, b"../outside/secret")
    assert (top / "l").is_symlink() and folder.has(b"l", link) and not folder.has(b"l", file(b"secret"))
    folder.write(b"l", file(), OLD)
    assert not (top / "l").is_symlink() and (top / "l").read_bytes() == OLD
    folder.write(b"l", link, b"../outside/secret")
    folder.remove(b"l")
    assert outside(top) == {"secret": b"secret"}


def test_a_binary_file_and_one_of_another_hash_function_are_known_by_their_bytes(folder: Folder, top: Path) -> None:
    data = bytes(range(256)) * 40_000
    folder.write(b"a", file(data), data)
    assert (top / "a").read_bytes() == data
    assert folder.has(b"a", file(data)) and folder.has(b"a", file(data, like=b"0" * 64))
    (top / "a").write_bytes(data[:-1])
    assert not folder.has(b"a", file(data)) and not folder.has(b"a", file(data, like=b"0" * 64))


# -- what an agent may have prepared -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["", "/a", "a/", "a//b", ".", "..", "../outside/secret", "a/../../outside/secret", "a\0b", ".git/hooks/pre-commit",
     ".GIT/config", "sub/.git/config", ".git", ".git ", ".git.", "GIT~1/config", ".git::$INDEX_ALLOCATION/config"],
)  # fmt: skip
def test_a_path_that_git_would_not_store_is_refused(folder: Folder, top: Path, path: str) -> None:
    acts: list[Callable[[bytes], object]] = [
        lambda path: folder.write(path, file(), OLD), folder.remove, lambda path: folder.has(path, file()),
    ]  # fmt: skip
    for act in acts:
        with pytest.raises(RefusedFileError, match="no path of a file"):
            act(path.encode())
    assert list(top.iterdir()) == [] and outside(top) == {"secret": b"secret"}


@pytest.mark.parametrize("prepare", [
    lambda top: (top / "d").symlink_to("../outside"),
    lambda top: (top / "d").symlink_to(top.parent / "outside"),
    lambda top: ((top / "e").mkdir(), (top / "d").symlink_to("e")),
    lambda top: (top / "d").write_text("a file"),
    lambda top: os.mkfifo(top / "d"),
])  # fmt: skip
def test_no_write_leads_through_what_took_the_place_of_a_folder(
    folder: Folder, top: Path, prepare: Callable[[Path], object]
) -> None:
    prepare(top)
    assert folder.has(b"d/secret", None) and not folder.has(b"d/secret", file(b"secret"))
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        folder.write(b"d/secret", file(), OLD)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        folder.remove(b"d/secret")
    assert outside(top) == {"secret": b"secret"} and not (top / "e/secret").exists()


def test_a_hard_link_to_a_file_outside_keeps_that_files_content(folder: Folder, top: Path) -> None:
    (top / "a").hardlink_to(top.parent / "outside/secret")
    folder.write(b"a", file(), OLD)
    assert outside(top) == {"secret": b"secret"} and (top / "a").read_bytes() == OLD


@pytest.mark.parametrize("prepare", [
    lambda path: path.symlink_to("../outside/secret"), lambda path: path.write_text("left by a kill"),
    lambda path: path.hardlink_to(path.parents[1] / "outside/secret"), os.mkfifo,
])  # fmt: skip
def test_what_lies_under_the_temporary_name_is_replaced_and_never_written(
    folder: Folder, top: Path, prepare: Callable[[Path], object]
) -> None:
    prepare(top / os.fsdecode(TEMPORARY))
    folder.write(b"a", file(), OLD)
    assert [path.name for path in top.iterdir()] == ["a"] and outside(top) == {"secret": b"secret"}


@pytest.mark.parametrize("prepare", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_file_keeps_nobody_waiting_and_is_not_the_file(
    folder: Folder, top: Path, prepare: Callable[[Path], object]
) -> None:
    prepare(top / "a")
    assert not folder.has(b"a", file()) and not folder.has(b"a", None)


def test_a_link_that_no_system_can_make_is_refused(folder: Folder, top: Path) -> None:
    with pytest.raises(RefusedFileError, match="no system knows"):
        folder.write(b"a", file(b"x\0y", b"120000"), b"x\0y")
    assert list(top.iterdir()) == []


def test_a_folder_that_is_reached_by_a_link_is_refused(top: Path) -> None:
    (top.parent / "way").symlink_to(top.parent)
    for path in (top.parent / "way/top", top.parent / "way"):
        with pytest.raises(Exception, match=r"symbolic link|Not a directory"):
            Folder(path)


# -- bad luck ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    folder: Folder, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "a").write_bytes(b"now")
    disk = SmallDisk(top, monkeypatch)
    disk.leave(5)
    with pytest.raises(OSError, match="No space left"):
        folder.write(b"a", file(), OLD)
    assert {path.name: path.read_bytes() for path in top.iterdir()} == {"a": b"now"}
    disk.leave(None)
    folder.write(b"a", file(), OLD)
    assert (top / "a").read_bytes() == OLD


def test_only_an_error_of_the_whole_disk_ends_an_undo() -> None:
    full = disk_error(Path("/w"), OSError(errno.ENOSPC, "No space left on device"))
    assert full is not None and full.message == "can't write /w: No space left on device"
    assert disk_error(Path("/w"), OSError(errno.EACCES, "Permission denied")) is None


def test_two_processes_do_not_restore_in_one_folder(folder: Folder, top: Path) -> None:
    words = f"import pathlib; from beam.worktree.restore import Folder; Folder(pathlib.Path({str(top)!r}))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "another undo is at work" in done.stderr
    with pytest.raises(UnfinishedError):
        Folder(top)
    assert folder.has(b"a", None)
