"""The roots of a person: listed, checked for oddities, and removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam.api import root as roots
from beam.api.root import RootLine
from beam.base.errors import DiskError, NotFoundError, UnfinishedError, UsageError
from beam.root import discovery
from beam.root.paths import RootPaths
from beam.store.lock import try_lock
from tests.support.refused import refused


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def home(tmp_path: Path, environ: dict[str, str]) -> RootPaths:
    """The root of a folder, where beam keeps roots, with a mailbox and a lane."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "beam.yaml").write_text("agents: {}\n")
    found = discovery.find_root(None, cwd=folder, environ=environ)
    for paths in (found.agent("box"), found.agent("box").lane_of("aaaa")):
        discovery.create(found, paths)
    discovery.remember_root(found, environ)
    return found


def wait_in(home: RootPaths, count: int = 2) -> None:
    for number in range(count):
        (home.agent("box").queue / "new" / f"{number}.json").write_text("{}")
    (home.agent("box").lane_of("aaaa").queue / "new/0.json").write_text("{}")


def test_a_root_is_listed_with_its_folder_its_agents_and_what_waits(home: RootPaths, environ: dict[str, str]) -> None:
    wait_in(home)
    line = RootLine(root=str(home.root), project=str(home.project), exists=True, agents=("box",), waiting=3)
    assert roots.root_lines(environ) == [line]
    home.project.rename(home.project.with_name("moved"))
    assert [each.exists for each in roots.root_lines(environ)] == [False]


def test_a_path_is_shown_as_text() -> None:
    assert roots.path_text(Path(os.fsdecode(b"/a\xff/\xc3\xbc"))) == "/a\\xff/ü"


def test_a_root_that_came_with_a_folder_is_one_with_agents(home: RootPaths) -> None:
    old = home.project / discovery.FALSE_ROOT_NAME
    assert roots.false_root(home) is None
    (old / "agents").mkdir(parents=True)
    assert roots.false_root(home) == old
    assert roots.false_root(RootPaths(old, home.project)) is None
    old.rename(home.project / "real")
    old.symlink_to(home.project / "real")
    assert roots.false_root(home) is None


def test_an_ordinary_root_has_no_notes(home: RootPaths, environ: dict[str, str]) -> None:
    assert list(roots.notes(home, environ)) == list(roots.notes(home, environ, thorough=True)) == []
    assert roots.check(home, environ) == []


def test_what_is_odd_about_a_root_is_a_sentence_each(home: RootPaths, environ: dict[str, str]) -> None:
    old = home.project / discovery.FALSE_ROOT_NAME
    (old / "agents").mkdir(parents=True)
    said = f"{old} is not read: the state of this folder is in {home.root}"
    assert list(roots.notes(home, environ)) == [said]
    inside = RootPaths(home.project / "state", home.project)
    assert next(roots.notes(inside, environ)) == (
        f"the root {inside.root} lies in {home.project}, where agents may write: "
        "what its queues hold gets access read at the most"
    )


def test_a_folder_that_was_replaced_is_told_where_all_is(home: RootPaths, environ: dict[str, str]) -> None:
    home.project.rename(home.project.with_name("moved"))
    home.project.mkdir()
    assert roots.is_replaced(home)
    assert list(roots.notes(home, environ)) == []
    said = (
        f"{home.project} is not the folder for which {home.root} was made; to keep using that root: beam doctor --adopt"
    )
    assert roots.check(home, environ) == [said]
    home.project.rmdir()
    assert not roots.is_replaced(home)
    assert not roots.is_replaced(RootPaths(home.root.with_name("none"), home.project))


def test_a_folder_that_was_moved_is_told_what_it_was(home: RootPaths, environ: dict[str, str]) -> None:
    moved = home.project.with_name("moved")
    home.project.rename(moved)
    here = discovery.find_root(None, cwd=moved, environ=environ)
    said = (
        f"this folder was known as {home.project}, with the root {home.root}; to go on with that: beam doctor --adopt"
    )
    assert list(roots.notes(here, environ)) == roots.check(here, environ) == [said]
    discovery.create(here)
    assert list(roots.notes(here, environ)) == [] and roots.check(here, environ) == [said]
    apart = RootPaths(home.root.parent.parent / "apart", moved)
    assert list(roots.notes(apart, environ)) == []


def test_what_can_not_be_read_is_a_note(home: RootPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise DiskError("can't look there")

    monkeypatch.setattr(discovery, "exposing_folder", fails)
    assert roots.check(home, {}) == ["can't look there"]


# -- removing ----------------------------------------------------------------------------------------------------------


def test_a_root_in_which_messages_wait_is_removed_if_that_is_sure(home: RootPaths, environ: dict[str, str]) -> None:
    wait_in(home)
    home.turns.mkdir()
    for name in ("broker.json", "broker.log", "broker.log.1", ".gitignore"):
        (home.root / name).touch()
    said = f"3 messages wait in {home.root}"
    with refused(UsageError, said, "to remove them too: --yes", subject=str(home.root)):
        roots.remove(home.root, environ, sure=False)
    beside = home.root.parent / "." / "x" / ".." / home.root.name
    assert roots.remove(beside, environ, sure=True) == f"removed {home.root}"
    assert not home.root.exists() and not home.turns.exists()
    with refused(NotFoundError, f"{home.root} is not one of your roots", "beam root list", subject=str(home.root)):
        roots.remove(home.root, environ, sure=True)


def test_what_beam_did_not_put_into_a_root_stays(home: RootPaths, environ: dict[str, str]) -> None:
    (home.root / "mine.txt").touch()
    (home.root / "agents").rename(home.root / "elsewhere")
    (home.root / "agents").symlink_to("elsewhere")
    assert roots.remove(home.root, environ, sure=True) == f"removed {home.root}; what else is in it stays"
    assert sorted(path.name for path in home.root.iterdir()) == ["elsewhere", "mine.txt"]


def test_a_root_that_does_not_say_whose_it_is_can_be_removed(home: RootPaths, environ: dict[str, str]) -> None:
    (home.root / discovery.PROJECT_JSON).unlink()
    assert roots.root_lines(environ) == []
    assert roots.remove(home.root, environ, sure=False) == f"removed {home.root}"


def test_a_folder_that_is_no_root_is_not_removed(home: RootPaths, environ: dict[str, str]) -> None:
    for path in (home.project, home.root.with_name("none")):
        with pytest.raises(NotFoundError):
            roots.remove(path, environ, sure=True)
    assert home.project.is_dir()


@pytest.mark.parametrize("what", ["broker", "agent", "lane"])
def test_a_root_that_somebody_uses_is_not_removed(what: str, home: RootPaths, environ: dict[str, str]) -> None:
    paths = home.agent("box")
    path = {"broker": home.root / "broker.lock", "agent": paths.lock, "lane": paths.lane_of("aaaa").lock}[what]
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = try_lock(path)
    assert lock is not None
    said = f"a broker serves {home.root}" if what == "broker" else f"box is held in {home.root}"
    hint = "beam broker stop" if what == "broker" else "stop its broker, or wait for its turn to end"
    with lock, refused(UnfinishedError, said, hint, subject=str(home.root)):
        roots.remove(home.root, environ, sure=True)
    assert paths.dir.is_dir()
    assert roots.remove(home.root, environ, sure=True) == f"removed {home.root}"
