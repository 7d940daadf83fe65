"""The kernel tells of every change below a directory, also in those that appear later, and waiting can be ended."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
if sys.platform == "linux":
    from beam.teams.notify import Notify


def test_files_that_are_written_renamed_and_removed_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    notify = Notify([str(tmp_path)])
    one, other = tmp_path / "a" / "b" / "one", tmp_path / "a" / "other"
    for act, told in (
        (lambda: one.write_text("x"), {one}),
        (lambda: one.rename(other), {one, other}),
        (lambda: other.unlink(), {other}),
    ):
        act()
        assert notify.wait(2000) == (sorted(map(str, told)), False)
    assert notify.wait(0) == ([], False)
    notify.close()


def test_what_is_in_a_directory_that_appears_is_reported_and_watched(tmp_path: Path) -> None:
    watched, aside = tmp_path / "watched", tmp_path / "aside"
    (aside / "deep").mkdir(parents=True)
    watched.mkdir()
    (aside / "deep" / "file").write_text("x")
    notify = Notify([str(watched)])
    aside.rename(watched / "new")
    assert str(watched / "new" / "deep" / "file") in notify.wait(2000)[0]
    (watched / "new" / "deep" / "more").write_text("x")
    assert notify.wait(2000)[0] == [str(watched / "new" / "deep" / "more")]
    notify.close()


def test_a_wait_is_ended_from_another_thread_and_a_closed_one_takes_it(tmp_path: Path) -> None:
    notify = Notify([str(tmp_path)])
    waiting = threading.Thread(target=notify.wait, args=(20_000,))
    waiting.start()
    notify.interrupt()
    waiting.join(10)
    assert not waiting.is_alive()
    notify.close()
    notify.interrupt()


def test_a_directory_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    Notify([str(tmp_path / "none")]).close()


def test_a_file_is_reported_when_it_is_closed_and_where_files_grow_while_it_is_written(tmp_path: Path) -> None:
    small, grown = tmp_path / "small", tmp_path / "grown"
    small.mkdir()
    grown.mkdir()
    notify = Notify([str(small)], grown=[str(grown)])
    with (small / "a").open("w") as one, (grown / "b").open("w") as other:
        for file in (one, other):
            file.write("half")
            file.flush()
        assert notify.wait(2000) == ([str(grown / "b")], False)
    assert sorted(notify.wait(2000)[0] + notify.wait(50)[0]) == [str(grown / "b"), str(small / "a")]
    notify.close()


def test_locks_are_neither_told_nor_watched(tmp_path: Path) -> None:
    (tmp_path / "old.json.lock").mkdir()
    notify = Notify([str(tmp_path)])
    (tmp_path / "a.json.lock").mkdir()
    (tmp_path / "a.json.lock" / "x").write_text("x")
    (tmp_path / "old.json.lock" / "x").write_text("x")
    (tmp_path / "b.json").write_text("x")
    assert notify.wait(2000) == ([str(tmp_path / "b.json")], False)
    notify.close()
