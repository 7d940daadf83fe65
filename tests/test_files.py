"""Durable moves: whole or not at all, and every trouble names its path."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from beam import files
from beam.errors import DiskError


class Failing:
    """A system call that fails with this number after some good calls; what it does until then is the real one's."""

    def __init__(self, real: object, number: int, after: int = 0) -> None:
        self.real, self.number, self.left = real, number, after

    def __call__(self, *args: object) -> object:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.number, os.strerror(self.number))
        return self.real(*args)  # type: ignore[operator]


def test_a_published_file_is_private_whole_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    files.publish(tmp_path / "tmp" / "a", tmp_path / "b", b"data")
    assert (tmp_path / "b").read_bytes() == b"data"
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("count", [3, 100])
def test_several_new_files_are_each_whole_and_private(count: int, tmp_path: Path) -> None:
    contents = {tmp_path / str(number): b"x" * number for number in range(count)}
    files.write_many(contents)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == contents
    assert {stat.S_IMODE(path.stat().st_mode) for path in contents} == {0o600}


@pytest.mark.parametrize("count", [3, 100])
def test_one_of_several_that_cannot_be_written_is_told(count: int, tmp_path: Path) -> None:
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
    assert (files.read(tmp_path / "a"), files.read(tmp_path / "a", 2)) == (b"0123", b"01")
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "b")
    with pytest.raises(DiskError, match="can't read"):
        files.read(tmp_path)


def test_directories_are_made_private_with_their_parents(tmp_path: Path) -> None:
    files.make_directory(tmp_path / "a" / "b")
    files.make_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(DiskError):
        files.make_directory(tmp_path / "file" / "c")


def test_files_that_can_not_be_opened_later_are_told_before(monkeypatch: pytest.MonkeyPatch) -> None:
    files.check_descriptors(3)
    monkeypatch.setattr(files.os, "open", Failing(os.open, errno.EMFILE, after=2))
    with pytest.raises(DiskError, match="Too many open files") as caught:
        files.check_descriptors(3)
    assert "ulimit -n" in caught.value.hint
