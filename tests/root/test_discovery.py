"""Which root a folder gets, where it lies, and that every root is known until it is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam.base import files
from beam.base.errors import CorruptError, DiskError, UsageError
from beam.root import discovery
from beam.root.discovery import (
    check_folder,
    create,
    exposing_folder,
    find_root,
    known_roots,
    record_project,
    remember_root,
    root_at,
    roots_of_same_folder,
)
from beam.root.paths import RootPaths, state_dir


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home")}


def folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def made(project: Path, environ: dict[str, str]) -> RootPaths:
    home = find_root(None, cwd=folder(project), environ=environ)
    create(home)
    return home


# -- the project folder


def test_the_root_lies_in_the_users_state_and_never_in_the_folder(tmp_path: Path, environ: dict[str, str]) -> None:
    project = folder(tmp_path / "My Project!")
    (project / "beam.yaml").write_text("")
    home = made(project, environ)
    assert home.project == project
    assert home.root.parent == tmp_path / "home/.local/state/beam/projects"
    assert home.root.name.startswith("my-project-") and len(home.root.name) == len("my-project-") + 16
    assert [path.name for path in project.iterdir()] == ["beam.yaml"]


def test_the_nearest_beam_yaml_or_git_work_tree_upwards_is_the_project(tmp_path: Path, environ: dict[str, str]) -> None:
    outer, inner = folder(tmp_path / "outer"), folder(tmp_path / "outer" / "inner")
    deep = folder(inner / "src" / "deep")
    (outer / "beam.yaml").write_text("")
    assert find_root(None, cwd=deep, environ=environ).project == outer
    (inner / ".git").mkdir()
    assert find_root(None, cwd=deep, environ=environ).project == inner
    (inner / "src" / "beam.yaml").write_text("")
    assert find_root(None, cwd=deep, environ=environ).project == inner / "src"


def test_a_worktree_is_a_project_of_its_own(tmp_path: Path, environ: dict[str, str]) -> None:
    folder(tmp_path / "repo" / ".git")
    tree = folder(tmp_path / "repo" / "trees" / "one")
    (tree / ".git").write_text("gitdir: ../../.git/worktrees/one\n")
    assert find_root(None, cwd=tree, environ=environ).project == tree
    assert find_root(None, cwd=tree.parent, environ=environ).project == tmp_path / "repo"


def test_outside_of_both_it_is_the_nearest_folder_with_a_root_else_the_current_one(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    inner = folder(tmp_path / "notes" / "today")
    assert find_root(None, cwd=inner, environ=environ).project == inner
    made(tmp_path / "notes", environ)
    assert find_root(None, cwd=inner, environ=environ).project == tmp_path / "notes"


def test_an_old_root_in_a_folder_is_not_looked_at(tmp_path: Path, environ: dict[str, str]) -> None:
    inner = folder(tmp_path / "a" / "b")
    folder(tmp_path / "a" / ".beam" / "agents" / "claude")
    assert find_root(None, cwd=inner, environ=environ).project == inner


def test_the_home_directory_counts_only_where_one_is_in_it(tmp_path: Path, environ: dict[str, str]) -> None:
    home, inner = tmp_path / "home", folder(tmp_path / "home" / "src")
    folder(home / ".git")
    assert find_root(None, cwd=inner, environ=environ).project == inner
    assert find_root(None, cwd=home, environ=environ).project == home
    link = tmp_path / "link"
    link.symlink_to(home)
    assert find_root(None, cwd=inner, environ={"HOME": str(link)}).project == inner


def test_the_same_folder_by_a_link_has_the_same_root(tmp_path: Path, environ: dict[str, str]) -> None:
    real = folder(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    assert find_root(None, cwd=tmp_path / "link", environ=environ) == find_root(None, cwd=real, environ=environ)


def test_folders_of_one_name_have_roots_of_their_own(tmp_path: Path, environ: dict[str, str]) -> None:
    one, other = (find_root(None, cwd=folder(tmp_path / name / "app"), environ=environ).root for name in "ab")
    assert one != other


def test_finding_creates_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    found = find_root(None, cwd=folder(tmp_path / "p"), environ=environ)
    assert not found.exists()
    assert found.agents() == []
    assert found.agent("a").lanes() == []
    assert list((tmp_path / "p").iterdir()) == [] == list((tmp_path / "home").iterdir())


# -- moved by the user


def test_the_state_directory_can_be_moved(tmp_path: Path, environ: dict[str, str]) -> None:
    project = folder(tmp_path / "p")
    for given in ({"XDG_STATE_HOME": str(tmp_path / "x")}, {"BEAM_STATE": str(tmp_path / "x" / "beam")}):
        assert find_root(None, cwd=project, environ={**environ, **given}).root.parent == tmp_path / "x/beam/projects"


def test_a_named_root_belongs_to_the_folder_in_which_it_was_made(tmp_path: Path, environ: dict[str, str]) -> None:
    project, other = folder(tmp_path / "p"), folder(tmp_path / "other")
    named = find_root(str(tmp_path / "cache"), cwd=project, environ=environ)
    assert (named.root, named.project) == (tmp_path / "cache", project)
    create(named)
    assert find_root("../cache", cwd=other, environ=environ) == named == root_at(tmp_path / "cache", environ)
    assert find_root(None, cwd=other, environ={**environ, "BEAM_ROOT": str(tmp_path / "cache")}) == named


def test_the_flag_beats_the_variable(tmp_path: Path, environ: dict[str, str]) -> None:
    assert find_root("a", cwd=tmp_path, environ={**environ, "BEAM_ROOT": "/x"}).root == tmp_path / "a"
    assert find_root(None, cwd=tmp_path, environ={**environ, "BEAM_ROOT": "/x"}).root == Path("/x")
    assert discovery.is_in_state_dir(find_root(None, cwd=tmp_path, environ={**environ, "BEAM_ROOT": ""}).root, environ)


def test_a_root_in_a_folder_where_agents_work_is_exposed(tmp_path: Path, environ: dict[str, str]) -> None:
    project, other = folder(tmp_path / "p"), folder(tmp_path / "other")
    (project / "beam.yaml").write_text("")
    assert exposing_folder(find_root("state", cwd=project, environ=environ), environ) == project
    assert exposing_folder(find_root("../state", cwd=project, environ=environ), environ) is None
    assert exposing_folder(find_root(None, cwd=project, environ=environ), environ) is None
    (other / ".git").mkdir()
    elsewhere = {**environ, "BEAM_STATE": str(other / "state")}
    assert exposing_folder(find_root(None, cwd=project, environ=elsewhere), elsewhere) == other
    (tmp_path / "link").symlink_to(project)
    assert exposing_folder(find_root("../link/state", cwd=project, environ=environ), environ) == project


def test_a_home_directory_exposes_ones_state_neither_under_git_nor_where_agents_work_in_it(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folder(tmp_path / "home" / ".git")
    assert exposing_folder(find_root(None, cwd=folder(tmp_path / "home" / "src"), environ=environ), environ) is None
    assert exposing_folder(find_root(None, cwd=tmp_path / "home", environ=environ), environ) is None
    assert exposing_folder(find_root("state", cwd=tmp_path / "home", environ=environ), environ) == tmp_path / "home"


def test_a_root_that_lies_in_one_folder_and_says_it_is_of_another_is_refused(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    project, other = folder(tmp_path / "p" / ".git").parent, folder(tmp_path / "other")
    create(find_root(str(project / "state"), cwd=project, environ=environ))
    assert root_at(project / "state", environ).project == project
    record_project(project / "state", other)
    for look in (lambda: root_at(project / "state", environ), lambda: find_root("state", cwd=project, environ=environ)):
        with pytest.raises(UsageError, match="makes agents work in"):
            look()
    assert known_roots(environ) == []


def test_a_folder_that_is_gone_is_refused_with_the_way_to_go_on(tmp_path: Path, environ: dict[str, str]) -> None:
    home = made(tmp_path / "p", environ)
    check_folder(home, environ)
    (tmp_path / "p").rmdir()
    with pytest.raises(DiskError, match="is gone") as caught:
        check_folder(home, environ)
    assert "beam doctor --adopt" in caught.value.hint


@pytest.mark.parametrize("flag", ["", "/", "a\0b"])
def test_a_flag_that_names_no_directory_is_refused(tmp_path: Path, environ: dict[str, str], flag: str) -> None:
    with pytest.raises(UsageError, match="--root"):
        find_root(flag, cwd=tmp_path, environ=environ)


def test_a_folder_of_other_things_is_not_taken_for_a_root(tmp_path: Path, environ: dict[str, str]) -> None:
    project = folder(tmp_path / "p" / "src").parent
    folder(project / "agents")
    with pytest.raises(UsageError, match="not a root of beam"):
        find_root(str(project), cwd=tmp_path, environ=environ)
    for name in ("locks", "threads"):
        folder(project / name)
    assert find_root(str(project), cwd=tmp_path, environ=environ).root == project


def test_what_a_crash_left_of_making_a_root_is_taken_for_one(tmp_path: Path, environ: dict[str, str]) -> None:
    root = folder(tmp_path / "root")
    (root / ".gitignore").write_text("*\n")
    assert find_root(str(root), cwd=tmp_path, environ=environ).root == root
    folder(root / "agents")
    assert find_root(str(root), cwd=tmp_path, environ=environ).root == root


# -- which folder a root belongs to


def test_a_folder_whose_name_is_no_text_is_found_again(tmp_path: Path, environ: dict[str, str]) -> None:
    project = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\nna\xe9me"))
    home = made(project, environ)
    assert root_at(home.root, environ) == home == find_root(None, cwd=project, environ=environ)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"path":"relative","device":1,"inode":1}',
        '{"path":"/","raw":"x","device":1,"inode":1}',
        '{"a":' * 5000,
    ],
)
def test_a_damaged_project_json_is_named(tmp_path: Path, environ: dict[str, str], text: str) -> None:
    home = made(tmp_path / "p", environ)
    (home.root / "project.json").write_text(text)
    with pytest.raises(CorruptError, match=r"project\.json"):
        root_at(home.root, environ)
    assert known_roots(environ) == []


def test_a_root_that_does_not_say_its_folder_is_not_run_in(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(CorruptError, match="which folder it belongs to"):
        root_at(folder(tmp_path / "root"), environ)


def test_a_moved_folder_is_recognised(tmp_path: Path, environ: dict[str, str]) -> None:
    before = made(tmp_path / "before", environ)
    (tmp_path / "before").rename(tmp_path / "after")
    after = find_root(None, cwd=tmp_path / "after", environ=environ)
    assert after.root != before.root
    assert roots_of_same_folder(after, environ) == [before]
    assert roots_of_same_folder(before, environ) == []


# -- all of them


def test_a_root_is_known_once_it_was_made_and_forgotten_when_it_is_gone(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    assert known_roots(environ) == []
    own = [made(tmp_path / name, environ) for name in ("b", "a")]
    named = find_root(str(tmp_path / "odd\nna\udce9me"), cwd=tmp_path / "a", environ=environ)
    create(named)
    for home in (*own, named, named):
        remember_root(home, environ)
    assert known_roots(environ) == sorted([*own, named], key=lambda home: home.root)
    assert len(list((state_dir(environ) / "roots").iterdir())) == 1
    for path in (*named.root.rglob("*"), named.root):
        path.unlink() if path.is_file() else None
    named.root.rename(tmp_path / "gone")
    assert known_roots(environ) == sorted(own, key=lambda home: home.root)
    assert list((state_dir(environ) / "roots").iterdir()) == []


def test_a_root_that_is_listed_is_not_written_again(tmp_path: Path, environ: dict[str, str]) -> None:
    home = find_root(str(tmp_path / "named"), cwd=tmp_path, environ=environ)
    create(home)
    remember_root(home, environ)
    (file,) = (state_dir(environ) / "roots").iterdir()
    os.utime(file, ns=(1, 1))
    remember_root(home, environ)
    assert file.stat().st_mtime_ns == 1


def test_a_list_that_another_thread_writes_just_then_is_no_error(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = find_root(str(tmp_path / "named"), cwd=tmp_path, environ=environ)
    create(home)

    def replace(path: Path, data: bytes) -> None:
        """Does what a thread sees whose temporary file another thread of the process has renamed."""
        path.write_bytes(data)
        raise FileNotFoundError(path)

    monkeypatch.setattr(files, "replace", replace)
    remember_root(home, environ)
    assert known_roots(environ) == [home]


def test_a_list_that_cannot_be_written_is_no_error(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "file").write_text("")
    home = find_root(str(tmp_path / "named"), cwd=tmp_path, environ=environ)
    create(home)
    remember_root(home, {"XDG_STATE_HOME": str(tmp_path / "file"), "HOME": str(tmp_path)})


def test_a_state_directory_that_cannot_be_made_is_refused_with_the_ways_to_move_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    home = find_root(None, cwd=tmp_path, environ={"XDG_STATE_HOME": str(tmp_path / "file"), "HOME": str(tmp_path)})
    with pytest.raises(DiskError, match="file") as caught:
        create(home)
    assert not list(tmp_path.glob(".beam*"))
    assert "move it away" in str(caught.value) or "--root" in str(caught.value)


def test_what_is_no_path_in_the_list_is_left_out(tmp_path: Path, environ: dict[str, str]) -> None:
    home = find_root(str(tmp_path / "named"), cwd=tmp_path, environ=environ)
    create(home)
    remember_root(home, environ)
    listed = state_dir(environ) / "roots"
    (listed / "junk").write_bytes(b"relative\n")
    (listed / "folder").mkdir()
    assert known_roots(environ) == [home]
