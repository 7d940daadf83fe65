"""Snapshots of a work tree before and after turns, for `beam diff` and `beam undo`.

They share one git directory below the root. An agent's index stays there, so that its next snapshot reads only files
that changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from beam.base.errors import BeamError, UnsupportedError
from beam.base.typed_values import escape_surrogates
from beam.model.events import WorkTreeRecorded
from beam.root.git_place import GitPlace, git_directory, git_place
from beam.root.paths import user_home
from beam.worktree import git
from beam.worktree import index as indexes
from beam.worktree.snapshots import Bounds, ChangedFile, Difference, Snapshots

_BOUNDS = Bounds(within_s=5.0, largest_kib=64 << 10)  # nobody asked for the snapshot, so it must cost little
_MAX_FILES = 20_000  # of a folder outside of git, those that its .gitignore names included
_MAX_BYTES = 200 << 20


class SnapshotChanges(Struct, frozen=True, kw_only=True):
    """How two snapshots differ. `patch` is a unified diff, as bytes: a file may have any encoding."""

    files: tuple[ChangedFile, ...]
    patch: bytes


class WorkTree:
    """A git work tree, or a folder outside of git, and the store for its snapshots. git is looked for in the PATH of
    `environ`."""

    def __init__(self, store: Path, place: GitPlace | Path, environ: Mapping[str, str]) -> None:
        self._store = store
        self._home = user_home(environ)
        self._is_outside = isinstance(place, Path)
        self._snapshots = Snapshots(store, place, environ, bounds=_BOUNDS)

    @property
    def folder(self) -> str:
        """Return the work tree's path."""
        return str(self._snapshots.work_tree)

    @classmethod
    def of(cls, store: Path, folder: Path, environ: Mapping[str, str]) -> WorkTree:
        """Return the work tree that contains the folder; the folder itself if it is outside of git."""
        return cls(store, git_place(folder) or folder, environ)

    @classmethod
    def at(cls, store: Path, folder: Path, environ: Mapping[str, str]) -> WorkTree:
        """Return the work tree with this top folder, of which there are snapshots, whether it is a repository now or
        not."""
        return cls.of(store, folder, environ) if git_directory(folder) is not None else cls(store, folder, environ)

    async def take(self, agent: str) -> str:
        """Take a snapshot of the work tree, and return the id of its git tree. Raises GitError, DiskError,
        UnsupportedError for a folder outside of git that is too large."""
        return await git.run(self._snapshots.write_tree(await self._index(agent)))

    async def take_with_copied_index(self, agent: str) -> str:
        """Take a snapshot as `take` does, but with a copy of the agent's index, because a running turn may use the
        index.

        Raises GitError, DiskError, UnsupportedError.
        """
        own = await self._index(agent)
        beside = self._beside(agent)
        try:
            if own.exists():
                indexes.copy_index(own, beside)
            return await git.run(self._snapshots.write_tree(beside))
        finally:
            self._snapshots.remove(beside)

    async def compare(self, before: str, after: str) -> SnapshotChanges:
        """Return how two snapshots differ. Raises GitError, also if one of them is gone."""
        changed = await git.run(self._snapshots.changed_files(before, after))
        return SnapshotChanges(files=changed, patch=await git.run(self._snapshots.patch(before, after, "--no-renames")))

    async def differences(self, before: str, after: str) -> tuple[Difference, ...]:
        """Return how each path differs between two snapshots. Raises GitError, also if one of them is gone."""
        return await git.run(self._snapshots.differences(before, after))

    async def moves(self, before: str, after: str) -> tuple[tuple[bytes, bytes], ...]:
        """Return the old and the new path of each file that was moved between two snapshots. Raises GitError."""
        return await git.run(self._snapshots.moves(before, after))

    async def contents(self, objects: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the content of each object. Raises GitError if one is gone or was changed."""
        return await git.run(self._snapshots.contents(objects))

    async def ignored(self, tree: str | None, paths: Sequence[bytes], agent: str) -> set[bytes]:
        """Return those of the paths that git ignores now, or ignored as the snapshot `tree` says. Raises GitError."""
        found = await git.run(self._snapshots.ignored_now(paths))
        if tree is None:
            return found
        return found | await git.run(self._snapshots.ignored_then(tree, paths, self._beside(agent)))

    async def files_of_filters(self, paths: Sequence[bytes]) -> set[bytes]:
        """Return those of the paths whose content a filter of git converts. Raises GitError."""
        return await git.run(self._snapshots.files_of_filters(paths))

    def _beside(self, agent: str) -> Path:
        return self._store / f"index-{agent}.{os.getpid()}.tmp"

    async def _index(self, agent: str) -> Path:
        """Return the path of the agent's index. If there is none, make it from the repository's index. Raises
        UnsupportedError if no snapshot of the folder can be taken."""
        if self._is_outside:
            _check_outside(self._snapshots.work_tree, self._store, self._home)
        self._snapshots.make_directory()
        index = self._store / f"index-{agent}"
        if not index.exists():
            await git.run(self._snapshots.copy_index(index))
        return index


async def snapshot_event(
    store: Path,
    folder: Path,
    environ: Mapping[str, str],
    agent: str,
    *,
    beside: bool,
    at: Literal["start", "end"] = "start",
) -> WorkTreeRecorded:
    """Take a snapshot of the work tree that contains the folder, at the start or the end of a turn, and return the
    event that reports it.

    If that fails, the event has the `reason`. `beside`: another turn of the agent may run at the same time.
    """
    name = str(folder)
    try:
        tree = (WorkTree.of if at == "start" else WorkTree.at)(store, folder, environ)
        name = tree.folder
        taken = await (tree.take_with_copied_index if beside else tree.take)(agent)
        return WorkTreeRecorded(folder=name, tree=taken, at=at)
    except BeamError as error:
        return WorkTreeRecorded(folder=escape_surrogates(name), reason=str(error), at=at)


def _check_outside(folder: Path, store: Path, home: Path) -> None:
    """Raise UnsupportedError if no snapshot of this folder outside of git can be taken: where programs keep what is
    theirs, an undo would take back more than an agent's work, and a large folder would cost each turn too much."""
    name = escape_surrogates(str(folder))
    if home.is_relative_to(folder) or store.is_relative_to(folder):
        what = "is your home, or holds it" if home.is_relative_to(folder) else "holds beam's own state"
        raise UnsupportedError(f"{name} {what}", "work in a folder of the project's own")
    count = size = 0
    waiting = [str(folder)]
    while waiting:
        above = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(above) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not os.path.lexists(os.path.join(entry.path, ".git")):  # noqa: PTH118 - many files
                        waiting.append(entry.path)
                    continue
                count += 1
                size += entry.stat(follow_symlinks=False).st_size
                if count > _MAX_FILES or size > _MAX_BYTES:
                    what = (
                        f"more than {_MAX_FILES:,} files" if count > _MAX_FILES else f"more than {_MAX_BYTES >> 20} MiB"
                    )
                    raise UnsupportedError(f"{name} is in no git work tree, and holds {what}", "git init")
