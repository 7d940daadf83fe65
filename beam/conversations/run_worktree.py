"""The git work tree that a run has for itself. It is made with a new branch. At the end of the run, its changes are
committed and the work tree is removed. If the run was killed, a later run does that."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from beam.base import files
from beam.base.errors import BeamError, DiskError, UsageError
from beam.conversations.changes import FolderChanges
from beam.conversations.result import WorktreeResult
from beam.conversations.scenario import Worktree
from beam.model.events import Owner
from beam.process import owned, tree
from beam.worktree import calls, index
from beam.worktree.repository import Repository

_LARGEST_LINK = 4096


class RunWorktrees:
    """The work trees of runs in the repository around a project folder."""

    def __init__(self, project: Path, environ: Mapping[str, str], *, store: Path) -> None:
        self._repository = Repository(project, environ)
        self._environ = environ
        self._store = store
        self._starts: dict[Path, str] = {}  # the commit with which each work tree began

    def has_commit(self, commit: str) -> bool:
        """Return whether there is a commit with this name."""
        if commit.startswith("-"):
            return False
        return self._repository.succeeds("rev-parse", "--verify", "-q", f"{commit}^{{commit}}")

    def add(self, path: Path, branch: str, start: str) -> FolderChanges:
        """Make a work tree with a new branch that begins at the commit `start`, and return its `FolderChanges`. Raises
        UsageError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if start.startswith("-"):
            raise UsageError(f"`from: {start}` names no commit", "write a branch, a tag or a commit")
        self._repository.run(self._add_calls(path, branch, start))
        inside = self._repository.output("rev-parse", "--show-prefix").rstrip("/")
        folder = path / inside if inside else path
        own = Repository(folder, self._environ, project=self._repository.project)
        self._starts[path] = self._commit_of(branch)
        return FolderChanges(folder, self._environ, store=self._store, repository=own)

    def _commit_of(self, branch: str) -> str:
        return self._repository.output("rev-parse", "--verify", f"refs/heads/{branch}")

    def _add_calls(self, path: Path, branch: str, start: str) -> calls.GitCalls[None]:
        call = self._repository.call
        reason, what = f"{owned.owner_text(tree.this_process())} {branch}", ("-b", branch, str(path), start)
        try:
            # Locked from the start: if this process is killed, git goes on, and the next run removes what it made.
            yield call("worktree", "add", "-q", "--lock", "--reason", reason, *what)
        except calls.GitError as error:
            if error.code != calls.USAGE_EXIT_CODE:  # git before 2.34
                raise
            yield call("worktree", "add", "-q", *what)
            yield call("worktree", "lock", "--reason", reason, str(path))

    def end(self, made: FolderChanges, path: Path, branch: str, wanted: Worktree, before: str) -> WorktreeResult:
        """Commit the changes to the branch, and remove the work tree unless it has to be kept.

        If nothing was changed, the branch is removed together with the work tree.
        """
        after = made.snapshot()
        found = made.changes(before, after)
        diff = made.diff(before, after) if found.paths else ""
        self._check_link(path)
        commit_all(made.repository, branch)
        own = self._repository
        is_same = not found.paths and self._commit_of(branch) == self._starts[path]
        made.close()
        self.unlock(path)
        if wanted.keep:
            return WorktreeResult(branch=branch, path=str(path), diff=diff, files=found.paths)
        own.output("worktree", "remove", "--force", str(path))
        if is_same:
            own.output("branch", "-q", "-D", branch)
        return WorktreeResult(branch="" if is_same else branch, diff=diff, files=found.paths)

    def abandon(self, path: Path) -> None:
        """Remove the work tree of a failed run; its branch stays."""
        self.unlock(path)
        self._repository.succeeds("worktree", "remove", "--force", str(path))

    def unlock(self, path: Path) -> None:
        """Release the lock of the work tree, so that no later run removes it."""
        self._repository.succeeds("worktree", "unlock", str(path))

    def remove_leftovers(self, folder: Path) -> list[str]:
        """Remove the work trees below that folder whose runs were killed; return the branches that keep their changes.

        The reason that git stores for the lock of a work tree names the process of its run, and its branch.
        """
        try:
            listed = self._repository.output("worktree", "list", "--porcelain")
        except UsageError:
            return []
        found = []
        for entry in listed.split("\n\n"):
            given = dict(line.partition(" ")[::2] for line in entry.splitlines())
            path, (owner, branch) = Path(given.get("worktree", "")), _owner_and_branch(given.get("locked", ""))
            branch = branch or given.get("branch", "").removeprefix("refs/heads/")
            if owner is None or path.parent != folder or tree.is_alive(owner) is not False or path.is_symlink():
                continue
            with contextlib.suppress(UsageError, DiskError):
                if path.is_dir():
                    self._check_link(path)
                    commit_all(Repository(path, self._environ, project=self._repository.project), branch)
                self.abandon(path)
                found.append(branch)
        return found

    def _check_link(self, path: Path) -> None:
        """Raise UsageError unless the work tree's `.git` leads to this repository: an agent could have changed it."""
        own = self._repository
        common = Path(os.path.realpath(own.folder / own.output("rev-parse", "--git-common-dir")))
        place = Path(_read_git_file(path / ".git").removeprefix("gitdir: "))
        if place.parent != common / "worktrees" or _read_git_file(place / "gitdir") != str(path / ".git"):
            raise UsageError(
                f"{path}/.git was changed: it does not lead to {common} any more, and nothing is committed",
                f"look at what is in {path}, then remove it",
                subject=str(path),
            )


def commit_all(repository: Repository, branch: str) -> None:
    """Commit all changes in a work tree to its branch, even if something in the run has left the branch.

    Raises UsageError, also if the commit does not contain what is in the branch.
    """
    repository.run(_commit_calls(repository))
    name = f"refs/heads/{branch}"
    head = repository.output("rev-parse", "--verify", "HEAD")
    has_branch = repository.succeeds("rev-parse", "-q", "--verify", name)
    before = repository.output("rev-parse", "--verify", name) if has_branch else ""
    if head == before:
        return
    if not has_branch or not repository.succeeds("merge-base", "--is-ancestor", before, head):
        why = f"and the commit {head[:12]} there does not contain it" if has_branch else "which is gone"
        raise UsageError(
            f"the work tree has left its branch {branch}, {why}",
            f"look at {repository.folder} with git log",
            subject=str(repository.folder),
        )
    repository.output("update-ref", "--no-deref", name, head, before)


def _commit_calls(repository: Repository) -> calls.GitCalls[None]:
    call, folder = repository.call, repository.folder
    # The agents could write this index, so git reads every file, whatever the index says of its times.
    before = yield from index.add_files(call, folder, 0, keep_absent=True)
    yield from index.put_repositories_back(call, folder, before)
    if not (yield from index.succeeds(call, "diff", "--cached", "--quiet", "HEAD")):
        yield call("commit", "-q", "--no-verify", "-m", "What the run changed")


def _owner_and_branch(reason: str) -> tuple[Owner | None, str]:
    """Return the process and the branch that the reason of a lock names; "" for the branch in a lock of an earlier
    beam."""
    if owner := owned.owner_in(reason):
        return owner, ""
    text, _, branch = reason.rpartition(" ")
    return owned.owner_in(text), branch


def _read_git_file(path: Path) -> str:
    """Return the text of one of git's short files; "" if the file can't be read."""
    try:
        return files.read(path, _LARGEST_LINK).decode(errors="surrogateescape").strip()
    except (OSError, BeamError):
        return ""
