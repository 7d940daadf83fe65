"""What git's exit code is: an answer or an error, also on a full disk; and what becomes of git that takes too long."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.base.errors import DiskError, UsageError
from beam.worktree.calls import GitCall, GitCalls, GitError
from beam.worktree.git import run, run_blocking
from beam.worktree.index import succeeds
from beam.worktree.repository import Repository
from tests.process.trees import until

pytestmark = pytest.mark.slow

Driver = Callable[[GitCalls[Any]], Any]
_SAYS_FULL = "echo 'error: file write error: No space left on device' >&2; exit 128"


def waiting(calls: GitCalls[Any]) -> Any:
    """The driver with an event loop."""
    return asyncio.run(run(calls))


drivers = pytest.mark.parametrize("driver", [run_blocking, waiting], ids=["blocking", "waiting"])


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk on which nothing can be written any more."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_blocks=100, f_bavail=0, f_flag=0))


def git(folder: Path, script: str, within_s: float = 60.0) -> Callable[..., GitCall]:
    """A git that is this shell script."""

    def call(*words: str, stdin: bytes | None = None) -> GitCall:
        argv = ("/bin/sh", "-c", script)
        return GitCall(argv=argv, word=words[0], cwd=folder, env=dict(os.environ), within_s=within_s, stdin=stdin)

    return call


def has_ended(pid: int) -> bool:
    """Whether the process is gone, or waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def one(call: GitCall) -> GitCalls[bytes]:
    return (yield call)


@drivers
@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("code", [1, 128])
def test_a_plain_no_is_an_answer_also_on_a_full_disk(driver: Driver, code: int, tmp_path: Path) -> None:
    assert driver(succeeds(git(tmp_path, f"exit {code}"), "rev-parse")) is False


@drivers
@pytest.mark.usefixtures("full")
def test_a_yes_is_an_answer_also_on_a_full_disk(driver: Driver, tmp_path: Path) -> None:
    assert driver(succeeds(git(tmp_path, "exit 0"), "rev-parse")) is True


@drivers
@pytest.mark.usefixtures("full")
def test_a_command_that_must_succeed_and_fails_on_a_full_disk_is_a_full_disk(driver: Driver, tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=r"git commit could not write: the disk is full.*\(exit code 1\)") as error:
        driver(one(git(tmp_path, "exit 1")("commit")))
    assert error.value.exit_code == 74


@drivers
def test_a_full_disk_that_git_itself_reports_is_no_answer(driver: Driver, tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="No space left on device"):
        driver(succeeds(git(tmp_path, _SAYS_FULL), "worktree"))


@drivers
def test_a_command_that_fails_says_what_git_said_last_and_its_exit_code(driver: Driver, tmp_path: Path) -> None:
    with pytest.raises(GitError, match=r"^git commit: the last$") as error:
        driver(one(git(tmp_path, "echo first >&2; echo the last >&2; exit 3")("commit")))
    assert error.value.code == 3


@drivers
def test_git_that_takes_too_long_is_ended_with_all_that_it_started(driver: Driver, tmp_path: Path) -> None:
    started, over, within_s = tmp_path / "started", tmp_path / "over", 0.2
    script = f"(sleep 20; touch {over}) & echo $! > {started}; wait"
    while not started.exists() or not started.read_text().endswith("\n"):
        with pytest.raises(GitError, match=f"git add took longer than {within_s:g} s") as error:
            driver(succeeds(git(tmp_path, script, within_s), "add"))
        assert error.value.code is None
        within_s *= 2
    until(lambda: has_ended(int(started.read_text())), seconds=10.0)
    assert not over.exists()


@pytest.fixture
def repository(tmp_path: Path) -> Callable[[str], Repository]:
    """Makes a folder's repository in which git is a shell script."""

    def make(script: str) -> Repository:
        program = tmp_path / "bin" / "git"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        (tmp_path / "shop").mkdir()
        return Repository(tmp_path / "shop", {"PATH": str(program.parent), "HOME": str(tmp_path / "home")})

    return make


@pytest.mark.usefixtures("full")
def test_a_repository_that_has_no_such_branch_says_so_on_a_full_disk(
    repository: Callable[[str], Repository],
) -> None:
    made = repository("exit 1")
    assert made.succeeds("rev-parse", "--verify", "-q", "refs/heads/none") is False
    with pytest.raises(DiskError):
        made.output("worktree", "add", "x")


def test_what_a_repository_can_not_do_is_a_mistake_of_the_caller(repository: Callable[[str], Repository]) -> None:
    with pytest.raises(UsageError, match="no such thing"):
        repository("echo no such thing >&2; exit 1").output("rev-parse", "x")
