"""Every root that was used is known, and forgotten when it is gone."""

from __future__ import annotations

import os
from pathlib import Path

from beam.home import Home, state_dir
from beam.roots import known, remember


def made(folder: Path) -> Home:
    root = folder / ".beam"
    root.mkdir(parents=True)
    return Home(root)


def test_a_root_is_known_once_it_was_used_and_forgotten_when_it_is_gone(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert known(environ) == []
    homes = [made(tmp_path / name) for name in ("b", "a", "odd\nna\udce9me")]
    for home in (*homes, homes[0]):
        remember(home, environ)
    assert known(environ) == sorted(homes, key=lambda home: home.root)
    homes[0].root.rmdir()
    assert known(environ) == sorted(homes[1:], key=lambda home: home.root)
    assert len(list((state_dir(environ) / "roots").iterdir())) == 2


def test_a_root_that_is_known_is_not_written_again(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    home = made(tmp_path / "a")
    remember(home, environ)
    (file,) = (state_dir(environ) / "roots").iterdir()
    os.utime(file, ns=(1, 1))
    remember(home, environ)
    assert file.stat().st_mtime_ns == 1


def test_a_state_directory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remember(made(tmp_path / "a"), {"XDG_STATE_HOME": str(tmp_path / "file"), "HOME": str(tmp_path)})


def test_what_is_no_path_in_the_registry_is_left_out(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    remember(made(tmp_path / "a"), environ)
    folder = state_dir(environ) / "roots"
    (folder / "junk").write_bytes(b"relative\n")
    (folder / "folder").mkdir()
    assert [home.root for home in known(environ)] == [tmp_path / "a" / ".beam"]
