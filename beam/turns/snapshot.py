"""Snapshots of a work tree before and after turns, for `beam diff` and `beam undo`.

They share one git directory below the root. An agent's index stays there, so that its next snapshot reads only files
that changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from beam.base.errors import BeamError, UnsupportedError
from beam.base.typed_values import escape_surrogates
from beam.model.events import WorkTreeRecorded
from beam.root.git_place import GitPlace, git_place
from beam.worktree import git
from beam.worktree import index as indexes
from beam.worktree.snapshots import Bounds, ChangedFile, Difference, Snapshots

_BOUNDS = Bounds(within_s=5.0, largest_kib=64 << 10)  # nobody asked for the snapshot, so it must cost little


class SnapshotChanges(Struct, frozen=True, kw_only=True):
    """How two snapshots differ. `patch` is a unified diff, as bytes: a file may have any encoding."""

    files: tuple[ChangedFile, ...]
    patch: bytes


class WorkTree:
    """A git work tree, and the store for its snapshots. git is looked for in the PATH of `environ`."""

    def __init__(self, store: Path, place: GitPlace, environ: Mapping[str, str]) -> None:
        self._store = store
        self._snapshots = Snapshots(store, place, environ, bounds=_BOUNDS)

    @property
    def folder(self) -> str:
        """Return the work tree's path."""
        return str(self._snapshots.work_tree)

    @classmethod
    def of(cls, store: Path, folder: Path, environ: Mapping[str, str]) -> WorkTree:
        """Return the work tree that contains the folder. Raises UnsupportedError if there is none."""
        place = git_place(folder)
        if place is None:
            raise UnsupportedError(f"{escape_surrogates(str(folder))} is in no git work tree", "git init")
        return cls(store, place, environ)

    async def take(self, agent: str) -> str:
        """Take a snapshot of the work tree, and return the id of its git tree. Raises GitError, DiskError."""
        return await git.run(self._snapshots.write_tree(await self._index(agent)))

    async def take_with_copied_index(self, agent: str) -> str:
        """Take a snapshot as `take` does, but with a copy of the agent's index, because a running turn may use the
        index.

        Raises GitError, DiskError.
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
        """Return the path of the agent's index. If there is none, make it from the repository's index."""
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
        tree = WorkTree.of(store, folder, environ)
        name = tree.folder
        taken = await (tree.take_with_copied_index if beside else tree.take)(agent)
        return WorkTreeRecorded(folder=name, tree=taken, at=at)
    except BeamError as error:
        return WorkTreeRecorded(folder=escape_surrogates(name), reason=str(error), at=at)
