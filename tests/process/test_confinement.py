"""Where protected folders are seen: what lies in the way of a project, and what bind mounts show elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam.process.confinement import Confinement, aliases, is_within, reaches_into

ROOT = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
HOME = "21 20 8:2 / /home rw - ext4 /dev/sda2 rw\n"
STATE = "/home/me/.local/state/beam"


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [("/a/b", "/a", True), ("/a", "/a", True), ("/ab", "/a", False), ("/a", "/a/b", False), ("/a", "/", True)],
)
def test_a_path_lies_in_a_folder(path: str, folder: str, expected: bool) -> None:
    assert is_within(path, folder) is expected


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ("30 20 8:2 /me /mnt/me rw - ext4 /dev/sda2 rw", ["/mnt/me/.local/state/beam"]),
        ("30 20 8:2 / /mnt/all rw - ext4 /dev/sda2 rw", ["/mnt/all/me/.local/state/beam"]),
        ("30 20 8:2 /me/.local/state/beam /srv/beam rw - ext4 /dev/sda2 rw", ["/srv/beam"]),
        ("30 20 8:2 /me/.local/state/beam/projects/a /srv/a\\040b rw - ext4 /dev/sda2 rw", ["/srv/a b"]),
        ("30 20 8:2 /you /mnt/you rw - ext4 /dev/sda2 rw", []),
        ("30 20 8:1 /me/.local/state/beam /mnt/other rw - ext4 /dev/sda1 rw", []),
        ("a line of another kernel", []),
    ],
)
def test_bind_mounts_that_show_beams_state_are_found(mount: str, expected: list[str]) -> None:
    assert list(aliases([STATE], f"{ROOT}{HOME}{mount}\n")) == expected


def test_where_mounts_are_not_known_there_are_no_aliases() -> None:
    assert list(aliases([STATE], "")) == []


def test_a_path_below_a_folder_reaches_into_it_and_so_does_one_by_a_link_in_it(tmp_path: Path) -> None:
    project, state = tmp_path / "project", tmp_path / "state"
    project.mkdir()
    state.mkdir()
    (project / "link").symlink_to(state)
    assert reaches_into(str(project / ".beam"), str(project))
    assert reaches_into(str(project / "link/root"), str(project))
    assert not reaches_into(str(state / "root"), str(project))


def test_a_folder_on_the_way_is_closed_for_new_entries_and_one_beside_is_not(tmp_path: Path) -> None:
    (tmp_path / "home/.local/state").mkdir(parents=True)
    (tmp_path / "home/.cache").mkdir()
    closed = Confinement(protected=(str(tmp_path / "home/.local/state/beam"),)).closed_folders()
    assert {str(tmp_path), str(tmp_path / "home"), str(tmp_path / "home/.local/state")} <= closed
    assert str(tmp_path / "home/.cache") not in closed
