"""Looking at everything again does not hold up what changes meanwhile, and waiting ends at once."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from beam.teams.changes import SLICE, Changes
from beam.teams.disk import FOLDERS
from beam.teams.notify_elsewhere import NotifyElsewhere
from tests.support.cli import eventually


def tasks(home: Path, count: int) -> Path:
    folder = home / "tasks" / "session-1"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number}.json").write_text(json.dumps({"id": str(number)}))
    return folder


@pytest.mark.slow
def test_what_changes_during_a_long_look_is_reported_before_its_end(tmp_path: Path) -> None:
    tasks(tmp_path, SLICE * 3)
    changes = Changes([str(tmp_path)], wake=threading.Event())
    looked: list[int] = []
    changes.sweep(between=lambda: looked.append(len(changes.take_reported()[0])))
    assert looked == [0] * 4
    assert len(changes.take_reported()[0]) == SLICE * 3


@pytest.mark.slow
def test_a_file_that_was_told_meanwhile_and_one_that_is_gone_are_no_trouble(tmp_path: Path) -> None:
    folder = tasks(tmp_path, SLICE)
    changes = Changes([str(tmp_path)], wake=threading.Event())
    changes.sweep(between=lambda: (folder / "7.json").unlink(missing_ok=True))
    assert len(changes.take_reported()[0]) == SLICE - 1


@pytest.mark.slow
def test_a_watcher_of_a_directory_that_appears_later_is_woken_by_it_and_ends_at_once(tmp_path: Path) -> None:
    wake = threading.Event()
    changes = Changes((), others=[str(tmp_path / "agents")], wake=wake)
    changes.start()
    journal = tmp_path / "agents" / "a" / "journal"
    journal.mkdir(parents=True)
    (journal / "1.jsonl").write_text("x\n")
    assert wake.wait(10)
    changes.close()
    assert changes._thread is not None and not changes._thread.is_alive()


@pytest.mark.slow
def test_a_home_that_another_one_replaces_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam.teams.changes.FULL_SWEEP_S", 10_000)
    for name in ("one", "other"):
        for folder in FOLDERS:
            (tmp_path / name / folder).mkdir(parents=True)
    home, wake = tmp_path / "home", threading.Event()
    home.symlink_to(tmp_path / "one")
    changes = Changes([str(home)], wake=wake)
    changes.start()
    before = changes._listener
    home.unlink()
    home.symlink_to(tmp_path / "other")
    eventually(lambda: changes._listener is not before, 60)
    changes.take_reported()
    wake.clear()
    (tmp_path / "other" / "tasks" / "session-1").mkdir()
    (tmp_path / "other" / "tasks" / "session-1" / "1.json").write_text("{}")
    eventually(lambda: any(copy.file.name == "1" for copy in changes.take_reported()[0]), 60)
    changes.close()


@pytest.mark.slow
def test_where_the_system_has_no_inotify_a_file_that_changes_is_copied_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tasks(tmp_path, 3)
    monkeypatch.setattr(Changes, "_new_listener", lambda changes: NotifyElsewhere(changes._watching))
    wake = threading.Event()
    changes = Changes([str(tmp_path)], wake=wake)
    changes.start()
    assert isinstance(changes._listener, NotifyElsewhere)
    assert len(changes.take_reported()[0]) == 3
    wake.clear()
    (folder / "1.json").write_text(json.dumps({"id": "1", "subject": "new"}))
    assert wake.wait(10)
    copies = [copy for copy in changes.take_reported()[0] if copy.data]
    assert [json.loads(copy.data)["subject"] for copy in copies] == ["new"]
    changes.close()
    assert changes._thread is not None
    assert not changes._thread.is_alive()


@pytest.mark.slow
def test_numbered_files_of_one_moment_come_in_their_order_there(tmp_path: Path) -> None:
    notify = NotifyElsewhere([str(tmp_path)])
    for number in range(12):
        (tmp_path / f"{number}.json").touch()
    paths: list[str] = []
    until = time.monotonic() + 10
    while len(paths) < 12 and time.monotonic() < until:
        paths += notify.wait(1000)[0]
    assert sorted(paths, key=lambda path: int(Path(path).stem)) == paths
    assert notify.wait(0) == ([], False)
    notify.interrupt()
    assert notify.wait(1000) == ([], False)
    notify.close()
