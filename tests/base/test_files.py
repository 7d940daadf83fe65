"""Durable moves: whole or not at all, and every trouble names its path."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beam.base import files
from beam.base.errors import DiskError, RefusedFileError


class Failing:
    """A system call that fails with this number after some good calls; what it does until then is the real one's."""

    def __init__(self, real: object, number: int, after: int = 0) -> None:
        self.real, self.number, self.left = real, number, after

    def __call__(self, *args: object, **named: object) -> object:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.number, os.strerror(self.number))
        return self.real(*args, **named)  # type: ignore[operator]


def test_a_published_file_is_private_whole_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    files.publish(tmp_path / "tmp" / "a", tmp_path / "b", b"data")
    assert (tmp_path / "b").read_bytes() == b"data"
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_need_not_wait_for_the_disk_is_written_all_the_same_and_the_rest_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for name in ("tmp", "new"):
        (tmp_path / name).mkdir()
    with files.without_sync():
        files.publish(tmp_path / "tmp" / "a", tmp_path / "new" / "a", b"data")
    assert ((tmp_path / "new" / "a").read_bytes(), synced) == (b"data", [])
    files.publish(tmp_path / "tmp" / "b", tmp_path / "new" / "b", b"data")
    assert len(synced) == 3


def test_another_task_waits_for_the_disk_as_always() -> None:
    async def replay(waits: asyncio.Event) -> bool:
        with files.without_sync():
            waits.set()
            await asyncio.sleep(0)
            return files.sync(99_999)

    async def other(waits: asyncio.Event) -> None:
        await waits.wait()
        with pytest.raises(OSError, match="Bad file descriptor"):
            files.sync(99_999)

    async def both() -> list[bool | None]:
        waits = asyncio.Event()
        return await asyncio.gather(replay(waits), other(waits))

    assert asyncio.run(both()) == [False, None]


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 100])
def test_several_new_files_are_each_whole_and_private(count: int, tmp_path: Path) -> None:
    contents = {tmp_path / str(number): b"x" * number for number in range(count)}
    files.write_many(contents)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == contents
    assert {stat.S_IMODE(path.stat().st_mode) for path in contents} == {0o600}


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 100])
def test_one_of_several_that_cannot_be_written_is_reported(count: int, tmp_path: Path) -> None:
    contents = {tmp_path / str(number): b"" for number in range(count)} | {tmp_path / "no" / "where": b""}
    with pytest.raises(DiskError, match="no/where"):
        files.write_many(contents)


def test_a_file_is_replaced_and_nothing_else_stays(tmp_path: Path) -> None:
    files.replace(tmp_path / "a", b"one")
    files.replace(tmp_path / "a", b"two")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"two")]


@pytest.mark.parametrize(("call", "number"), [("write", errno.ENOSPC), ("fsync", errno.EIO), ("open", errno.EROFS)])
def test_a_file_that_can_not_be_written_does_not_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    monkeypatch.setattr(files.os, call, Failing(getattr(os, call), number))
    with pytest.raises(DiskError, match=str(tmp_path / "a")) as caught:
        files.write_new(tmp_path / "a", b"data")
    monkeypatch.undo()
    assert caught.value.subject == str(tmp_path / "a")
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(files.os, "write", lambda handle, data: real(handle, bytes(data)[:3]))
    files.write_new(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("safe")
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DiskError):
        files.write_new(tmp_path / "a", b"data")
    assert (tmp_path / "elsewhere").read_text() == "safe"


