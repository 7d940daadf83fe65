"""Snapshots of a git work tree: what is recorded, what is not, and that nothing of the folder takes effect."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from beam.base.errors import UnsupportedError
from beam.turns.snapshot import WorkTree, snapshot_event
from beam.worktree.calls import GitError
from beam.worktree.snapshots import Bounds, ChangedFile
from tests.support.cli import Cli
from tests.support.repository import make_hostile_repository, make_repository

pytestmark = pytest.mark.slow


@pytest.fixture
def tree(work_tree: Path, tmp_path: Path) -> WorkTree:
    return WorkTree.of(tmp_path / "snapshots", work_tree, os.environ)


def take(tree: WorkTree) -> str:
    return asyncio.run(tree.take("worker"))


def changed(tree: WorkTree, before: str) -> list[tuple[str, int | None, int | None]]:
    async def compared() -> tuple[ChangedFile, ...]:
        return (await tree.compare(before, await tree.take_with_copied_index("worker"))).files

    return [(file.path, file.added, file.removed) for file in asyncio.run(compared())]


def test_new_changed_and_removed_files_are_found_committed_or_not(work_tree: Path, tree: WorkTree) -> None:
    (work_tree / "gone").write_text("1\n")
    before = take(tree)
    (work_tree / "README.md").write_text("Another project.\nOf two lines.\n")
    (work_tree / "gone").unlink()
    (work_tree / "sub").mkdir()
    (work_tree / "sub" / "bin").write_bytes(b"\0\1")
    subprocess.run(["git", "add", "sub"], cwd=work_tree, check=True)
    assert changed(tree, before) == [("README.md", 2, 1), ("gone", 0, 1), ("sub/bin", None, None)]


def test_what_was_changed_before_the_snapshot_is_no_change(work_tree: Path, tree: WorkTree) -> None:
    (work_tree / "README.md").write_text("Mine, and not committed.\n")
    assert changed(tree, take(tree)) == []


def test_what_git_would_convert_is_recorded_as_it_is(work_tree: Path, tree: WorkTree) -> None:
    held = {"lines": b"one\r\ntwo\r\n", "id": b"$Id: by hand $\n", "wide.u": "wide".encode("utf-16")}
    (work_tree / ".gitattributes").write_text("* text=auto ident\n*.u working-tree-encoding=UTF-16\n")
    for name, data in held.items():
        (work_tree / name).write_bytes(data)
    subprocess.run(["git", "add", "--all"], cwd=work_tree, check=True)
    for each in (*held, "."):
        os.utime(work_tree / each, (1_000_000_000, 1_000_000_000))
    subprocess.run(["git", "status"], cwd=work_tree, check=True, capture_output=True)
    before = take(tree)
    for name in held:
        (work_tree / name).write_bytes(b"of the agent\n")
    after = take(tree)

    async def read() -> dict[str, bytes]:
        found = await tree.differences(before, after)
        contents = await tree.contents([each.before.object for each in found if each.before is not None])
        return {each.path.decode(): contents[each.before.object] for each in found if each.before is not None}

    assert asyncio.run(read()) == held


@pytest.mark.parametrize(
    ("does", "status", "class_"), [("echo made >new", "completed", None), ("true", "failed", "empty")]
)
def test_a_silent_turn_of_a_cli_that_reports_no_calls_is_completed_if_a_file_changed(
    beam: Cli, does: str, status: str, class_: str | None
) -> None:
    make_repository(beam.project, beam.base / "home")
    program = beam.base / "cn"
    program.write_text(f'#!/bin/sh\ncase "$*" in *--version*) echo 1.5.47;; *) {does};; esac\n')
    program.chmod(0o755)
    cli = beam.with_env({"PATH": f"{beam.base}{os.pathsep}{os.environ['PATH']}"})
    outcome = cli("send", "cn", "hello", "--access", "full", "--json").json
    assert (outcome["status"], outcome["class"]) == (status, class_), outcome


def test_what_git_ignores_is_left_out(work_tree: Path, tree: WorkTree) -> None:
    (work_tree / ".gitignore").write_text("build\n")
    before = take(tree)
    (work_tree / "build").write_text("made")
    assert changed(tree, before) == []


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_was_told_not_to_look_at_is_looked_at(work_tree: Path, tree: WorkTree, mark: str) -> None:
    subprocess.run(["git", "update-index", mark, "README.md"], cwd=work_tree, check=True)
    before = take(tree)
    (work_tree / "README.md").write_text("Changed, and hidden from git.\n")
    assert changed(tree, before) == [("README.md", 1, 1)]


def test_what_a_sparse_checkout_leaves_out_is_no_change(work_tree: Path, tree: WorkTree) -> None:
    (work_tree / "README.md").unlink()
    subprocess.run(["git", "update-index", "--skip-worktree", "README.md"], cwd=work_tree, check=True)
    assert changed(tree, take(tree)) == []


def test_the_folders_repository_is_not_changed(work_tree: Path, tree: WorkTree) -> None:
    def stands() -> list[tuple[str, bytes]]:
        return sorted((str(path), path.read_bytes()) for path in (work_tree / ".git").rglob("*") if path.is_file())

    was = stands()
    (work_tree / "new").write_text("x")
    changed(tree, take(tree))
    assert stands() == was


def test_a_filter_hook_or_monitor_of_the_folder_is_not_run(work_tree: Path, tree: WorkTree, tmp_path: Path) -> None:
    mark, touch = tmp_path / "mark", f"touch {tmp_path / 'mark'}"
    with (work_tree / ".git" / "config").open("a") as file:
        file.write(f'[core]\n\tfsmonitor = "{touch};false"\n[filter "x"]\n\tclean = "{touch};cat"\n\trequired = true\n')
        file.write(f'[diff "x"]\n\tcommand = "{touch}"\n\ttextconv = "{touch}"\n[diff]\n\texternal = "{touch}"\n')
    (work_tree / ".gitattributes").write_text("* filter=x diff=x\n")
    for name in ("post-index-change", "reference-transaction", "pre-commit"):
        hook = work_tree / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{touch}\n")
        hook.chmod(0o755)
    before = take(tree)
    (work_tree / "README.md").write_text("Changed.\n")
    assert changed(tree, before) == [("README.md", 1, 1)]
    assert not mark.exists()


def test_a_link_is_recorded_and_not_followed(work_tree: Path, tree: WorkTree, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("one\n")
    (work_tree / "link").symlink_to(tmp_path / "secret")
    before = take(tree)
    (tmp_path / "secret").write_text("two\n")
    assert changed(tree, before) == []


def test_a_pipe_is_left_out_and_keeps_nobody_waiting(work_tree: Path, tree: WorkTree) -> None:
    before = take(tree)
    os.mkfifo(work_tree / "pipe")
    assert changed(tree, before) == []


@pytest.mark.parametrize(
    "bounds, said", [(Bounds(within_s=5.0, largest_kib=8), "git add"), (Bounds(within_s=0.0), "longer than")]
)
def test_a_file_that_is_too_large_and_git_that_takes_too_long_make_it_fail(
    work_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: Bounds, said: str
) -> None:
    monkeypatch.setattr("beam.turns.snapshot._BOUNDS", bounds)
    (work_tree / "large").write_bytes(os.urandom(64 << 10))
    with pytest.raises(GitError, match=said):
        take(WorkTree.of(tmp_path / "snapshots", work_tree, os.environ))


def test_an_index_that_is_damaged_or_was_left_locked_is_made_anew(
    work_tree: Path, tree: WorkTree, tmp_path: Path
) -> None:
    before = take(tree)
    index = tmp_path / "snapshots" / "index-worker"
    index.write_bytes(b"no index")
    index.with_name("index-worker.lock").touch()
    assert take(tree) == before


def test_what_the_repository_has_is_not_stored_again(work_tree: Path, tree: WorkTree, tmp_path: Path) -> None:
    (work_tree / "large").write_bytes(os.urandom(1 << 20))
    subprocess.run(["git", "add", "large"], cwd=work_tree, check=True)
    take(tree)
    stored = sum(path.stat().st_size for path in (tmp_path / "snapshots" / "objects").rglob("*") if path.is_file())
    assert stored < 10_000


@pytest.fixture
def outside(tmp_path: Path) -> WorkTree:
    """A folder in no git work tree."""
    (tmp_path / "plain/sub").mkdir(parents=True)
    (tmp_path / "plain/sub/file").write_text("one\n")
    return WorkTree.of(tmp_path / "snapshots", tmp_path / "plain", outside_environ(tmp_path))


def test_a_folder_outside_of_git_is_recorded_and_its_gitignore_counts(tmp_path: Path, outside: WorkTree) -> None:
    plain = tmp_path / "plain"
    (plain / ".gitignore").write_text("*.log\n")
    before = take(outside)
    (plain / "sub/file").write_text("two\n")
    (plain / "a.log").write_text("x\n")
    assert changed(outside, before) == [("sub/file", 1, 1)]
    subprocess.run(["git", "init", "-q"], cwd=plain, check=True)
    after = WorkTree.at(tmp_path / "snapshots", plain, os.environ)
    assert changed(after, before) == [("sub/file", 1, 1)]
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["rm", "-r", str(plain / ".git")], check=True)
    assert changed(WorkTree.at(tmp_path / "snapshots", plain, outside_environ(tmp_path)), before) == [
        ("sub/file", 1, 1)
    ]


def outside_environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(tmp_path / "home")}


def make_many(plain: Path) -> None:
    for number in range(20_001):
        (plain / f"{number}").touch()


def make_large(plain: Path) -> None:
    for name in ("a", "b"):
        with (plain / name).open("wb") as file:
            file.truncate(101 << 20)


@pytest.mark.parametrize(("make", "why"), [
    (make_many, "is in no git work tree, and holds more than 20,000 files"),
    (make_large, "is in no git work tree, and holds more than 200 MiB"),
])  # fmt: skip
def test_a_large_folder_outside_of_git_is_not_recorded_unless_it_is_another_repository(
    tmp_path: Path, outside: WorkTree, make: Callable[[Path], None], why: str
) -> None:
    make(tmp_path / "plain")
    with pytest.raises(UnsupportedError, match=why):
        take(outside)
    assert not list((tmp_path / "snapshots").glob("objects/??"))
    (tmp_path / "plain").rename(tmp_path / "nested")
    (tmp_path / "plain").mkdir()
    (tmp_path / "nested").rename(tmp_path / "plain/nested")
    subprocess.run(["git", "init", "-q", str(tmp_path / "plain/nested")], check=True)
    assert take(outside)


@pytest.mark.parametrize(("home", "store", "why"), [
    ("plain", "snapshots", "is your home, or holds it"), ("plain/sub", "snapshots", "is your home, or holds it"),
    ("home", "plain/sub/snapshots", "holds beam's own state"),
])  # fmt: skip
def test_where_programs_keep_what_is_theirs_nothing_is_recorded(
    tmp_path: Path, outside: WorkTree, home: str, store: str, why: str
) -> None:
    environ = {**os.environ, "HOME": str(tmp_path / home)}
    with pytest.raises(UnsupportedError, match=why):
        take(WorkTree.of(tmp_path / store, tmp_path / "plain", environ))
    event = asyncio.run(snapshot_event(tmp_path / store, tmp_path / "plain", environ, "worker", beside=False))
    assert event.tree is None and why in event.reason


def test_without_git_the_reason_is_reported(work_tree: Path, tmp_path: Path) -> None:
    tree = WorkTree.of(tmp_path / "snapshots", work_tree, {"PATH": str(tmp_path)})
    with pytest.raises(GitError, match="git is not installed"):
        take(tree)


@pytest.mark.parametrize("way", ["fetch", "filter"])
def test_git_runs_nothing_of_a_repository_that_was_made_in_the_folder(
    work_tree: Path, tree: WorkTree, tmp_path: Path, way: str
) -> None:
    mark = tmp_path / "ran"
    make_hostile_repository(work_tree / "sub", mark, way)
    before = take(tree)
    assert take(tree) == before
    (work_tree / "README.md").write_text("Changed.\n")
    assert changed(tree, before) == [("README.md", 1, 1)]
    assert not mark.exists()
    subprocess.run(["git", "-C", str(work_tree / "sub"), "status"], capture_output=True, check=False)
    assert mark.exists()  # git alone runs it


def test_a_repository_without_a_commit_in_the_folder_hides_no_change(work_tree: Path, tree: WorkTree) -> None:
    before = take(tree)
    subprocess.run(["git", "init", "-q", "deep/sub"], cwd=work_tree, check=True)
    (work_tree / "README.md").write_text("Changed.\n")
    assert changed(tree, before) == [("README.md", 1, 1)]


def test_an_agent_that_forges_gits_index_hides_no_change_of_a_turn_beside_others(
    work_tree: Path, tree: WorkTree
) -> None:
    before = asyncio.run(tree.take_with_copied_index("worker"))
    (work_tree / "README.md").write_text("Changed, and hidden.\n")
    os.utime(work_tree / "README.md", (1, 1))
    subprocess.run(["git", "add", "README.md"], cwd=work_tree, check=True)
    blob = subprocess.run(["git", "rev-parse", "HEAD:README.md"], cwd=work_tree, check=True, capture_output=True).stdout
    new = subprocess.run(["git", "rev-parse", ":README.md"], cwd=work_tree, check=True, capture_output=True).stdout
    index = work_tree / ".git/index"
    forged = index.read_bytes()[:-20].replace(bytes.fromhex(new.decode()), bytes.fromhex(blob.decode()))
    index.write_bytes(forged + hashlib.sha1(forged).digest())
    assert changed(tree, before) == [("README.md", 1, 1)]
