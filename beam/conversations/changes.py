"""The file changes of a run, by git: snapshots without side effects, and a separate work tree for the run.

No hook or program of the repository's configuration runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from beam.base import files
from beam.base.errors import BeamError, DiskError, UsageError
from beam.conversations.expect import Changes
from beam.conversations.result import WorktreeResult
from beam.conversations.scenario import Worktree
from beam.process import owned, tree
from beam.root.user_dirs import user_home
from beam.secrets.redact import redact
from beam.trust import git_config, ledger
from beam.turns.snapshot import FORGET, FROM_STDIN, NO_FETCH, passed_over, repositories_in

MOST_DIFF = 1 << 20
_LARGEST_INDEX = 256 << 20
_LARGEST_LINK = 4096
_ONLY_LOOKS = frozenset({"rev-parse", "ls-files"})
_TIMEOUT_S = 120.0
_SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "core.splitIndex=false"),
    *("-c", "commit.gpgSign=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "user.name=beam"),
    *("-c", "user.email=beam@localhost"),
    *("-c", "core.quotePath=false"),
)


_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--submodule=short")
_USAGE = 129  # git's exit code for an option that it does not know
_APART = ".run-"
_FULL = (b"No space left on device", b"Disk quota exceeded")


class Repository:
    """The git work tree around a folder. Snapshots are kept below `store`, where no agent may write.

    What git is configured to run there counts only if the folder is trusted, and as it was when this was made.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], *, store: Path, project: Path | None = None) -> None:
        self.folder = folder
        self._store = store
        self._project = project or folder  # whose trust counts
        self._given = environ
        self._environ = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
        self._environ |= {name: value for name, value in environ.items() if name.startswith("GIT_CONFIG_")}
        self._environ |= {**NO_FETCH, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        self._at_first = frozenset((each.name, each.digest) for each in self._look().found)
        self._apart: dict[str, str] | None = None
        self._index = Path()
        self._left_out: list[str] = []
        self._one = threading.Lock()  # parallel steps take snapshots, and there is one index for them

    def leave_out(self, paths: Sequence[Path]) -> None:
        """Ignore these paths in what is compared: beam itself writes there."""
        top = self.folder.resolve()
        inside = [path.resolve().relative_to(top) for path in paths if path.resolve().is_relative_to(top)]
        self._left_out = [f":(exclude,literal){path}" for path in inside]

    def is_there(self) -> bool:
        """Return whether the folder is in a git repository with a commit."""
        try:
            return self._git("rev-parse", "--verify", "-q", "HEAD^{commit}").returncode == 0
        except UsageError:
            return False

    def has(self, commit: str) -> bool:
        """Return whether there is a commit of that name."""
        if commit.startswith("-"):
            return False
        return self._git("rev-parse", "--verify", "-q", f"{commit}^{{commit}}").returncode == 0

    def close(self) -> None:
        """Remove the objects of snapshots."""
        if self._apart is not None:
            shutil.rmtree(self._apart["GIT_DIR"], ignore_errors=True)
            self._apart = None

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> str:
        """Return the id of a git tree with the folder's current files, without ignored ones."""
        with self._one:
            env = self._own()
            self._forget_repositories(env)
            words = ("add", "-A", "--", ".", *self._left_out)
            if self._git(*words, env=env).returncode:  # as where a repository without a commit is in the folder
                self._said(
                    "add", "-A", *FROM_STDIN, env=env, stdin=b"\0".join([b".", *self._without_repositories(env)])
                )
            return self._said("write-tree", env=env)

    def _without_repositories(self, env: Mapping[str, str]) -> list[bytes]:
        found = self._git("ls-files", "--others", "-z", env=env).stdout.split(b"\0")
        inside = [b":(exclude,literal)" + path for path in found if path.endswith(b"/")]
        return [*map(os.fsencode, self._left_out), *inside]

    def _forget_repositories(self, env: Mapping[str, str]) -> dict[bytes, bytes]:
        """Take repositories in the folder out of the index, so that git does not look into them; return them."""
        found = repositories_in(self._git("ls-files", "-s", "-z", env=env).stdout)
        if found:
            self._said(*FORGET, env=env, stdin=b"\0".join(found))
        return found

    def _watch_every_file(self, env: Mapping[str, str]) -> None:
        """Take the marks out of an index by which git would not look at a file.

        Files that a sparse checkout leaves out keep theirs.
        """
        for words, paths in passed_over(self._git("ls-files", "-v", "-z", env=env).stdout, self.folder).unmark():
            self._git("update-index", *words, env=env, stdin=paths)

    def changes(self, before: str, after: str) -> Changes:
        """Return what is different between two snapshots. Paths are relative to the folder."""
        text = self._said(*_DIFF, "--numstat", "-z", "--no-renames", "--relative", before, after, env=self._own())
        paths, added, removed = [], 0, 0
        for entry in text.split("\0"):
            plus, _, rest = entry.partition("\t")
            minus, _, path = rest.partition("\t")
            if path:
                paths.append(path)
                added += int(plus) if plus.isdigit() else 0
                removed += int(minus) if minus.isdigit() else 0
        return Changes(paths=tuple(paths), added=added, removed=removed, known=True)

    def diff(self, before: str, after: str) -> str:
        """Return the differences as a patch, without secrets, at most a mebibyte."""
        text = self._said(*_DIFF, "--no-color", before, after, env=self._own())
        return redact(text[:MOST_DIFF])[0]

    def patch(self, before: str, after: str) -> bytes:
        """Return the differences as a patch for `apply`."""
        done = self._git(*_DIFF, "--binary", before, after, env=self._own())
        return done.stdout

    def apply(self, patch: bytes) -> str:
        """Make these changes; return what went wrong, "" if nothing."""
        if not patch:
            return ""
        done = self._git("apply", "--whitespace=nowarn", "-", stdin=patch)
        return "" if done.returncode == 0 else _last_line(done.stderr)

    # -- a work tree of the run's own ----------------------------------------------------------------------------------

    def add_worktree(self, path: Path, branch: str, start: str) -> Repository:
        """Make a work tree with a new branch at that commit. Raises UsageError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if start.startswith("-"):
            raise UsageError(f"`from: {start}` names no commit", "write a branch, a tag or a commit")
        reason, what = owned.text_of(tree.this_process()), ("-b", branch, str(path), start)
        # Locked from the start: if this process is killed, git goes on, and the next run removes what it made.
        made = self._git("worktree", "add", "-q", "--lock", "--reason", reason, *what)
        if made.returncode == _USAGE:  # git before 2.34
            self._said("worktree", "add", "-q", *what)
            self._said("worktree", "lock", "--reason", reason, str(path))
        else:
            self._check(made, "worktree")
        inside = self._said("rev-parse", "--show-prefix").rstrip("/")
        return Repository(path / inside if inside else path, self._given, store=self._store, project=self._project)

    def end_worktree(self, made: Repository, path: Path, branch: str, wanted: Worktree, before: str) -> WorktreeResult:
        """Commit the changes to the branch and remove the work tree, unless it has to be kept.

        An unchanged branch is removed, too.
        """
        after = made.snapshot()
        found = made.changes(before, after)
        diff = made.diff(before, after) if found.paths else ""
        self._check_link(path)
        made._commit()
        is_same = not found.paths and self._said("rev-parse", branch) == self._said("rev-parse", wanted.start)
        made.close()
        self._git("worktree", "unlock", str(path))
        if wanted.keep:
            return WorktreeResult(branch=branch, path=str(path), diff=diff, files=found.paths)
        self._said("worktree", "remove", "--force", str(path))
        if is_same:
            self._said("branch", "-q", "-D", branch)
        return WorktreeResult(branch="" if is_same else branch, diff=diff, files=found.paths)

    def abandon_worktree(self, path: Path) -> None:
        """Remove the work tree of a failed run; its branch stays."""
        self.unlock(path)
        self._git("worktree", "remove", "--force", str(path))

    def unlock(self, path: Path) -> None:
        """Release the lock of the work tree, so that no later run removes it."""
        self._git("worktree", "unlock", str(path))

    def remove_leftovers(self, folder: Path) -> list[str]:
        """Remove the work trees below that folder whose runs were killed; return the branches that keep their changes.

        A work tree is a run's by the reason of git's own lock on it.
        """
        found = []
        for entry in self._git("worktree", "list", "--porcelain").stdout.decode("utf-8", "replace").split("\n\n"):
            given = dict(line.partition(" ")[::2] for line in entry.splitlines())
            path, owner = Path(given.get("worktree", "")), owned.owner_in(given.get("locked", ""))
            if owner is None or path.parent != folder or tree.is_alive(owner) is not False or path.is_symlink():
                continue
            with contextlib.suppress(UsageError, DiskError):
                if path.is_dir():
                    self._check_link(path)
                    Repository(path, self._given, store=self._store, project=self._project)._commit()
                self.abandon_worktree(path)
                found.append(given.get("branch", "").removeprefix("refs/heads/"))
        return found

    def _check_link(self, path: Path) -> None:
        """Raise UsageError unless the work tree's `.git` leads to this repository: an agent could write another one."""
        common = Path(os.path.realpath(self.folder / self._said("rev-parse", "--git-common-dir")))
        place = Path(_text(path / ".git").removeprefix("gitdir: "))
        if place.parent != common / "worktrees" or _text(place / "gitdir") != str(path / ".git"):
            raise UsageError(
                f"{path}/.git was changed: it does not lead to {common} any more, and nothing is committed",
                f"look at what is in {path}, then remove it",
                subject=str(path),
            )

    def _commit(self) -> None:
        """Commit all changes. Raises UsageError."""
        self._watch_every_file({})
        before = self._forget_repositories({})
        if self._git("add", "-A").returncode:
            self._said("add", "-A", *FROM_STDIN, stdin=b"\0".join([b".", *self._without_repositories({})]))
        empty = [path for path in before if os.path.isdir(self.folder / os.fsdecode(path))]  # noqa: PTH112
        there = repositories_in(self._git("ls-files", "-s", "-z").stdout)
        back = [b"160000 " + before[path] + b"\t" + path for path in empty if path not in there]
        if back:
            self._said("update-index", "-z", "--add", "--index-info", stdin=b"\0".join(back))
        if self._git("diff", "--cached", "--quiet", "HEAD").returncode:
            self._said("commit", "-q", "--no-verify", "-m", "What the run changed")

    # -- git -----------------------------------------------------------------------------------------------------------

    def _own(self) -> dict[str, str]:
        """Return the variables with which git has a directory of beam's own for its configuration, index and objects.

        It begins with the repository's index; what becomes of that later hides no change.
        """
        if self._apart is not None and "GIT_WORK_TREE" in self._apart:
            return self._apart
        self.close()
        objects, index, exclude = (self._path(name) for name in ("objects", "index", "info/exclude"))
        top = self._said("rev-parse", "--show-toplevel")
        files.make_directory(self._store)
        self._remove_dead()
        with files.disk("make a folder in", self._store):
            own = Path(tempfile.mkdtemp(prefix=_APART, suffix=".tmp", dir=self._store))
            self._apart = {"GIT_DIR": str(own)}  # from here on `close` removes it
            owned.take(own)
            for name in ("objects", "refs", "info"):
                (own / name).mkdir()
        files.replace(own / "config", b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        files.replace(own / "HEAD", b"ref: refs/heads/none\n")
        escaped = str(objects).replace("\\", "\\\\").replace('"', '\\"')
        self._apart = {
            "GIT_DIR": str(own),
            "GIT_WORK_TREE": top,
            "GIT_INDEX_FILE": str(own / "index"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{escaped}"',
        }
        for source, name in ((index, "index"), (exclude, "info/exclude")):
            with contextlib.suppress(OSError, BeamError):
                files.replace(own / name, files.read(source, _LARGEST_INDEX, follow=True))
        if self._git("ls-files", "-v", "-z", env=self._apart).returncode:  # an index of another kind
            (own / "index").unlink(missing_ok=True)
        self._watch_every_file(self._apart)
        return self._apart

    def _remove_dead(self) -> None:
        """Remove what killed runs left of their snapshots."""
        for name in files.names(self._store):
            if name.startswith(_APART) and owned.is_alive(self._store / name) is False:
                shutil.rmtree(self._store / name, ignore_errors=True)

    def _path(self, name: str) -> Path:
        path = Path(self._said("rev-parse", "--git-path", name))
        return path if path.is_absolute() else self.folder / path

    def _look(self) -> git_config.Git:
        return git_config.look(self._project, self.folder, access="read", home=user_home(self._given))

    def _without_programs(self) -> dict[str, str]:
        """Return the variables that keep git from programs of the repository's own configuration, unless it is trusted
        and was so before."""
        now = self._look()
        is_as_before = {(each.name, each.digest) for each in now.found} <= self._at_first
        if is_as_before and ledger.standing_of(self._project, now.found, self._given).trusted:
            return {}
        return git_config.variables(now.off, self._environ)

    def _said(self, *words: str, env: Mapping[str, str] = {}, stdin: bytes | None = None) -> str:
        done = self._git(*words, env=env, stdin=stdin)
        self._check(done, words[0])
        return done.stdout.decode("utf-8", "replace").rstrip("\n")

    def _check(self, done: subprocess.CompletedProcess[bytes], word: str) -> None:
        if done.returncode != 0:
            why = _last_line(done.stderr)
            if any(sign in done.stderr for sign in _FULL) or self._is_full():
                what = f"git {word} could not write: the disk is full, or a quota is used up ({why})"
                raise DiskError(what, "free some space, then run it again", subject=str(self.folder))
            raise UsageError(f"git {word} failed: {why}", "look at it with git status", subject=str(self.folder))

    def _is_full(self) -> bool:
        """Return whether nothing can be written any more where git writes: it does not always say so."""
        with contextlib.suppress(OSError):
            found = [os.statvfs(place) for place in (self.folder, self._store)]
            return any(each.f_blocks and not each.f_bavail and not each.f_flag & os.ST_RDONLY for each in found)
        return False

    def _git(
        self, *words: str, env: Mapping[str, str] = {}, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        own = env or ({} if words[0] in _ONLY_LOOKS else self._without_programs())
        try:
            return subprocess.run(
                ["git", *_SAFE, *words],
                cwd=self.folder,
                env={**self._environ, **own},
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except OSError as error:
            raise UsageError(f"can't run git: {os.strerror(error.errno or 0)}", "install git") from error
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"git {words[0]} took longer than {_TIMEOUT_S:g} s", "look at the repository") from error


def _text(path: Path) -> str:
    """Return the text of a short file of git's; "" where it is no plain file."""
    try:
        return files.read(path, _LARGEST_LINK).decode(errors="surrogateescape").strip()
    except (OSError, BeamError):
        return ""


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
