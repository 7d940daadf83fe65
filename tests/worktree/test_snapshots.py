"""Which calls of git a snapshot is, answered here in git's place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.base.errors import DiskError, UsageError
from beam.root.git_place import GitPlace
from beam.worktree import git as running
from beam.worktree import index as indexes
from beam.worktree.calls import (
    GitCall,
    GitCalls,
    GitError,
    PrivateRepository,
    call_in_folder,
    call_in_private_repository,
)
from beam.worktree.index import succeeds
from beam.worktree.repository import Repository
from beam.worktree.snapshots import Bounds, ChangedFile, Snapshots
from tests.support.refused import refused

Answer = bytes | GitError
LISTED = ("ls-files", *indexes.LISTED)


class Git:
    """Answers calls in git's place, one after the other; what was called, without options."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.calls: list[GitCall] = []

    def __call__(self, *words: str, stdin: bytes | None = None) -> GitCall:
        return GitCall(argv=words, word=words[0], cwd=Path("/"), env={}, stdin=stdin, within_s=1.0)

    def run(self, calls: GitCalls[Any]) -> Any:
        try:
            call = next(calls)
            while True:
                self.calls.append(call)
                answer = self.answers.pop(0) if self.answers else b""
                call = calls.throw(answer) if isinstance(answer, GitError) else calls.send(answer)
        except StopIteration as done:
            return done.value

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The words of each call, without `-c` settings and the program."""
        found = []
        for call in self.calls:
            words = list(call.argv[1:] if call.argv[0].endswith("/git") else call.argv)
            while words[:1] == ["-c"]:
                del words[:2]
            found.append(tuple(words))
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").touch(0o755)
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return work


@pytest.fixture
def make(folder: Path) -> Callable[..., Snapshots]:
    def made(**more: Any) -> Snapshots:
        place = GitPlace(branch="main", commit=None, work_tree=str(folder), repository=str(folder / ".git"))
        bounds = Bounds(within_s=5.0, largest_kib=7)
        environ = {"PATH": str(folder.parent / "bin")}
        return Snapshots(folder.parent / "own", place, environ, bounds=bounds, **more)

    return made


def test_the_directory_of_snapshots_is_a_repository_that_is_made_once(make: Callable[..., Snapshots]) -> None:
    snapshots = make()
    snapshots.make_directory(b"/ignored\n")
    own = snapshots.directory
    assert {str(path.relative_to(own)): path.read_bytes() for path in own.rglob("*") if path.is_file()} == {
        "HEAD": b"ref: refs/heads/none\n",
        "config": b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
        "info/attributes": b"* !text !eol !crlf !ident !working-tree-encoding\n",
        "info/exclude": b"/ignored\n",
    }
    assert (own / "objects").is_dir() and (own / "refs").is_dir()
    (own / "config").write_text("mine")
    snapshots.make_directory()
    assert (own / "config").read_text() == "mine"


def test_without_lines_nothing_more_is_ignored(make: Callable[..., Snapshots]) -> None:
    make().make_directory()
    assert not (make().directory / "info/exclude").exists()


def test_an_index_begins_as_the_repositorys_and_has_its_time(make: Callable[..., Snapshots], folder: Path) -> None:
    index = folder.parent / "index"
    git = Git()
    git.run(make().copy_index(index))
    assert not index.exists() and git.calls == []
    (folder / ".git/index").write_bytes(b"DIRC")
    os.utime(folder / ".git/index", (1000, 1000))
    git = Git()
    git.run(make().copy_index(index))
    assert index.read_bytes() == b"DIRC" and indexes.written_s(index) == 1000
    assert git.words == [LISTED]
    assert git.calls[0].env["GIT_INDEX_FILE"] == str(index)
    assert (git.calls[0].within_s, git.calls[0].largest_kib, git.calls[0].cwd) == (5.0, 7, folder)


def test_an_index_that_lies_in_two_files_is_what_git_lists(make: Callable[..., Snapshots], folder: Path) -> None:
    index = folder.parent / "index"
    (folder / ".git/index").write_bytes(b"DIRC")
    git = Git(GitError("of another kind"), b"the list")
    git.run(make().copy_index(index))
    assert git.words[1:] == [("ls-files", "-s", "-z"), ("update-index", "-z", "--index-info")]
    assert git.calls[2].stdin == b"the list" and git.calls[2].env["GIT_INDEX_FILE"] == str(index)
    assert "GIT_INDEX_FILE" not in git.calls[1].env
    Git(GitError("of another kind"), GitError("of whatever kind")).run(make().copy_index(index))
    assert not index.exists()


def test_of_a_file_that_git_converted_the_times_are_forgotten(make: Callable[..., Snapshots], folder: Path) -> None:
    index = folder.parent / "index"
    (folder / ".git/index").write_bytes(b"DIRC")
    listing = b"".join(entry(name) for name in ("as it is", "longer", "gone", "kept"))
    git = Git(listing + entry("lib", mode="160000"), b"7\n9\nc0ffee missing\n130\n")
    git.answers += [b"longer\0filter\0unset\0gone\0filter\0unspecified\0kept\0filter\0lfs\0"]
    git.run(make().copy_index(index))
    assert git.words[1:] == [
        ("cat-file", "--batch-check=%(objectsize)"),
        ("check-attr", "-z", "--stdin", "filter"),
        ("rev-parse", "--show-prefix"),
        ("update-index", "-z", "--index-info"),
    ]
    assert git.calls[1].stdin == b"c0ffee\n" * 4 and git.calls[2].stdin == b"longer\0gone\0kept"
    assert git.calls[4].stdin == b"100644 c0ffee 0\tlonger\0" + b"100644 c0ffee 0\tgone"


def test_outside_of_a_repository_an_index_begins_empty(make: Callable[..., Snapshots], folder: Path) -> None:
    (folder / ".git/HEAD").unlink()
    (folder / ".git/index").write_bytes(b"DIRC")
    Git().run(make().copy_index(folder.parent / "index"))
    assert not (folder.parent / "index").exists()


def test_a_snapshot_is_the_tree_of_all_that_was_added(make: Callable[..., Snapshots], folder: Path) -> None:
    index = folder.parent / "index"
    lock = folder.parent / "index.lock"
    for path in (index, lock):
        path.touch()
    git = Git(b"", b"", b"abc\n")
    assert git.run(make(folder=folder / "sub").write_tree(index, (":(exclude)x",))) == "abc"
    assert git.words == [LISTED, ("add", "--all", "--", ".", ":(exclude)x"), ("write-tree",)]
    assert git.calls[0].cwd == folder / "sub" and not lock.exists() and index.exists()


def test_an_index_of_another_kind_is_made_anew(make: Callable[..., Snapshots], folder: Path) -> None:
    index = folder.parent / "index"
    index.touch()
    git = Git(GitError("bad index"), b"", b"", b"abc\n")
    assert git.run(make().write_tree(index)) == "abc" and not index.exists()
    assert [words[0] for words in git.words] == ["ls-files", "ls-files", "add", "write-tree"]


@pytest.mark.parametrize(("more", "ignored"), [({}, "all"), ({"has_repositories": True}, "none")])
def test_two_snapshots_are_compared_by_files_and_as_a_patch(
    more: dict[str, bool], ignored: str, make: Callable[..., Snapshots]
) -> None:
    diff = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", f"--ignore-submodules={ignored}")
    git = Git(b"1\t2\ta.py\0-\t-\tb\xff\0")
    assert git.run(make(**more).changed_files("x", "y", "-R")) == (
        ChangedFile(path="a.py", added=1, removed=2),
        ChangedFile(path="b\\udcff", added=None, removed=None),
    )
    assert git.words == [(*diff, "--no-renames", "--numstat", "-z", "-R", "x", "y")]
    assert git.calls[0].within_s == 60.0 and "GIT_INDEX_FILE" not in git.calls[0].env
    assert Git(b"").run(make().changed_files("x", "y")) == ()
    git = Git(b"patch")
    assert git.run(make(**more).patch("x", "y", "-R")) == b"patch"
    assert git.words == [(*diff, "--patch", "-R", "x", "y")] and git.calls[0].within_s == 60.0


# -- indexes -----------------------------------------------------------------------------------------------------------


def entry(
    path: str, *, tag: str = "H", mode: str = "100644", of: str = "c0ffee", ctime: int = 1, mtime: int = 1
) -> bytes:
    times = f"  ctime: {ctime}:5\n  mtime: {mtime}:6\n  dev: 1\tino: 2\n  uid: 0\tgid: 0\n  size: 7\tflags: 0\n"
    return f"{tag} {mode} {of} 0\t{path}\0{times}".encode()


def test_what_an_index_can_not_be_trusted_with_is_written_into_it_without_times(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    listing = b"".join(
        (
            entry("plain"),
            entry("assumed", tag="h"),
            entry("there", tag="S"),
            entry("absent", tag="S"),
            entry("both", tag="s"),
            entry("changed\n  ctime: 1:1", ctime=100),
            entry("modified", mtime=101),
            entry("lib", mode="160000", of="beef"),
        )
    )
    for keep_absent, kept in ((False, [b"absent", b"both"]), (True, [])):
        git = Git(listing, b"in/\n")
        found = git.run(indexes.prepare_index(git, tmp_path, 100, keep_absent=keep_absent))
        assert found == {b"lib": b"beef"}
        assert git.words == [LISTED, ("rev-parse", "--show-prefix"), ("update-index", "-z", "--index-info")]
        names = [b"assumed", b"there", *kept, b"changed\n  ctime: 1:1", b"modified"]
        wanted = [b"0 beef\tin/lib", *(b"100644 c0ffee 0\tin/" + name for name in names)]
        assert git.calls[2].stdin == b"\0".join(wanted)
    git = Git(entry("plain", ctime=99, mtime=99))
    assert git.run(indexes.prepare_index(git, tmp_path, 100, keep_absent=False)) == {} and len(git.calls) == 1


@pytest.mark.parametrize("cut", [b"x", b"H 100644 c0ffee 0\tpath\0", b"H 100644 c0ffee 0\tpath\0  mtime: 1:0\n"])
def test_an_index_in_an_unknown_form_is_not_taken_for_one_without_files(cut: bytes) -> None:
    for listing in (cut, entry("a") + cut, cut + entry("a")):
        with pytest.raises(GitError, match="in a form that beam does not know"):
            indexes.index_entries(listing)


def test_an_index_is_as_old_as_the_earlier_of_its_times(tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert indexes.written_s(index) == 0
    index.touch()
    made = index.stat()
    os.utime(index, (made.st_mtime + 10**6, made.st_mtime + 10**6))
    assert indexes.written_s(index) == int(index.stat().st_ctime)
    os.utime(index, (7, 7))
    assert indexes.written_s(index) == 7


def test_repositories_come_back_where_their_folder_is(tmp_path: Path) -> None:
    for name in ("sub", "there"):
        (tmp_path / name).mkdir()
    git = Git(entry("there"), b"in/\n")
    given = {b"sub": b"c0ffee", b"gone": b"beef", b"there": b"dead"}
    git.run(indexes.put_repositories_back(git, tmp_path, given))
    assert git.calls[2].stdin == b"160000 c0ffee\tin/sub"
    git = Git()
    git.run(indexes.put_repositories_back(git, tmp_path, {b"gone": b"beef"}))
    assert git.calls == []


def test_a_repository_without_a_commit_is_left_out() -> None:
    git = Git(b"", GitError("no commit"), b"new/\0file\0other/\0")
    assert git.run(indexes.add_files(git, Path("/"), 0, ("x",))) == {}
    assert git.words[2:] == [
        ("ls-files", "--others", "-z"),
        ("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"),
    ]
    assert git.calls[3].stdin == b".\0x\0:(exclude,literal)new/\0:(exclude,literal)other/"


def test_an_exit_code_is_an_answer_where_git_came_to_its_end() -> None:
    git = Git(b"")
    assert git.run(succeeds(git, "rev-parse", "x")) is True and git.calls[0].asks
    no = GitError("no")
    no.code = 1
    assert Git(no).run(succeeds(Git(), "rev-parse")) is False
    with pytest.raises(GitError):
        Git(GitError("too long")).run(succeeds(Git(), "rev-parse"))


# -- calls -------------------------------------------------------------------------------------------------------------


def test_a_call_has_all_that_was_asked_for(folder: Path) -> None:
    environ = {"PATH": str(folder.parent / "bin"), "GIT_DIR": "/x", "HOME": "/h"}
    place = PrivateRepository(directory=Path("/own"), work_tree=folder, objects=Path("/o"), environ=environ)
    call = call_in_private_repository(place, "add", ".", cwd=folder, within_s=2.0, stdin=b"x", largest_kib=3)
    program = str(folder.parent / "bin/git")
    assert (call.word, call.cwd, call.stdin, call.within_s, call.largest_kib, call.asks) == (
        "add", folder, b"x", 2.0, 3, False,
    )  # fmt: skip
    assert call.argv[0] == program and call.argv[-2:] == ("add", ".") and "GIT_INDEX_FILE" not in call.env
    settings = dict(word.split("=", 1) for word in call.argv[2:-2:2])
    assert settings == {
        "core.fsmonitor": "false",
        "core.untrackedCache": "false",
        "core.splitIndex": "false",
        "core.trustctime": "true",
        "core.checkStat": "default",
        "core.ignoreStat": "false",
        "core.hooksPath": "/dev/null",
        "core.quotePath": "false",
        "advice.addEmbeddedRepo": "false",
        "gc.auto": "0",
        "maintenance.auto": "false",
        "core.attributesFile": "/dev/null",
        "core.excludesFile": "/dev/null",
        "core.looseCompression": "1",
        "core.safecrlf": "false",
        "submodule.recurse": "false",
        "diff.ignoreSubmodules": "all",
    }
    call = call_in_folder(folder, environ, {"A": "1"}, "commit", "-m", "x", within_s=2.0, stdin=b"y")
    assert (call.word, call.cwd, call.stdin, call.within_s, call.largest_kib) == ("commit", folder, b"y", 2.0, 0)
    assert call.env["A"] == "1" and call.env["HOME"] == "/h" and call.env["LC_ALL"] == "C"
    settings = dict(word.split("=", 1) for word in call.argv[2:-3:2])
    own = {"commit.gpgSign": "false", "user.name": "beam", "user.email": "beam@localhost"}
    assert own.items() <= settings.items() and len(settings) == 15 and settings["core.sparseCheckout"] == "false"
    with refused(GitError, "git is not installed", "install git"):
        call_in_folder(folder, {"PATH": "/none"}, {}, "status", within_s=1.0)


# -- running them, without a process -----------------------------------------------------------------------------------


class Process:
    """Stands in for git's process."""

    pid = 77

    def __init__(self, out: bytes = b"out", err: bytes = b"", code: int | None = 0, *, hangs: bool = False) -> None:
        self.given: list[Any] = []
        self.out, self.err, self.returncode, self.hangs = out, err, None if hangs else code, hangs

    def __call__(self, argv: Any, **options: Any) -> Process:
        self.given.append((tuple(argv), options))
        return self

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None: ...

    def communicate(self, stdin: bytes | None, timeout: float) -> tuple[bytes, bytes]:
        self.given.append((stdin, timeout))
        if self.hangs:
            raise subprocess.TimeoutExpired("git", timeout)
        return self.out, self.err