def test_moving_what_is_gone_is_not_a_disk_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.move(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").touch()
    with pytest.raises(DiskError, match="no such directory"):
        files.move(tmp_path / "a", tmp_path / "none" / "b")


def test_removing_twice_is_removing_once(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    files.remove(tmp_path / "a")
    files.remove(tmp_path / "a")
    assert files.names(tmp_path) == []


def test_names_are_sorted_and_a_missing_directory_has_none(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).touch()
    assert files.names(tmp_path) == ["a", "b", "c"]
    assert files.names(tmp_path / "none") == []
    with pytest.raises(DiskError, match="can't list"):
        files.names(tmp_path / "a")


def test_reading_tells_what_is_gone_from_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123")
    assert files.read(tmp_path / "a", 4) == b"0123"
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "b", 4)
    with pytest.raises(DiskError, match="can't read"):
        files.read(tmp_path, 4)


def test_directories_are_made_private_with_their_parents(tmp_path: Path) -> None:
    files.make_directory(tmp_path / "a" / "b")
    files.make_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(DiskError):
        files.make_directory(tmp_path / "file" / "c")


def test_files_that_can_not_be_opened_later_are_reported_before(monkeypatch: pytest.MonkeyPatch) -> None:
    files.check_descriptors(3)
    monkeypatch.setattr(files.os, "open", Failing(os.open, errno.EMFILE, after=2))
    with pytest.raises(DiskError, match="Too many open files") as caught:
        files.check_descriptors(3)
    assert "ulimit -n" in caught.value.hint


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_link_to_a_file(path: Path) -> None:
    path.with_name("real").write_bytes(b"data")
    path.symlink_to("real")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


BITING: list[Callable[[Path], None]] = [a_pipe, a_socket, holes, a_link_to_a_device, a_link_to_a_file, a_link_to_itself]


@pytest.mark.parametrize("make", BITING)
def test_what_is_no_plain_file_is_refused_at_once_and_named(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "a")
    with pytest.raises(RefusedFileError, match=str(tmp_path / "a")) as caught:
        files.read(tmp_path / "a", 1000)
    assert caught.value.hint


@pytest.mark.parametrize("make", [a_pipe, a_socket, holes, a_link_to_a_device, a_link_to_itself])
def test_a_link_that_may_be_followed_leads_to_a_plain_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "a")
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(RefusedFileError):
        files.read(tmp_path / "link", 1000, follow=True)
    (tmp_path / "good").write_bytes(b"data")
    (tmp_path / "to-good").symlink_to("good")
    assert files.read(tmp_path / "to-good", 1000, follow=True) == b"data"


def test_a_link_to_another_users_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        (tmp_path / "theirs").write_bytes(b"data")
        os.chown(tmp_path / "theirs", 12345, -1)
    else:
        (tmp_path / "theirs").write_bytes(b"data")
        monkeypatch.setattr(files.os, "geteuid", lambda: os.getuid() + 1)
    (tmp_path / "link").symlink_to("theirs")
    with pytest.raises(RefusedFileError, match="another user"):
        files.read(tmp_path / "link", 1000, follow=True)


def test_a_file_is_read_up_to_its_limit_also_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert files.read(tmp_path / "a", 10) == b"x" * 10
    with pytest.raises(RefusedFileError, match="larger than"):
        files.read(tmp_path / "a", 9)
    real = os.fstat

    class Smaller:
        def __init__(self, found: os.stat_result) -> None:
            self.st_mode, self.st_size, self.st_uid = found.st_mode, 3, found.st_uid

    monkeypatch.setattr(files.os, "fstat", lambda handle: Smaller(real(handle)))
    assert files.read(tmp_path / "a", 10) == b"x" * 10
    with pytest.raises(RefusedFileError, match="larger than"):
        files.read(tmp_path / "a", 9)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield handle
    os.close(handle)


def test_a_file_in_an_open_directory_is_read_wherever_the_directory_went(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "a").write_bytes(b"data")
    folder = os.open(tmp_path / "box", os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "box").rename(tmp_path / "elsewhere")
    assert files.read_at(folder, "a", 4, owner=os.getuid()) == b"data"
    os.close(folder)


