"""Where agent CLIs keep their sessions, and which files there are sessions."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.foreign import places
from beam.foreign.places import place, session_path


def sessions(folder: str = "HOME/.x", name: str = r"[^/]+/[a-z]+\.jsonl", **more: Any) -> Any:
    given = {"folder": folder, "name": name, "moved_by": "", "below": "", "shape": "lines", "like": "", **more}
    return SimpleNamespace(files=SimpleNamespace(**given), reader=lambda path: f"reader of {path}")


def test_only_plain_files_of_that_name_at_that_depth_are_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/one.jsonl", "b/two.jsonl", "a/UPPER.jsonl", "a/b/deep.jsonl", "top.jsonl", "a/one.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "a/link.jsonl").symlink_to("one.jsonl")
    (tmp_path / "linked").symlink_to("a")
    (tmp_path / "b/dir.jsonl").mkdir()
    where = place("x", sessions(), str(tmp_path))
    assert (where.depth, where.shape(f"{tmp_path}/a/one.jsonl")) == (1, "lines")
    found = dict(where.paths())
    assert sorted(found) == [f"{tmp_path}/a/one.jsonl", f"{tmp_path}/b/two.jsonl"]
    assert found[f"{tmp_path}/a/one.jsonl"].st_size == len("a/one.jsonl")
    assert where.fits(f"{tmp_path}/a/one.jsonl") and not where.fits(f"{tmp_path}/one.jsonl")
    assert not where.fits(f"{tmp_path}x/a/one.jsonl") and where.below(f"{tmp_path}/a/b") == "a/b"
    assert where.reader(f"{tmp_path}/a/one.jsonl") == "reader of a/one.jsonl"
    assert list(place("x", sessions(), str(tmp_path / "none")).paths()) == []
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert list(where.paths()) == []


def test_a_cli_that_keeps_sessions_where_it_runs_reads_by_the_whole_path() -> None:
    where = place("x", sessions("CWD", r"\.x/[/a]+"), "/p")
    assert where.reader("/p/.x/a") == "reader of /p/.x/a" and where.depth == 1


@pytest.mark.parametrize(
    ("given", "environ", "folder"),
    [
        ({}, {}, "/h/.x"),
        ({"folder": "HOME"}, {}, "/h"),
        ({"below": "in"}, {}, "/h/.x/in"),
        ({"moved_by": "X_HOME"}, {"X_HOME": "/moved/../there"}, "/there"),
        ({"moved_by": "X_HOME", "below": "in"}, {"X_HOME": "/there"}, "/there/in"),
        ({"moved_by": "X_HOME"}, {}, "/h/.x"),
        ({"folder": "XDG_DATA_HOME/x"}, {}, "/h/.local/share/x"),
        ({"folder": "XDG_CONFIG_HOME/x"}, {}, "/h/.config/x"),
        ({"folder": "XDG_STATE_HOME/x"}, {}, "/h/.local/state/x"),
        ({"folder": "XDG_DATA_HOME/x"}, {"XDG_DATA_HOME": "/d"}, "/d/x"),
    ],
)
def test_a_folder_is_where_the_environment_puts_it(given: dict[str, Any], environ: dict[str, str], folder: str) -> None:
    assert places._folder(sessions(**given), {"HOME": "/h", **environ}) == folder


def test_places_are_those_of_all_clis_or_the_named_ones(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    (claude,) = places.places(environ, ["claude"])
    assert claude.adapter == "claude" and claude.folder.startswith(str(tmp_path))
    everywhere = places.places(environ)
    assert len(everywhere) > 3 and all(each.sessions.files.folder != places.RUNNING for each in everywhere)


@pytest.mark.parametrize(("path", "own"), [("/a.db", "/a.db"), ("/a.db-wal", "/a.db"), ("/a.db-journal", "/a.db")])
def test_what_lies_beside_a_database_belongs_to_it(path: str, own: str) -> None:
    assert session_path(path) == own
