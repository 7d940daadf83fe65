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

from msgspec import structs

from beam.base.errors import UsageError
from beam.conversations.expect import Changes
from beam.conversations.result import WorktreeResult
from beam.conversations.scenario import Worktree
from beam.model.events import Owner
from beam.process import tree
from beam.root.user_dirs import user_home
from beam.secrets.redact import redact
from beam.trust import git_config, ledger
from beam.turns.snapshot import passed_over

MOST_DIFF = 1 << 20
_TIMEOUT_S = 120.0
_SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "commit.gpgSign=false"),
    *("-c", "user.name=beam"),
    *("-c", "user.email=beam@localhost"),
    *("-c", "core.quotePath=false"),
)


_OWNED = "beam run"


def _owned(owner: Owner) -> str:
    """Return the reason of the lock on a run's work tree: whose it is."""
    return f"{_OWNED} {owner.pid} {owner.start_ticks} {owner.boot_id or '-'} {owner.pid_namespace or '-'} {owner.host}"


def _owner_in(reason: str) -> Owner | None:
    """Return the process in such a reason; None for any other."""
    words = reason.removeprefix(_OWNED).split()
    if not reason.startswith(_OWNED) or len(words) != 5 or not all(word.isdecimal() for word in words[:2]):
        return None
    pid, start, boot, namespace, host = words
    return Owner(
        pid=int(pid),
        start_ticks=int(start),
        boot_id=boot.removeprefix("-"),
        pid_namespace=namespace.removeprefix("-"),
        host=host,
    )


class Repository:
    """The git work tree around a folder."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self._environ = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
        self._environ |= {name: value for name, value in environ.items() if name.startswith("GIT_CONFIG_")}
        self._environ |= _without_programs(folder, environ)
        self._environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        self._objects: Path | None = None
        self._left_out: list[str] = []
        self._sparse: frozenset[bytes] | None = None
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
        if self._objects is not None:
            shutil.rmtree(self._objects, ignore_errors=True)
            self._objects = None

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> str:
        """Return the id of a git tree with the folder's current files, without ignored ones."""
        with self._one:
            env = self._apart()
            index = Path(env["GIT_INDEX_FILE"])
            real = Path(self._said("rev-parse", "--git-path", "index"))
            real = real if real.is_absolute() else self.folder / real
            if real.is_file():
                shutil.copyfile(real, index)
            else:
                index.unlink(missing_ok=True)
            self._watch_every_file(env)
            self._said("add", "-A", "--", ".", *self._left_out, env=env)
            return self._said("write-tree", env=env)

    def _watch_every_file(self, env: Mapping[str, str]) -> None:
        """Take the marks out of the copied index by which git would not look at a file.

        Files that a sparse checkout leaves out at the first snapshot keep theirs.
        """
        marks = passed_over(self._git("ls-files", "-v", "-z", env=env).stdout, self.folder)
        if self._sparse is None:
            self._sparse = marks.absent
        marks = structs.replace(marks, skipped=marks.skipped | (marks.absent - self._sparse))
        for words, paths in marks.unmark():
            self._git("update-index", *words, env=env, stdin=paths)

    def changes(self, before: str, after: str) -> Changes:
        """Return what is different between two snapshots. Paths are relative to the folder."""
        text = self._said("diff", "--numstat", "-z", "--no-renames", "--relative", before, after, env=self._apart())
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
        text = self._said("diff", "--no-ext-diff", "--no-textconv", "--no-color", before, after, env=self._apart())
        return redact(text[:MOST_DIFF])[0]

    def patch(self, before: str, after: str) -> bytes:
        """Return the differences as a patch for `apply`."""
        done = self._git("diff", "--binary", "--no-ext-diff", "--no-textconv", before, after, env=self._apart())
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
        self._said("worktree", "add", "-q", "-b", branch, str(path), start)
        self._said("worktree", "lock", "--reason", _owned(tree.this_process()), str(path))
        inside = self._said("rev-parse", "--show-prefix").rstrip("/")
        return Repository(path / inside if inside else path, self._environ)

    def end_worktree(self, made: Repository, path: Path, branch: str, wanted: Worktree, before: str) -> WorktreeResult:
        """Commit the changes to the branch and remove the work tree, unless it has to be kept.

        An unchanged branch is removed, too.
        """
        after = made.snapshot()
        found = made.changes(before, after)
        diff = made.diff(before, after) if found.paths else ""
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
        self._git("worktree", "unlock", str(path))
        self._git("worktree", "remove", "--force", str(path))

    def remove_leftovers(self, folder: Path) -> list[str]:
        """Remove the work trees below that folder whose runs were killed; return the branches that keep their changes.

        A work tree is a run's by the reason of git's own lock on it.
        """
        found = []
        for entry in self._git("worktree", "list", "--porcelain").stdout.decode("utf-8", "replace").split("\n\n"):
            given = dict(line.partition(" ")[::2] for line in entry.splitlines())
            path, owner = Path(given.get("worktree", "")), _owner_in(given.get("locked", ""))
            if owner is None or path.parent != folder or tree.is_alive(owner) is not False or path.is_symlink():
                continue
            with contextlib.suppress(UsageError):
                if path.is_dir():
                    Repository(path, self._environ)._commit()
                self.abandon_worktree(path)
                found.append(given.get("branch", "").removeprefix("refs/heads/"))
        return found

    def _commit(self) -> None:
        if self._said("status", "--porcelain"):
            self._said("add", "-A")
            self._said("commit", "-q", "--no-verify", "-m", "What the run changed")

    # -- git -----------------------------------------------------------------------------------------------------------

    def _apart(self) -> dict[str, str]:
        """Return an environment in which git writes objects and an index beside the repository."""
        if self._objects is None:
            self._objects = Path(tempfile.mkdtemp(prefix="beam-changes-"))
            self._repository_objects = self._said("rev-parse", "--git-path", "objects")
        there = Path(self._repository_objects)
        there = there if there.is_absolute() else self.folder / there
        return {
            "GIT_INDEX_FILE": str(self._objects / "index"),
            "GIT_OBJECT_DIRECTORY": str(self._objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{there}"',
        }

    def _said(self, *words: str, env: Mapping[str, str] = {}) -> str:
        done = self._git(*words, env=env)
        if done.returncode != 0:
            why = _last_line(done.stderr)
            raise UsageError(f"git {words[0]} failed: {why}", "look at it with git status", subject=str(self.folder))
        return done.stdout.decode("utf-8", "replace").rstrip("\n")

    def _git(
        self, *words: str, env: Mapping[str, str] = {}, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                ["git", *_SAFE, *words],
                cwd=self.folder,
                env={**self._environ, **env},
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


def _without_programs(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep git from programs of the repository's own configuration, unless it is trusted."""
    git = git_config.look(folder, folder, access="read", home=user_home(environ))
    if not git.found or ledger.stands(folder, git.found, environ).trusted:
        return {}
    return git_config.variables(git.off, environ)


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