def called(process: Process, monkeypatch: pytest.MonkeyPatch, **more: Any) -> bytes:
    monkeypatch.setattr(subprocess, "Popen", process)
    monkeypatch.setattr(running.os, "killpg", lambda *given: process.given.append(given))
    given = {"argv": ("git", "add"), "word": "add", "cwd": Path("/c"), "env": {"A": "1"}, "within_s": 2.0, **more}

    def one() -> GitCalls[bytes]:
        return (yield GitCall(**given))

    found: bytes = running.run_blocking(one())
    return found


def test_a_call_runs_in_its_directory_with_its_environment_and_input(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process()
    assert called(process, monkeypatch) == b"out"
    options = {"cwd": Path("/c"), "env": {"A": "1"}, "stdin": -3, "stdout": -1, "stderr": -1, "start_new_session": True}
    assert process.given == [(("git", "add"), options), (None, 2.0)]
    process = Process()
    called(process, monkeypatch, stdin=b"x", largest_kib=3)
    limited = ("/bin/sh", "-c", 'ulimit -f 6; exec "$@"', "sh", "git", "add")
    assert process.given == [(limited, {**options, "stdin": -1}), (b"x", 2.0)]


def test_git_that_takes_too_long_is_killed_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(hangs=True)
    with refused(GitError, "git add took longer than 2 s"):
        called(process, monkeypatch)
    assert process.given[2:] == [(77, 9)]


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize(
    "err",
    [
        b"fatal: detected dubious ownership in repository at '/it's'\nTo add an exception, call:\n\n\tgit config\n",
        b"fatal: unsafe repository ('/it's' is owned by someone else)\nTo add an exception, call:\n\n\tgit config\n",
    ],
)
def test_a_repository_of_another_user_is_named_with_what_lets_git_use_it(
    err: bytes, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = "git refuses /it's, which belongs to another user (dubious ownership)"
    hint = "if you trust it: git config --global --add safe.directory '/it'\"'\"'s'"
    with pytest.raises(GitError) as found:
        called(Process(err=err, code=128), monkeypatch, asks=asks)
    assert (found.value.message, found.value.hint) == (what, hint)
    assert found.value.code is None  # it is no answer


@pytest.mark.parametrize(
    ("err", "said"),
    [(b"", "exit code 3"), (b"first\nlast\n", "last"), (b"x" * 301, "x" * 300), (b"\xff", "\ufffd")],
)
def test_a_failure_is_the_last_that_git_says(err: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_is_full", lambda call: False)
    with refused(GitError, f"git add: {said}"):
        called(Process(err=err, code=3), monkeypatch)


@pytest.mark.parametrize(
    ("err", "code", "asks", "is_full", "is_disk"),
    [
        (b"No space left on device", 128, False, False, True),
        (b"Disk quota exceeded", 128, True, False, True),
        (b"no", 1, True, True, False),
        (b"no", 128, True, True, False),
        (b"no", 1, False, True, True),
        (b"no", 1, False, False, False),
        (b"Disk quota exceeded", 1, True, True, False),
    ],
)
def test_a_full_disk_is_told_from_an_answer(
    err: bytes, code: int, asks: bool, is_full: bool, is_disk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_is_full", lambda call: is_full)
    with pytest.raises(DiskError if is_disk else GitError) as error:
        called(Process(err=err, code=code), monkeypatch, asks=asks)
    if is_disk:
        said = f"git add could not write: the disk is full, or a quota is used up ({err.decode()})"
        assert (error.value.message, error.value.hint) == (said, "free some space, then run it again")
        assert error.value.subject == "/c"
    else:
        assert error.value.code == code  # type: ignore[attr-defined]


@pytest.mark.parametrize(("blocks", "left", "flag"), [(100, 0, 0), (100, 1, 0), (0, 0, 0)])
def test_a_disk_without_blocks_is_full(blocks: int, left: int, flag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_blocks=blocks, f_bavail=left, f_flag=flag))
    call = GitCall(argv=("git",), word="add", cwd=Path("/"), env={}, within_s=1.0)
    assert running._is_full(call) is (blocks > 0 and left == 0)


@pytest.mark.slow
def test_what_a_repository_can_not_do_is_the_callers_mistake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"PATH": str(folder.parent / "bin"), "HOME": str(folder.parent)}
    made = Repository(folder, environ)
    failure = GitError("git add: no", "do that")

    def fails(_: object) -> None:
        raise failure

    monkeypatch.setattr(running, "run_blocking", fails)
    with refused(UsageError, "git add: no", "do that", subject=str(folder)):
        made.output("rev-parse", "x")
    failure.hint = ""
    with refused(UsageError, "git add: no", "look at it with git status", subject=str(folder)):
        made.succeeds("rev-parse", "x")
    monkeypatch.setattr(running, "run_blocking", lambda calls: b"a\xff\nb\n\n")
    assert made.output("rev-parse", "x") == "a\ufffd\nb"
