"""Snapshots of a git work tree in a git directory of beam's own, and how two of them differ.

A snapshot is a git tree. The folder's own git configuration, hooks and filters have no effect, and neither has the
person's. Objects that the folder's repository has are read from there, and not stored again. Files that git ignores
are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from beam.base import files
from beam.base.errors import BeamError
from beam.base.surrogates import escape_surrogates
from beam.root.git_place import GitPlace, git_directory
from beam.worktree import index as indexes
from beam.worktree.calls import Apart, Call, Calls, Git, GitError, apart

_LARGEST_INDEX = 64 << 20
_COMPARE_S = 60.0
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color")


class Bounds(Struct, frozen=True, kw_only=True):
    """How long one call of git may take, and how large each file that it writes may be (0: any size)."""

    within_s: float
    largest_kib: int = 0


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A file that differs: its path below the work tree, and how many lines were added and removed (null: it is not
    text)."""

    path: str
    added: int | None
    removed: int | None


class Snapshots:
    """Snapshots of a work tree, or of the `folder` in it. They are stored below `directory`, where no agent may write.

    `has_repositories`: it is a change, too, if a repository in the folder comes, goes or is at another commit.
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
        self._apart = Apart(
            directory=directory,
            work_tree=self.work_tree,
            objects=Path(place.repository) / "objects",
            environ=environ,
        )
        self._bounds = bounds
        self._diff = (*_DIFF, f"--ignore-submodules={'none' if has_repositories else 'all'}")

    def make(self, ignored: bytes | None = None) -> None:
        """Make the directory, unless it exists. git ignores what the lines in `ignored` say, and what each `.gitignore`
        says."""
        if (self.directory / "HEAD").exists():
            return
        for name in ("objects", "refs"):
            files.make_directory(self.directory / name)
        if ignored is not None:
            files.make_directory(self.directory / "info")
            files.replace(self.directory / "info/exclude", ignored)
        files.replace(self.directory / "config", b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        files.replace(self.directory / "HEAD", b"ref: refs/heads/none\n")

    def begin(self, index: Path) -> Calls[None]:
        """Make an index: a copy of the repository's own, which knows the files' times, so that not every file must be
        read.

        What happens to the repository's own index later hides no change.
        """
        directory = git_directory(self.work_tree)
        if directory is None:
            return
        try:
            files.replace(index, files.read(directory / "index", _LARGEST_INDEX))
        except (OSError, BeamError):
            return
        try:
            yield from indexes.watch_every_file(self._git(index), self._folder)
        except GitError:  # one of another kind
            index.unlink(missing_ok=True)

    def tree(self, index: Path, left_out: Sequence[str] = ()) -> Calls[str]:
        """Return the tree (an object id) of the folder's current content without these paths, made with this index."""
        git = self._git(index)
        index.with_name(f"{index.name}.lock").unlink(missing_ok=True)  # a killed git left it
        try:
            yield from indexes.add(git, left_out)
        except GitError:  # an index of another kind
            self.remove(index)
            yield from indexes.add(git, left_out)
        return (yield git("write-tree")).decode().strip()

    @staticmethod
    def remove(index: Path) -> None:
        """Remove an index, and its lock."""
        for left in (index, index.with_name(f"{index.name}.lock")):
            left.unlink(missing_ok=True)

    def changed(self, before: str, after: str, *how: str) -> Calls[tuple[ChangedFile, ...]]:
        """Return which files differ between two snapshots."""
        numbers = yield self._call(
            *self._diff, "--no-renames", "--numstat", "-z", *how, before, after, within_s=_COMPARE_S
        )
        return tuple(map(_changed, numbers.rstrip(b"\0").split(b"\0"))) if numbers else ()

    def patch(self, before: str, after: str, *how: str) -> Calls[bytes]:
        """Return the differences of two snapshots as a patch, in bytes: a file may have any encoding."""
        return (yield self._call(*self._diff, "--patch", *how, before, after, within_s=_COMPARE_S))

    def _git(self, index: Path) -> Git:
        def git(*words: str, stdin: bytes | None = None) -> Call:
            return self._call(*words, within_s=self._bounds.within_s, index=index, stdin=stdin)

        return git

    def _call(self, *words: str, within_s: float, index: Path | None = None, stdin: bytes | None = None) -> Call:
        return apart(
            self._apart,
            *words,
            cwd=self._folder,
            within_s=within_s,
            index=index,
            stdin=stdin,
            largest_kib=self._bounds.largest_kib,
        )


def _changed(line: bytes) -> ChangedFile:
    added, removed, path = line.decode("utf-8", "surrogateescape").split("\t", 2)
    return ChangedFile(path=escape_surrogates(path), added=_number(added), removed=_number(removed))


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
