"""What is said of a disk that fails, and what the durable operations do in which order."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from beam.base import directory_tree, files
from beam.base.errors import DiskError, RefusedFileError
from tests.support.refused import refused


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free some space; nothing that was sent before is lost"),
        (errno.EDQUOT, "the disk quota is used up; free some space"),
        (errno.EROFS, "the file system is read-only; choose another with BEAM_STATE, or --root"),
        (errno.EACCES, "check who owns it, or choose another with BEAM_STATE, or --root"),
        (errno.EPERM, "check who owns it, or choose another with BEAM_STATE, or --root"),
        (errno.ELOOP, "beam follows no symbolic links inside its root; put the real file or directory there"),
        (errno.EIO, "the disk reports an error; look at the system's log"),
        (errno.EMFILE, "too many open files; raise `ulimit -n`"),
        (errno.ENFILE, "the system has too many open files"),
        (errno.ENOENT, ""),
    ],
)
def test_a_disk_that_fails_is_reported_with_the_next_step(number: int, hint: str) -> None:
    path = Path("/x")
    with (
        refused(DiskError, f"can't write /x: {os.strerror(number)}", hint, subject="/x"),
        files.disk_action("write", path),
    ):
        raise OSError(number, os.strerror(number))
    error = files.disk_error("read", "/y", OSError("odd"))
    assert (error.message, error.subject) == ("can't read /y: odd", "/y")
    with pytest.raises(ValueError, match="other"), files.disk_action("write", path):
        raise ValueError("other")


@pytest.mark.parametrize(("number", "is_full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)])
def test_a_full_disk_is_known(number: int, is_full: bool) -> None:
    with pytest.raises(DiskError) as caught, files.disk_action("write", Path("/x")):
        raise OSError(number, "x")
    assert files.is_full(caught.value) is is_full and not files.is_full(DiskError("x"))


class Disk:
    """What was done to the disk, in its order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[Any] = []
        self.open: set[int] = set()
        opened, closed = os.open, os.close

        def fsync(handle: int) -> None:
            name = os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115, PTH119
            self.did.append(("sync", name))

        def open_(*given: Any, **more: Any) -> int:
            handle = opened(*given, **more)
            self.open.add(handle)
            return handle

        def close(handle: int) -> None:
            self.open.discard(handle)
            closed(handle)

        rename = Path.rename

        def renamed(source: Path, target: Path) -> Path:
            self.did.append(("rename", source.name, target.name))
            return rename(source, target)

        monkeypatch.setattr(files.os, "fsync", fsync)
        monkeypatch.setattr(files.os, "open", open_)
        monkeypatch.setattr(files.os, "close", close)
        monkeypatch.setattr(Path, "rename", renamed)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_what_is_published_is_on_disk_before_it_has_its_name(tmp_path: Path, disk: Disk) -> None:
    for name in ("tmp", "new"):
        (tmp_path / name).mkdir()
    files.publish(tmp_path / "tmp/a", tmp_path / "new/b", b"x")
    assert disk.did == [("sync", "a"), ("rename", "a", "b"), ("sync", "new"), ("sync", "tmp")]
    disk.did.clear()
    files.replace(tmp_path / "c", b"x")
    temporary = f".c.{os.getpid()}.tmp"
    assert disk.did == [("sync", temporary), ("rename", temporary, "c"), ("sync", tmp_path.name)]
    disk.did.clear()
    files.remove(tmp_path / "c")
    files.remove(tmp_path / "c")
    assert disk.did == [("sync", tmp_path.name)] * 2
    disk.did.clear()
    with files.without_sync():
        files.replace(tmp_path / "c", b"x")
    assert [each[0] for each in disk.did] == ["rename"]
    assert disk.open == set()


