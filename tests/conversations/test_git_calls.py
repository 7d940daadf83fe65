"""What a run asks of git, with a repository in memory: its work tree, its leftovers, and what git ignores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beam.base.errors import UsageError
from beam.conversations import changes as looks
from beam.conversations import run_worktree
from beam.conversations.changes import FolderChanges
from beam.conversations.result import WorktreeResult
from beam.conversations.run_worktree import RunWorktrees
from beam.conversations.scenario import Worktree
from beam.process import owned, tree
from beam.worktree import calls

Says = Callable[..., str]


class Repository:
    """A repository in memory: `asked` are the calls; `answers` are what git says, by the first words of a call."""

    def __init__(self, folder: Path, *_: Any, project: Path | None = None, **__: Any) -> None:
        self.folder = folder
        self.project = project or folder
        self.asked: list[tuple[str, ...]] = []
        self.answers: dict[str, Any] = {}
        self.stdin: list[bytes] = []

    def _answer(self, words: tuple[str, ...]) -> Any:
        self.asked.append(words)
        line = " ".join(words)
        found = next((answer for begin, answer in self.answers.items() if line.startswith(begin)), "")
        if isinstance(found, Exception):
            raise found
        return found

    def succeeds(self, *words: str) -> bool:
        return bool(self._answer(words))

    def output(self, *words: str, stdin: bytes = b"") -> str:
        self.stdin.append(stdin)
        return str(self._answer(words))

    def call(self, *words: str, **more: Any) -> Any:
        return words

    def run(self, steps: Any) -> Any:
        """Plays the calls of a function; errors are thrown into it."""
        answer: Any = None
        try:
            words = next(steps)
            while True:
                try:
                    answer = self._answer(words)
                except calls.GitError as error:
                    words = steps.throw(error)
                else:
                    words = steps.send(answer)
        except StopIteration as done:
            return done.value


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Repository]]:
    """The repositories that were made."""
    found: list[Repository] = []

    def make(*given: Any, **more: Any) -> Repository:
        found.append(Repository(*given, **more))
        return found[-1]

    monkeypatch.setattr(run_worktree, "Repository", make)
    yield found


def trees(tmp_path: Path) -> RunWorktrees:
    return RunWorktrees(tmp_path / "project", {"HOME": "/h"}, store=tmp_path / "store")


def test_a_commit_is_there_where_git_knows_it_and_an_option_is_none(made: list[Repository], tmp_path: Path) -> None:
    it = trees(tmp_path)
    (git,) = made
    git.answers = {"rev-parse": True}
    assert (it.has_commit("main"), it.has_commit("-x")) == (True, False)
    assert git.asked == [("rev-parse", "--verify", "-q", "main^{commit}")]
    git.answers = {}
    assert not it.has_commit("none")


@pytest.mark.parametrize(("inside", "folder"), [("", "w"), ("sub/dir/", "w/sub/dir")])
def test_a_work_tree_is_locked_from_the_start_and_works_in_the_same_folder(
    made: list[Repository], tmp_path: Path, inside: str, folder: str
) -> None:
    it = trees(tmp_path)
    made[0].answers = {"rev-parse": inside}
    path = tmp_path / "trees" / "w"
    found = it.add(path, "b", "HEAD~1")
    reason = f"{owned.owner_text(tree.this_process())} b"
    assert made[0].asked == [
        ("worktree", "add", "-q", "--lock", "--reason", reason, "-b", "b", str(path), "HEAD~1"),
        ("rev-parse", "--show-prefix"),
        ("rev-parse", "--verify", "refs/heads/b"),
    ]
    assert (found.folder, found.repository, path.parent.is_dir()) == (tmp_path / "trees" / folder, made[1], True)
    assert made[1].project == tmp_path / "project"


def test_an_older_git_locks_the_work_tree_afterwards(made: list[Repository], tmp_path: Path) -> None:
    it = trees(tmp_path)
    path = tmp_path / "w"
    reason = f"{owned.owner_text(tree.this_process())} b"
    old = calls.GitError("unknown option")
    old.code = calls.USAGE_EXIT_CODE
    made[0].answers = {"worktree add -q --lock": old}
    it.add(path, "b", "HEAD")
    assert made[0].asked[1:3] == [
        ("worktree", "add", "-q", "-b", "b", str(path), "HEAD"),
        ("worktree", "lock", "--reason", reason, str(path)),
    ]


def test_a_start_that_looks_like_an_option_is_refused(made: list[Repository], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        trees(tmp_path).add(tmp_path / "w", "b", "--orphan")
    assert (error.value.message, error.value.hint) == (
        "`from: --orphan` names no commit",
        "write a branch, a tag or a commit",
    )
    assert made[0].asked == []


class Looked:
    """The changes of a work tree."""

    def __init__(self, *paths: str) -> None:
        self.paths, self.closed = paths, 0
        self.repository = "its own"

    def snapshot(self) -> str:
        return "after"

    def changes(self, before: str, after: str) -> Any:
        assert (before, after) == ("before", "after")
        return SimpleNamespace(paths=self.paths)

    def diff(self, before: str, after: str) -> str:
        return f"{before}..{after}"

    def close(self) -> None:
        self.closed += 1


def linked(tmp_path: Path, it: RunWorktrees, git: Repository) -> Path:
    """A work tree whose `.git` leads to the repository."""
    path, common = tmp_path / "w", tmp_path / "project" / ".git"
    place = common / "worktrees" / "w"
    place.mkdir(parents=True)
    path.mkdir()
    (path / ".git").write_text(f"gitdir: {place}\n")
    (place / "gitdir").write_text(f"{path / '.git'}\n")
    git.answers = {"rev-parse --git-common-dir": ".git", "rev-parse": "same"}
    return path


@pytest.mark.parametrize(
    ("paths", "heads", "keep", "result", "removes"),
    [
        (("a.py",), ("1", "2"), False, WorktreeResult(branch="b", diff="before..after", files=("a.py",)), ["worktree"]),
        ((), ("1", "1"), False, WorktreeResult(), ["worktree", "branch"]),
        ((), ("1", "2"), False, WorktreeResult(branch="b"), ["worktree"]),
        (("a.py",), ("1", "1"), True, None, []),
    ],
)
def test_what_a_run_changed_is_committed_and_its_folder_removed_unless_it_is_kept(
    made: list[Repository],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    paths: tuple[str, ...],
    heads: tuple[str, str],
    keep: bool,
    result: WorktreeResult | None,
    removes: list[str],
) -> None:
    committed: list[Any] = []
    monkeypatch.setattr(run_worktree, "commit_all", lambda *given: committed.append(given))
    it = trees(tmp_path)
    git = made[0]
    git.answers = {"rev-parse --verify refs/heads/b": heads[1]}
    it.add(tmp_path / "w", "b", "HEAD")
    path = linked(tmp_path, it, git)
    git.answers = {"rev-parse --verify refs/heads/b": heads[0], **git.answers}
    looked = Looked(*paths)
    found = it.end(cast(Any, looked), path, "b", Worktree(keep=keep), "before")
    kept = WorktreeResult(branch="b", path=str(path), diff="before..after", files=("a.py",))
    assert found == (result or kept)
    assert (committed, looked.closed) == ([("its own", "b")], 1)
    after = git.asked[git.asked.index(("worktree", "unlock", str(path))) + 1 :]
    wanted = {"worktree": ("worktree", "remove", "--force", str(path)), "branch": ("branch", "-q", "-D", "b")}
    assert after == [wanted[each] for each in removes]


@pytest.mark.parametrize("what", ["the file", "the way back"])
def test_a_work_tree_that_leads_to_another_repository_is_not_committed(
    made: list[Repository], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    monkeypatch.setattr(run_worktree, "commit_all", lambda *_: pytest.fail("nothing is committed"))
    it = trees(tmp_path)
    path = linked(tmp_path, it, made[0])
    if what == "the file":
        (path / ".git").write_text("gitdir: /elsewhere/.git/worktrees/w\n")
    else:
        (tmp_path / "project/.git/worktrees/w/gitdir").write_text("/elsewhere/.git\n")
    with pytest.raises(UsageError) as error:
        it.end(cast(Any, Looked()), path, "b", Worktree(), "before")
    common = tmp_path / "project" / ".git"
    assert (error.value.message, error.value.hint, error.value.subject) == (
        f"{path}/.git was changed: it does not lead to {common} any more, and nothing is committed",
        f"look at what is in {path}, then remove it",
        str(path),
    )


def test_a_failed_run_leaves_its_branch(made: list[Repository], tmp_path: Path) -> None:
    it = trees(tmp_path)
    it.abandon(tmp_path / "w")
    assert made[0].asked == [
        ("worktree", "unlock", str(tmp_path / "w")),
        ("worktree", "remove", "--force", str(tmp_path / "w")),
    ]


def test_what_killed_runs_left_is_removed_and_their_branches_named(
    made: list[Repository], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    committed: list[tuple[Path, str]] = []
    monkeypatch.setattr(
        run_worktree, "commit_all", lambda repository, branch: committed.append((repository.folder, branch))
    )
    it = trees(tmp_path)
    git = made[0]
    path = linked(tmp_path, it, git)
    me = tree.this_process()
    dead = owned.owner_text(msgspec.structs.replace(me, pid=2**22 + 1, start_ticks=1))
    alive = owned.owner_text(me)
    entries = [
        f"worktree {tmp_path / 'project'}\nbranch refs/heads/main",
        f"worktree {path}\nbranch refs/heads/beam/s-1\nlocked {dead}",
        f"worktree {tmp_path / 'gone'}\ndetached\nlocked {dead} beam/s-2",
        f"worktree {tmp_path / 'runs'}\nbranch refs/heads/beam/s-3\nlocked {alive}",
        f"worktree {tmp_path / 'deep' / 'er'}\nbranch refs/heads/beam/s-4\nlocked {dead}",
        f"worktree {tmp_path / 'mine'}\nbranch refs/heads/mine\nlocked by me",
    ]
    git.answers = {"worktree list": "\n\n".join(entries), **git.answers}
    assert it.remove_leftovers(tmp_path) == ["beam/s-1", "beam/s-2"]
    assert committed == [(path, "beam/s-1")]
    assert [words for words in git.asked if words[:2] == ("worktree", "remove")] == [
        ("worktree", "remove", "--force", str(path)),
        ("worktree", "remove", "--force", str(tmp_path / "gone")),
    ]
    git.answers = {"worktree list": UsageError("no repository")}
    assert it.remove_leftovers(tmp_path) == []


# -- the changes of a folder -------------------------------------------------------------------------------------------


def folder_changes(tmp_path: Path, environ: dict[str, str] | None = None) -> tuple[FolderChanges, Repository]:
    git = Repository(tmp_path / "shop")
    git.folder.mkdir(exist_ok=True)
    given = environ or {"HOME": str(tmp_path / "home")}
    return FolderChanges(git.folder, given, store=tmp_path / "store", repository=cast(Any, git)), git


def test_a_folder_is_there_where_it_has_a_commit(tmp_path: Path) -> None:
    found, git = folder_changes(tmp_path)
    git.answers = {"rev-parse --verify -q HEAD^{commit}": True}
    assert found.is_in_repository()
    git.answers = {}
    assert not found.is_in_repository()
    git.answers = {"rev-parse": UsageError("git is not installed", "install git")}
    with pytest.raises(UsageError, match="git is not installed"):
        found.is_in_repository()


def test_a_patch_is_applied_from_stdin_and_what_went_wrong_is_reported(tmp_path: Path) -> None:
    found, git = folder_changes(tmp_path)
    assert (found.apply(b""), git.asked) == ("", [])
    assert found.apply(b"a patch") == ""
    assert (git.asked, git.stdin) == ([("apply", "--whitespace=nowarn", "-")], [b"a patch"])
    git.answers = {"apply": UsageError("it does not fit")}
    assert found.apply(b"a patch") == "it does not fit"


def test_what_beam_writes_inside_of_the_folder_is_left_out(tmp_path: Path) -> None:
    found, git = folder_changes(tmp_path)
    found.leave_out([git.folder / "out", tmp_path / "elsewhere"])
    assert found._left_out == [":(exclude,literal)out"]


@pytest.mark.parametrize("where", ["config", "xdg", "home"])
def test_what_git_ignores_is_what_the_person_and_the_repository_say(tmp_path: Path, where: str) -> None:
    own = {"config": tmp_path / "mine", "xdg": tmp_path / "x/git/ignore", "home": tmp_path / "home/.config/git/ignore"}
    for each in own.values():
        each.parent.mkdir(parents=True, exist_ok=True)
    own[where].write_text("*.own")
    environ = {"HOME": str(tmp_path / "home"), **({"XDG_CONFIG_HOME": str(tmp_path / "x")} if where == "xdg" else {})}
    found, git = folder_changes(tmp_path, environ)
    git.answers = {"config": str(own["config"]) if where == "config" else UsageError("not set")}
    repository = tmp_path / "repository"
    (repository / "info").mkdir(parents=True)
    assert found._ignore_rules(repository) == b"*.own\n"
    (repository / "info/exclude").write_text("*.theirs")
    assert found._ignore_rules(repository) == b"*.own\n*.theirs\n"
    assert git.asked[0] == ("config", "--type=path", "--get", "core.excludesFile")


def test_a_folder_that_left_its_repository_has_no_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = folder_changes(tmp_path)
    monkeypatch.setattr(looks, "git_place", lambda folder: None)
    with pytest.raises(UsageError) as error:
        found.snapshot()
    assert (error.value.message, error.value.subject) == (
        f"{found.folder} is in no git work tree any more",
        str(found.folder),
    )


class Snapshots:
    """Snapshots in memory."""

    def __init__(self, directory: Path, place: Any, environ: Any, **more: Any) -> None:
        self.directory, self.more, self.made = directory, more, list[bytes]()

    def make_directory(self, ignored: bytes) -> None:
        self.made.append(ignored)

    def copy_index(self, index: Path) -> Any:
        yield ("begin", index.name)

    def write_tree(self, index: Path, left_out: list[str]) -> Any:
        return (yield ("tree", index.name, *left_out))

    def changed_files(self, before: str, after: str, *more: str) -> Any:
        yield ("changed", before, after, *more)
        return [
            SimpleNamespace(path="a.py", added=3, removed=1),
            SimpleNamespace(path="b.bin", added=None, removed=None),
        ]

    def patch(self, before: str, after: str, *more: str) -> Any:
        return (yield ("patch", before, after, *more))


def test_snapshots_have_a_folder_of_their_own_that_goes_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "git_place", lambda folder: SimpleNamespace(repository=str(tmp_path / "r")))
    monkeypatch.setattr(looks, "Snapshots", Snapshots)
    found, git = folder_changes(tmp_path)
    found.leave_out([git.folder / "out"])
    store = tmp_path / "store"
    (store / ".run-old.tmp").mkdir(parents=True)
    monkeypatch.setattr(owned, "is_owner_alive", lambda path: False if path.name == ".run-old.tmp" else None)
    secret = "sk-ant-api03-" + "A1b2C3d4" * 6
    git.answers = {"tree": "tree-1", "patch": f"+{secret}\n\n".encode()}
    assert (found.snapshot(), found.snapshot()) == ("tree-1", "tree-1")
    (directory,) = store.iterdir()
    assert (directory.name.startswith(".run-"), directory.name.endswith(".tmp")) == (True, True)
    own = cast(Any, found._snapshots)
    assert (own.directory, own.more["folder"], own.more["has_repositories"]) == (directory, git.folder, True)
    changed = found.changes("a", "b")
    assert (changed.paths, changed.added, changed.removed, changed.known) == (("a.py", "b.bin"), 3, 1, True)
    assert found.diff("a", "b") == "+[redacted:anthropic-key]"
    assert found.patch("a", "b") == git.answers["patch"]
    assert [words for words in git.asked if words[0] in ("begin", "tree", "changed", "patch")] == [
        ("begin", "index"),
        ("tree", "index", ":(exclude,literal)out"),
        ("tree", "index", ":(exclude,literal)out"),
        ("changed", "a", "b", "--relative"),
        ("patch", "a", "b"),
        ("patch", "a", "b", "--binary"),
    ]
    found.close()
    assert list(store.iterdir()) == []
    found.close()
