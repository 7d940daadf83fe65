"""The look for ways into beam's own files: what it finds, and where it stops."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from beam.process.links import find_links_into, hard_linked_files


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "home/.local/state/beam"
    folder.mkdir(parents=True)
    (tmp_path / "project/deep/er").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    return folder


@pytest.mark.parametrize(
    ("target", "leads"),
    [
        ("{base}/home/.local/state/beam", True),
        ("{base}/home/.local/state/beam/projects/x/queue/new/planted.json", True),
        ("../../../home/.local/state/beam/file", True),
        ("{base}/home", True),
        ("/", True),
        ("/proc/self/root", True),
        ("{base}/project/other", True),
        ("../../../beside", False),
        ("{base}/beside/new", False),
        ("er", False),
        ("../..", False),
        ("ring", False),
    ],
)
def test_a_link_in_the_project_that_leads_to_the_state_or_above_it_is_found(
    target: str, leads: bool, state: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    link = project / "deep/er/ring"
    link.symlink_to(target.format(base=tmp_path))
    if target.endswith("other"):
        (project / "other").symlink_to(state)
    found = find_links_into([str(state)], str(project))
    assert (str(link) in found.links) is leads
    assert found.skipped == ()


def test_a_look_at_a_large_tree_ends_and_says_where_it_did_not_look(state: Path, tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"project/{number}").mkdir()
        (tmp_path / f"project/{number}/link").symlink_to(state)
    found = find_links_into([str(state)], str(tmp_path / "project"), entries=40)
    assert found.entries == 40
    assert 0 < len(found.links) < 30
    assert found.skipped and all(Path(folder).is_dir() for folder in found.skipped)


def test_a_look_that_takes_too_long_ends(state: Path, tmp_path: Path) -> None:
    ticks = iter(range(1000))
    found = find_links_into([str(state)], str(tmp_path / "project"), seconds=0.5, now=lambda: next(ticks))
    assert found.skipped == (str(tmp_path / "project"),)


@pytest.mark.skipif(os.getuid() == 0, reason="left out: root may look everywhere")
def test_a_folder_that_can_not_be_looked_into_is_reported(state: Path, tmp_path: Path) -> None:
    locked = tmp_path / "project/deep"
    locked.chmod(0)
    try:
        assert find_links_into([str(state)], str(tmp_path / "project")).skipped == (str(locked),)
    finally:
        locked.chmod(0o700)


def test_a_folder_that_is_gone_when_it_is_looked_into_ends_nothing(state: Path, tmp_path: Path) -> None:
    found = find_links_into([str(state)], str(tmp_path / "gone"), now=time.monotonic)
    assert (found.links, found.skipped) == ((), (str(tmp_path / "gone"),))


def test_a_file_with_a_second_name_is_found_directly_in_a_folder_and_deep_below_the_root(tmp_path: Path) -> None:
    state, root = tmp_path / "state", tmp_path / "state/projects/one"
    (root / "agents/a/queue/new").mkdir(parents=True)
    (state / "projects/two").mkdir()
    waiting, trust, other = root / "agents/a/queue/new/x.json", state / "trust.json", state / "projects/two/y.json"
    for file in (waiting, trust, other):
        file.write_text("{}")
    assert list(hard_linked_files([str(state)], below=str(root))) == []
    for number, file in enumerate((waiting, trust, other)):
        (tmp_path / f"second-{number}").hardlink_to(file)
    assert list(hard_linked_files([str(state)], below=str(root))) == [str(trust), str(waiting)]


def test_the_look_for_second_names_is_bounded(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}").write_text("")
        (tmp_path / f"second-{number:02}").hardlink_to(tmp_path / f"{number:02}")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").write_text("")
    (tmp_path / "deep/second").hardlink_to(tmp_path / "deep/file")
    assert len(list(hard_linked_files([], below=str(tmp_path), entries=10))) <= 10
    assert len(list(hard_linked_files([], below=str(tmp_path)))) == 42