def test_no_descriptor_stays_open_after_a_failure(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(files.os, "fsync", fails)
    for act in (
        lambda: files.write_new(tmp_path / "a", b"x"),
        lambda: files.allocate(tmp_path / "a", 10),
        lambda: files.sync_directory(tmp_path),
    ):
        with pytest.raises(DiskError):
            act()
        assert disk.open == set() and not (tmp_path / "a").exists()


def test_a_file_is_allocated_with_and_without_the_systems_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.allocate(tmp_path / "a", 1000)
    monkeypatch.delattr(files.os, "posix_fallocate", raising=False)
    files.allocate(tmp_path / "b", 1000)
    assert [(tmp_path / name).stat().st_size for name in "ab"] == [1000, 1000]
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_moving_into_a_missing_directory_is_an_error_and_moving_nothing_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    target = tmp_path / "none/b"
    said = f"can't move {tmp_path / 'a'} to {target}: no such directory"
    with refused(DiskError, said, subject=str(target)):
        files.move(tmp_path / "a", target)
    with pytest.raises(FileNotFoundError):
        files.move(tmp_path / "c", tmp_path / "d")
    (tmp_path / "dir/x").mkdir(parents=True)
    with pytest.raises(DiskError, match=r"^can't move .*a: "):
        files.move(tmp_path / "a", tmp_path / "dir")


def test_a_file_is_read_from_any_byte_on(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 4)
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    disk.open.clear()
    assert list(files.read_pieces(path)) == [b"0123", b"4567", b"89"]
    assert list(files.read_pieces(path, 7)) == [b"789"] and list(files.read_pieces(path, 99)) == []
    assert disk.open == set()
    with pytest.raises(FileNotFoundError):
        list(files.read_pieces(tmp_path / "none"))
    with pytest.raises(DiskError, match="can't read"):
        list(files.read_pieces(tmp_path))
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(RefusedFileError):
        list(files.read_pieces(link))
    assert b"".join(files.read_pieces(link, follow=True)) == b"0123456789"


@pytest.mark.parametrize(("limit", "is_read"), [(10, True), (9, False)])
def test_a_file_is_read_whole_or_refused_with_the_limit(limit: int, is_read: bool, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    if is_read:
        assert files.read(path, limit) == b"0123456789"
        return
    size = f"{limit / 2**20:g} MiB"
    said = f"{path} is larger than {size}, which is more than beam reads of such a file"
    with refused(RefusedFileError, said, "move it away if you did not create it", subject=str(path)):
        files.read(path, limit)
    folder = files.open_directory(tmp_path)
    with refused(RefusedFileError, f"a is larger than {size}", subject="a"):
        files.read_at(folder, "a", limit, owner=os.getuid())
    with refused(RefusedFileError, f"a belongs to another user (uid {os.getuid()})", subject="a"):
        files.read_at(folder, "a", 100, owner=os.getuid() + 1)
    os.link(path, tmp_path / "b")
    with refused(RefusedFileError, "a has more than one name", subject="a"):
        files.read_at(folder, "a", 100, owner=os.getuid())
    with refused(RefusedFileError, "none can't be read: No such file or directory", subject="none"):
        files.read_at(folder, "none", 100, owner=os.getuid())
    (tmp_path / "l").symlink_to("a")
    with refused(RefusedFileError, "l is a symbolic link", subject="l"):
        files.read_at(folder, "l", 100, owner=os.getuid())
    (tmp_path / "d").mkdir()
    with refused(RefusedFileError, "d is a directory", subject="d"):
        files.read_at(folder, "d", 100, owner=os.getuid())
    for name in ("", "a/b", "a\0", ".", "..", "/" + "x" * 90):
        with refused(RefusedFileError, f"{name[:80]!r} is no name of a file", subject=name[:80]):
            files.read_at(folder, name, 100, owner=os.getuid())
    os.close(folder)


def test_what_is_no_plain_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    hint = "move it away if you did not create it"
    said = f"{tmp_path / 'pipe'} is a named pipe, and beam reads plain files only"
    with refused(RefusedFileError, said, hint, subject=str(tmp_path / "pipe")):
        files.read(tmp_path / "pipe", 10)
    said = f"{tmp_path / 'link'} is a symbolic link; beam reads the file itself only"
    with refused(RefusedFileError, said, "replace the link by the file itself", subject=str(tmp_path / "link")):
        files.read(tmp_path / "link", 10)
    with refused(RefusedFileError, "/dev/null is a device, and beam reads plain files only", hint, subject="/dev/null"):
        files.read(Path("/dev/null"), 10)
    with pytest.raises(DiskError, match=r"^can't read .*: Is a directory$"):
        files.read(tmp_path, 10)


def test_the_access_time_of_a_persons_own_file_stays(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    handle = files.open_to_read(path, quietly=True)
    assert os.read(handle, 5) == b"x"
    os.close(handle)
    with files.open_reader(path) as reader:
        assert reader.read() == b"x"


def test_descriptors_are_counted_and_given_back(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    opened = files.os.open

    def few(*given: Any, **more: Any) -> int:
        if len(seen) == 3:
            raise OSError(errno.EMFILE, "Too many open files")
        seen.append(1)
        return opened(*given, **more)

    files.check_descriptors(5)
    assert disk.open == set()
    monkeypatch.setattr(files.os, "open", few)
    files.check_descriptors(3)
    said = "can't open 4 more files, such as /dev/null: Too many open files"
    seen.clear()
    with refused(DiskError, said, "too many open files; raise `ulimit -n`", subject="/dev/null"):
        files.check_descriptors(4)
    assert disk.open == set()


def test_a_stream_is_blocking_and_what_beam_writes_itself_is_not(tmp_path: Path) -> None:
    for open_, blocks in ((files.open_stream, True), (files.open_to_write, False)):
        handle = open_(tmp_path / "a", os.O_WRONLY | os.O_CREAT)
        assert os.get_blocking(handle) is blocks
        os.close(handle)


def test_names_of_what_is_no_directory_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with refused(DiskError, f"can't list {tmp_path / 'a'}: Not a directory", subject=str(tmp_path / "a")):
        files.names(tmp_path / "a")


@pytest.mark.parametrize(("depth", "is_deep"), [(4, False), (5, True), (9, True)])
def test_deep_directories_are_known_and_removed(
    depth: int, is_deep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_tree, "_DEEP", 5)
    top = tmp_path / "top"
    (top / "/".join("d" * depth)).mkdir(parents=True)
    (top / "beside").mkdir()
    (top / "link").symlink_to(tmp_path)
    assert directory_tree._is_deep(top) is is_deep
    directory_tree._flatten(top)
    assert not directory_tree._is_deep(top)
    directory_tree.remove_tree(top)
    assert not top.exists()
    with pytest.raises(FileNotFoundError):
        directory_tree.remove_tree(top)
    directory_tree.remove_tree(top, ignore_errors=True)


def test_the_real_path_of_what_is_gone_is_asked_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert files.real_directory(tmp_path / "link") == str(tmp_path.resolve())
    monkeypatch.setattr(Path, "readlink", lambda self: Path("/gone (deleted)"))
    assert files.real_directory(tmp_path / "link") == str(tmp_path.resolve())
    monkeypatch.setattr(files.sys, "platform", "darwin")
    assert files.real_directory(tmp_path / "link") == str(tmp_path.resolve())
