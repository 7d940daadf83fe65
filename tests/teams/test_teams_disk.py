"""Which file of a home is what."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from beam.teams import disk
from beam.teams.disk import read, small_files, team_file_of

UUID = "c7b5231e-7e31-4756-9ebd-26edd280bfd2"


@pytest.mark.parametrize(
    ("path", "kind", "group", "name"),
    [
        ("teams/session-1/config.json", "config", "session-1", ""),
        ("teams/session-1/inboxes/bob.json", "inbox", "session-1", "bob"),
        ("tasks/session-1/12.json", "task", "session-1", "12"),
        ("sessions/7.json", "session", "", "7"),
    ],
)
def test_files_of_teams_are_known_by_their_place(path: str, kind: str, group: str, name: str) -> None:
    found = team_file_of("/h", f"/h/{path}")
    assert found is not None and (found.kind, found.group, found.name) == (kind, group, name)


@pytest.mark.parametrize(
    "path",
    [
        "teams/session-1/config.json.lock",
        "teams/session-1/inboxes/bob.json.tmp.12345678",
        "teams/session-1/inboxes/bob.json.lock/x.json",
        "tasks/session-1/.lock",
        "tasks/session-1/.highwatermark",
        f"tasks/{UUID}/1.json",
        "sessions/x.json",
        "projects/-p/a.jsonl",
        "settings.json",
        "teams",
    ],
)
def test_everything_else_is_nobodys(path: str) -> None:
    assert team_file_of("/h", f"/h/{path}") is None


def test_what_is_no_plain_file_or_not_there_is_as_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "teams/t/inboxes"
    folder.mkdir(parents=True)
    (folder / "dir.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "loop.json").symlink_to(folder / "loop.json")
    (folder / "good.json").write_text("[]")
    places = {
        name: team_file_of(str(tmp_path), str(folder / f"{name}.json"))
        for name in ("dir", "pipe", "loop", "none", "good")
    }
    seen = {name: read(place, 5)[0].data for name, place in places.items() if place is not None}
    assert seen == {"dir": None, "pipe": None, "loop": None, "none": None, "good": b"[]"}


def test_a_home_is_listed_whole_or_by_team(tmp_path: Path) -> None:
    for path in (
        "teams/a/config.json",
        "teams/a/inboxes/x.json",
        "teams/b/config.json",
        "tasks/a/1.json",
        "sessions/1.json",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    assert len(list(small_files(str(tmp_path)))) == 5
    assert {place.group for place, _ in small_files(str(tmp_path), frozenset({"a"}))} == {"a"}
    assert list(small_files(str(tmp_path / "none"))) == []


def test_tasks_of_a_headless_session_are_looked_at_once_it_has_members_or_inboxes(tmp_path: Path) -> None:
    path = tmp_path / f"tasks/{UUID}/1.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert team_file_of(str(tmp_path), str(path)) is None and not list(small_files(str(tmp_path)))
    (tmp_path / f"teams/{UUID}/inboxes").mkdir(parents=True)
    found = team_file_of(str(tmp_path), str(path))
    assert found is not None and (found.kind, found.group, found.name) == ("task", UUID, "1")
    assert [place for place, _ in small_files(str(tmp_path))] == [found]


def test_a_name_that_is_no_text_is_shown_as_one(tmp_path: Path) -> None:
    assert disk.printable(os.fsdecode(b"a\xffb")) == "a\ufffdb"


@pytest.mark.skipif(sys.platform != "linux", reason="left out: there is no file here that is longer than its size")
def test_a_file_that_is_longer_than_its_size_said_is_read_to_its_end() -> None:
    path = "/proc/version"
    assert Path(path).stat().st_size == 0
    assert read(disk.TeamFile("task", "/h", "t", "1", path), 5)[0].data == Path(path).read_bytes()


def test_a_file_that_is_too_large_is_told_from_one_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "LARGEST", 5)
    (tmp_path / "1.json").write_bytes(b"[1234]")
    seen, signature = read(disk.TeamFile("task", "/h", "t", "1", str(tmp_path / "1.json")), 5)
    assert (seen.data, seen.is_large, signature is None) == (None, True, False)
