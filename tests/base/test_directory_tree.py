"""A tree that an agent made is removed, whatever it is like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam.base.directory_tree import remove_tree


def nested(top: Path, depth: int) -> None:
    """Folders in each other, deeper than any path is long."""
    top.mkdir()
    inner = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=inner)
        os.symlink("../mine", "link", dir_fd=inner)
        below = os.open("d", os.O_RDONLY, dir_fd=inner)
        os.close(inner)
        inner = below
    os.close(inner)


@pytest.mark.slow
def test_folders_of_any_depth_are_removed_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    for number, ignored in enumerate((False, True)):
        top = tmp_path / str(number)
        nested(top, 1500)
        (top / "home").symlink_to(tmp_path / "mine")
        remove_tree(top, ignore_errors=ignored)
        assert not top.exists()
    assert (tmp_path / "mine" / "file").exists()


def test_files_go_and_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    top = tmp_path / "top"
    (top / "empty").mkdir(parents=True)
    (top / "file").touch()
    (top / "link").symlink_to(tmp_path / "mine")
    remove_tree(top)
    assert not top.exists()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    remove_tree(tmp_path / "link", ignore_errors=True)
    assert (tmp_path / "mine" / "file").exists()


def test_a_tree_that_is_gone_is_an_error_unless_errors_are_ignored(tmp_path: Path) -> None:
    remove_tree(tmp_path / "gone", ignore_errors=True)
    with pytest.raises(FileNotFoundError):
        remove_tree(tmp_path / "gone")


def test_a_file_that_somebody_else_removes_meanwhile_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    for name in ("a", "b", "c"):
        (top / name).touch()
    real = os.unlink

    def unlink(path: str, *, dir_fd: int | None = None) -> None:
        monkeypatch.setattr(os, "unlink", real)
        real(path, dir_fd=dir_fd)
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "unlink", unlink)
    remove_tree(top, ignore_errors=True)
    assert not top.exists()