def test_a_file_is_written_into_an_open_directory_wherever_it_went_and_never_over_another(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    folder = files.open_directory(tmp_path / "box", follow=False)
    (tmp_path / "box").rename(tmp_path / "elsewhere")
    files.write_at(folder, "a", b"data")
    assert (tmp_path / "elsewhere/a").read_bytes() == b"data"
    (tmp_path / "elsewhere/b").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "elsewhere/c")
    for name in "abc":
        with pytest.raises(FileExistsError):
            files.write_at(folder, name, b"other")
    assert (tmp_path / "elsewhere/a").read_bytes() == b"data" and not (tmp_path / "target").exists()
    os.close(folder)


def test_a_link_to_a_directory_is_opened_only_where_links_may_be(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    os.close(files.open_directory(tmp_path / "link"))
    with pytest.raises(OSError):
        files.open_directory(tmp_path / "link", follow=False)


@pytest.mark.parametrize("make", BITING)
def test_what_an_agent_put_in_place_of_a_file_is_refused(
    tmp_path: Path, folder: int, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "a")
    with pytest.raises(RefusedFileError, match=r"^a "):
        files.read_at(folder, "a", 1000, owner=os.getuid())


def test_a_file_in_an_open_directory_has_one_name_one_owner_and_a_size(tmp_path: Path, folder: int) -> None:
    (tmp_path / "a").write_bytes(b"data")
    with pytest.raises(RefusedFileError, match="larger"):
        files.read_at(folder, "a", 3, owner=os.getuid())
    with pytest.raises(RefusedFileError, match="another user"):
        files.read_at(folder, "a", 4, owner=os.getuid() + 1)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    with pytest.raises(RefusedFileError, match="more than one name"):
        files.read_at(folder, "a", 4, owner=os.getuid())
    with pytest.raises(RefusedFileError, match="No such file"):
        files.read_at(folder, "gone", 4, owner=os.getuid())


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "/etc/passwd", "b/a", "a\0b"])
def test_a_name_in_an_open_directory_leads_nowhere_else(tmp_path: Path, folder: int, name: str) -> None:
    with pytest.raises(RefusedFileError, match="no name of a file"):
        files.read_at(folder, name, 4, owner=os.getuid())


def test_a_passing_shortage_is_not_the_files_fault(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"data")

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(files.os, "open", refuse)
    with pytest.raises(DiskError) as caught:
        files.read_at(folder, "a", 4, owner=os.getuid())
    assert not isinstance(caught.value, RefusedFileError)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="left out: descriptors are counted in /proc")
def test_what_is_refused_leaves_no_descriptor_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "target").write_bytes(b"x")
    before = descriptors()
    for _ in range(3):
        with pytest.raises(DiskError):
            files.read(tmp_path, 100)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 12345)
        patch.setattr(os, "fstat", lambda handle: os.stat_result((stat.S_IFREG, 0, 0, 1, 777, 0, 0, 0, 0, 0)))
        for _ in range(3):
            with pytest.raises(RefusedFileError, match="symbolic link to a file of another user"):
                files._open_link(tmp_path / "link", os.O_RDONLY)
    assert descriptors() == before


def test_a_reserve_has_its_size_and_takes_its_room(tmp_path: Path) -> None:
    files.allocate(tmp_path / "reserve", 64 * 1024)
    found = (tmp_path / "reserve").stat()
    assert found.st_size == 64 * 1024
    assert found.st_blocks * 512 >= 64 * 1024


def test_the_real_path_of_a_directory_is_that_of_realpath(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner (deleted)").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for path in ("real", "link", "link/inner (deleted)", "link/gone", "gone"):
        assert files.real_directory(tmp_path / path) == os.path.realpath(tmp_path / path)


def test_a_socket_that_is_gone_before_its_kind_is_known_is_refused_all_the_same(tmp_path: Path) -> None:
    refused = files._refusal(tmp_path / "gone", OSError(errno.ENXIO, "No such device or address"))
    assert isinstance(refused, RefusedFileError)
    assert refused.message == f"{tmp_path}/gone is no file, and beam reads plain files only"
