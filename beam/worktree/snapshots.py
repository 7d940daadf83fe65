"""Makes snapshots of a git work tree in a git directory that belongs to beam, and compares two snapshots.

A snapshot is a git tree object. Git configuration, hooks and filters of the folder or of the person have no effect.
Objects that the folder's own repository has are read from that repository and not stored again. Files that git ignores
are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from beam.base import files
from beam.base.errors import BeamError
from beam.base.typed_values import escape_surrogates
from beam.root.git_place import GitPlace, git_directory
from beam.worktree import index as indexes
from beam.worktree.calls import (
    GitCall,
    GitCallBuilder,
    GitCalls,
    GitError,
    PrivateRepository,
    call_in_folder,
    call_in_private_repository,
)

_COMPARE_S = 60.0
_DIFF_ARGUMENTS = ("diff", "--no-ext-diff", "--no-textconv", "--no-color")


class Bounds(Struct, frozen=True, kw_only=True):
    """Limits for one call of git: `within_s` is its time limit in seconds, `largest_kib` the largest size in KiB of
    each file that git writes (0: any size)."""

    within_s: float
    largest_kib: int = 0


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A file that differs between two snapshots: its path in the work tree, and the numbers of lines added and removed
    (null: the file is binary)."""

    path: str
    added: int | None
    removed: int | None


class Snapshots:
    """Makes and compares snapshots of a work tree, or of the `folder` in it if one is given. They are stored in the git
    directory `directory`, where no agent may write.

    `has_repositories`: a nested repository that was added, removed or moved to another commit counts as a change.
    """

    def __init__(
        self,
        directory: Path,
        place: GitPlace,
        environ: Mapping[str, str],
        *,
        bounds: Bounds,
        folder: Path | None = None,
        has_repositories: bool = False,
    ) -> None:
        self.directory = directory
        self.work_tree = Path(place.work_tree)
        self._folder = folder or self.work_tree
        self._apart = PrivateRepository(
            directory=directory,
            work_tree=self.work_tree,
            objects=Path(place.repository) / "objects",
            environ=environ,
        )
        self._bounds = bounds
        self._diff = (*_DIFF_ARGUMENTS, f"--ignore-submodules={'none' if has_repositories else 'all'}")

    def make_directory(self, ignored: bytes | None = None) -> None:
        """Make the git directory, unless it exists. git ignores files that match the patterns in `ignored` (one a line)
        or in any `.gitignore`."""
        if (self.directory / "HEAD").exists():
            return
        for name in ("objects", "refs"):
            files.make_directory(self.directory / name)
        if ignored is not None:
            files.make_directory(self.directory / "info")
            files.replace(self.directory / "info/exclude", ignored)
        files.replace(self.directory / "config", b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        files.replace(self.directory / "HEAD", b"ref: refs/heads/none\n")

    def copy_index(self, index: Path) -> GitCalls[None]:
        """Make the index as a copy of the index of the work tree's own repository, if there is one. The copy has the
        files' times, so that git need not read every file again.

        The snapshots use the copy, so later changes of the repository's own index hide no change of a file.
        """
        directory = git_directory(self.work_tree)
        if directory is None:
            return
        try:
            indexes.copy_index(directory / "index", index)
        except (OSError, BeamError):
            return
        try:
            yield self._git(index)("ls-files", "--", ".git")  # it names nothing: can git use this index?
        except GitError:
            index.unlink(missing_ok=True)
            yield from self._list_index(index)

    def _list_index(self, index: Path) -> GitCalls[None]:
        """Make the index from what git says is in the repository's own, which may lie in two files. It has no times of
        files."""
        within_s = self._bounds.within_s
        try:
            listed = yield call_in_folder(
                self.work_tree, self._apart.environ, {}, "ls-files", "-s", "-z", within_s=within_s
            )
            yield self._call("update-index", "-z", "--index-info", within_s=within_s, index=index, stdin=listed)
        except GitError:
            index.unlink(missing_ok=True)

    def write_tree(self, index: Path, left_out: Sequence[str] = ()) -> GitCalls[str]:
        """Make a snapshot of the folder's current content by means of this index, and return the object id of its git
        tree. The pathspecs in `left_out` exclude files."""
        git = self._git(index)
        index.with_name(f"{index.name}.lock").unlink(missing_ok=True)  # a killed git left it
        try:
            yield from indexes.add_files(git, self._folder, indexes.written_s(index), left_out)
        except GitError:  # git can't use this index
            self.remove(index)
            yield from indexes.add_files(git, self._folder, 0, left_out)
        return (yield git("write-tree")).decode().strip()

    def known_files(self, index: Path) -> GitCalls[frozenset[str]]:
        """Return the files in this index, relative to the folder."""
        listed = yield self._git(index)("ls-files", "-z")
        return frozenset(map(_path, listed.split(b"\0")))

    @staticmethod
    def remove(index: Path) -> None:
        """Remove an index file and its lock file."""
        for left in (index, index.with_name(f"{index.name}.lock")):
            left.unlink(missing_ok=True)

    def changed_files(self, before: str, after: str, *how: str) -> GitCalls[tuple[ChangedFile, ...]]:
        """Return the files that differ between two snapshots. `how` has further arguments of `git diff`."""
        numbers = yield self._call(
            *self._diff, "--no-renames", "--numstat", "-z", *how, before, after, within_s=_COMPARE_S
        )
        return tuple(map(_changed_file, numbers.rstrip(b"\0").split(b"\0"))) if numbers else ()

    def patch(self, before: str, after: str, *how: str) -> GitCalls[bytes]:
        """Return the differences between two snapshots as a patch, in bytes, because a file may have any encoding.
        `how` has further arguments of `git diff`."""
        return (yield self._call(*self._diff, "--patch", *how, before, after, within_s=_COMPARE_S))

    def _git(self, index: Path) -> GitCallBuilder:
        def git(*words: str, stdin: bytes | None = None) -> GitCall:
            return self._call(*words, within_s=self._bounds.within_s, index=index, stdin=stdin)

        return git

    def _call(self, *words: str, within_s: float, index: Path | None = None, stdin: bytes | None = None) -> GitCall:
        return call_in_private_repository(
            self._apart,
            *words,
            cwd=self._folder,
            within_s=within_s,
            index=index,
            stdin=stdin,
            largest_kib=self._bounds.largest_kib,
        )


def _changed_file(line: bytes) -> ChangedFile:
    added, removed, path = line.split(b"\t", 2)
    return ChangedFile(path=_path(path), added=_number(added), removed=_number(removed))


def _path(name: bytes) -> str:
    path: str = escape_surrogates(name.decode("utf-8", "surrogateescape"))
    return path


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None
