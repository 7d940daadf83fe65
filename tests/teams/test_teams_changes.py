"""Looking at everything again does not hold up what changes meanwhile, and waiting ends at once."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from beam.teams.changes import SLICE, Changes


def tasks(home: Path, count: int) -> Path:
    folder = home / "tasks" / "session-1"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number}.json").write_text(json.dumps({"id": str(number)}))
    return folder


def test_what_changes_during_a_long_look_is_told_before_its_end(tmp_path: Path) -> None:
    tasks(tmp_path, SLICE * 3)
    changes = Changes([str(tmp_path)], wake=threading.Event())
    looked: list[int] = []
    changes.sweep(between=lambda: looked.append(len(changes.take()[0])))
    assert looked == [0] * 4
    assert len(changes.take()[0]) == SLICE * 3


def test_a_file_that_was_told_meanwhile_and_one_that_is_gone_are_no_trouble(tmp_path: Path) -> None:
    folder = tasks(tmp_path, SLICE)
    changes = Changes([str(tmp_path)], wake=threading.Event())
    changes.sweep(between=lambda: (folder / "7.json").unlink(missing_ok=True))
    assert len(changes.take()[0]) == SLICE - 1


@pytest.mark.slow
def test_a_watcher_of_a_directory_that_appears_later_is_woken_by_it_and_ends_at_once(tmp_path: Path) -> None:
    wake = threading.Event()
    changes = Changes((), others=[str(tmp_path / "agents")], wake=wake)
    changes.start()
    journal = tmp_path / "agents" / "a" / "journal"
    journal.mkdir(parents=True)
    (journal / "1.jsonl").write_text("x\n")
    assert wake.wait(10)
    began = time.monotonic()
    changes.close()
    assert time.monotonic() - began < 4
