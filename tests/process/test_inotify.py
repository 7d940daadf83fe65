"""The kernel's changes come in order, with their names; what can't be watched is an error of the path."""

from __future__ import annotations

import errno
import os
import select
import sys
from pathlib import Path

import pytest

from beam.process import inotify, table
from beam.process.inotify import Inotify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


def test_changes_come_in_order_with_the_names_of_files(tmp_path: Path) -> None:
    notices = Inotify()
    watch = notices.add(tmp_path, inotify.CREATE | inotify.MOVED_FROM | inotify.MOVED_TO | inotify.DELETE)
    assert notices.read() == []
    odd = os.fsdecode(b"\xff" + b"n" * 200)
    (tmp_path / "a").touch()
    (tmp_path / "a").rename(tmp_path / odd)
    (tmp_path / odd).unlink()
    (tmp_path / "d").mkdir()
    assert select.select([notices], [], [], 5)[0] == [notices]
    assert notices.read() == [
        (watch, inotify.CREATE, "a"),
        (watch, inotify.MOVED_FROM, "a"),
        (watch, inotify.MOVED_TO, odd),
        (watch, inotify.DELETE, odd),
        (watch, inotify.CREATE | inotify.ISDIR, "d"),
    ]
    notices.close()


def test_a_watch_that_ended_says_so_and_ending_it_again_is_no_error(tmp_path: Path) -> None:
    notices = Inotify()
    watch = notices.add(tmp_path, inotify.CREATE)
    notices.remove(watch)
    notices.remove(watch)
    assert notices.read() == [(watch, inotify.IGNORED, "")]
    assert not notices.is_closed
    notices.close()
    notices.close()
    assert notices.is_closed


def test_a_path_that_can_not_be_watched_is_an_error_of_that_path(tmp_path: Path) -> None:
    notices = Inotify()
    with pytest.raises(FileNotFoundError):
        notices.add(tmp_path / "none", inotify.CREATE)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        notices.add(tmp_path / "file", inotify.CREATE | inotify.ONLYDIR)
    notices.close()


def test_where_no_watch_and_no_instance_is_left_the_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices = Inotify()
    monkeypatch.setattr(inotify, "_libc_function", lambda name: lambda *arguments: -1)
    with pytest.raises(OSError, match="no inotify watch") as watch:
        notices.add(tmp_path, inotify.CREATE)
    assert watch.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="no inotify instance") as instance:
        Inotify()
    assert instance.value.errno == errno.EMFILE
    notices.close()


def test_another_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "LINUX", False)
    with pytest.raises(OSError, match="no inotify instance"):
        Inotify()
