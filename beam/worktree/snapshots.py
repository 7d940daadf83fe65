"""Makes snapshots of a git work tree in a git directory that belongs to beam, and compares two snapshots.

A snapshot is a git tree object. Git configuration, hooks and filters of the folder or of the person have no effect.
Objects that the folder's own repository has are read from that repository and not stored again. Files are stored as
they are: `.gitattributes` converts nothing. Files that git ignores are left out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

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
_NO_CONVERSIONS = b"* !text !eol !crlf !ident !working-tree-encoding\n"  # it counts before each .gitattributes
_SHA1_CHARS = 40  # of an object's id; one of SHA-256 has 64
_IGNORE_FILE = b".gitignore"


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


class TreeFile(Struct, frozen=True):
    """A file, a symbolic link or a nested repository in a snapshot: its mode for git (100644, 100755, 120000, 160000)
    and the id of its object."""

    mode: bytes
    object: bytes


class Difference(Struct, frozen=True, kw_only=True):
    """How one path differs between two snapshots; None: it is not in that snapshot."""

    path: bytes
    before: TreeFile | None
    after: TreeFile | None


class Snapshots:
    """Makes and compares snapshots of a work tree, or of the `folder` in it if one is given. They are stored in the git
    directory `directory`, where no agent may write. A `place` that is a path is a folder outside of git.

    `has_repositories`: a nested repository that was added, removed or moved to another commit counts as a change.
    """

    def __init__(
        self,
        directory: Path,
        place: GitPlace | Path,
        environ: Mapping[str, str],
        *,
        bounds: Bounds,
        folder: Path | None = None,
        has_repositories: bool = False,
    ) -> None:
        self.directory = directory
        self.work_tree = place if isinstance(place, Path) else Path(place.work_tree)
        self._folder = folder or self.work_tree
        self._apart = PrivateRepository(
            directory=directory,
            work_tree=self.work_tree,
            objects=None if isinstance(place, Path) else Path(place.repository) / "objects",
            environ=environ,
        )
        self._bounds = bounds
        self._diff = (*_DIFF_ARGUMENTS, f"--ignore-submodules={'none' if has_repositories else 'all'}")

    def make_directory(self, ignored: bytes | None = None) -> None:
        """Make the git directory, unless it exists. git ignores files that match the patterns in `ignored` (one a line)
        or in any `.gitignore`."""
        if (self.directory / "HEAD").exists():
            return
        for name in ("objects", "refs", "info"):
            files.make_directory(self.directory / name)
        files.replace(self.directory / "info/attributes", _NO_CONVERSIONS)
        if ignored is not None:
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
        written_ns = index.lstat().st_mtime_ns
        try:
            yield from indexes.forget_converted_files(self._git(index))
            os.utime(index, ns=(written_ns, written_ns))  # git may have written it anew
        except GitError:  # git can't use this index
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

    def differences(self, before: str, after: str) -> GitCalls[tuple[Difference, ...]]:
        """Return how each path differs between two snapshots, nested repositories included."""
        words = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
        told = (yield self._call(*words, before, after, within_s=_COMPARE_S)).split(b"\0")
        return tuple(_difference(line, path) for line, path in zip(told[0::2], told[1::2], strict=False))

    def moves(self, before: str, after: str) -> GitCalls[tuple[tuple[bytes, bytes], ...]]:
        """Return the old and the new path of each file that was moved between two snapshots, as git sees it: a file
        that is gone, and a new one with much of its content."""
        words = ("diff-tree", "-r", "-z", "--raw", "-M", "--diff-filter=R")
        told = (yield self._call(*words, before, after, within_s=_COMPARE_S)).split(b"\0")
        return tuple(zip(told[1::3], told[2::3], strict=False))

    def contents(self, objects: Sequence[bytes]) -> GitCalls[dict[bytes, bytes]]:
        """Return the content of each object. Raises GitError if one is gone, or is not what its id says: an agent may
        have written into the objects of the folder's repository."""
        lines = b"".join(name + b"\n" for name in objects)
        told = (yield self._call("cat-file", "--batch", within_s=_COMPARE_S, stdin=lines)) if objects else b""
        found, at = {}, 0
        for name in objects:
            head = told[at : told.index(b"\n", at)]
            size = head.rpartition(b" ")[2]
            begin = at + len(head) + 1
            data = told[begin : begin + int(size)] if size.isdigit() else b""
            if object_id(data, name) != name:
                raise GitError(f"the object {name.decode()} of a snapshot is gone, or was changed")
            found[name] = data
            at = begin + len(data) + 1
        return found

    def files_of_filters(self, paths: Sequence[bytes]) -> GitCalls[set[bytes]]:
        """Return those of the paths whose content a filter of git converts."""
        return (yield from indexes.files_of_filters(self._git(None), paths))

    def ignored_now(self, paths: Sequence[bytes]) -> GitCalls[set[bytes]]:
        """Return those of the paths that git ignores in the folder, by the person's and the repository's settings. A
        path that leads through a symbolic link is left out: git names no such path."""
        top = os.fsencode(self.work_tree)
        paths = [path for path in paths if not _leads_through_link(top, path)]

        def git(*words: str, stdin: bytes | None = None) -> GitCall:
            return call_in_folder(
                self.work_tree, self._apart.environ, {}, *words, within_s=self._bounds.within_s, stdin=stdin
            )

        return (yield from _ignored(git, paths)) if self._apart.objects is not None else set()

    def ignored_then(self, tree: str, paths: Sequence[bytes], index: Path) -> GitCalls[set[bytes]]:
        """Return those of the paths that the `.gitignore` files of a snapshot ignore. `index` is a file that is made
        for it, and removed: git takes the rules from there, as none of these files is in an empty folder."""
        git = self._git(index, work_tree=self.directory / "refs")
        try:
            listed = (yield git("ls-tree", "-r", "-z", "--full-tree", tree)).split(b"\0")
            rules = [line for line in listed if line.rpartition(b"\t")[2].rpartition(b"/")[2] == _IGNORE_FILE]
            yield git("update-index", "-z", "--index-info", stdin=b"\0".join(rules))
            names = b"\0".join(line.partition(b"\t")[2] for line in rules)
            yield git("update-index", "-z", "--skip-worktree", "--stdin", stdin=names)
            return (yield from _ignored(git, paths))
        finally:
            self.remove(index)

    def _git(self, index: Path | None, *, work_tree: Path | None = None) -> GitCallBuilder:
        def git(*words: str, stdin: bytes | None = None) -> GitCall:
            return self._call(*words, within_s=self._bounds.within_s, index=index, stdin=stdin, work_tree=work_tree)

        return git

    def _call(
        self,
        *words: str,
        within_s: float,
        index: Path | None = None,
        stdin: bytes | None = None,
        work_tree: Path | None = None,
    ) -> GitCall:
        apart = self._apart if work_tree is None else structs.replace(self._apart, work_tree=work_tree)
        return call_in_private_repository(
            apart,
            *words,
            cwd=work_tree or self._folder,
            within_s=within_s,
            index=index,
            stdin=stdin,
            largest_kib=self._bounds.largest_kib,
        )


def object_id(data: bytes, like: bytes) -> bytes:
    """Return the id that git gives a file with this content, by the hash function of the id `like`."""
    made = begin_object(len(data), like)
    made.update(data)
    return made.hexdigest().encode()


def begin_object(size: int, like: bytes) -> hashlib._Hash:
    """Return the hash to feed with a content of this size; it becomes the content's id for git, of the same kind as
    the id `like`."""
    made = hashlib.sha256() if len(like) > _SHA1_CHARS else hashlib.sha1(usedforsecurity=False)
    made.update(b"blob %d\0" % size)
    return made


def _difference(line: bytes, path: bytes) -> Difference:
    modes = line.removeprefix(b":").split(b" ")
    before, after = (
        None if mode == b"000000" else TreeFile(mode, name) for mode, name in zip(modes[0:2], modes[2:4], strict=True)
    )
    return Difference(path=path, before=before, after=after)


def _leads_through_link(top: bytes, path: bytes) -> bool:
    parts = path.split(b"/")[:-1]
    return any(os.path.islink(b"/".join((top, *parts[: count + 1]))) for count in range(len(parts)))  # noqa: PTH114


def _ignored(git: GitCallBuilder, paths: Sequence[bytes]) -> GitCalls[set[bytes]]:
    """Return those of the paths that git ignores: those in its index never are."""
    if not paths:
        return set()
    try:
        told = yield structs.replace(git("check-ignore", "-z", "--stdin", stdin=b"\0".join(paths)), asks=True)
    except GitError as error:
        if error.code != 1:  # it ignores none of them
            raise
        return set()
    return set(told.split(b"\0")) - {b""}


def _changed_file(line: bytes) -> ChangedFile:
    added, removed, path = line.split(b"\t", 2)
    return ChangedFile(path=_path(path), added=_number(added), removed=_number(removed))


def _path(name: bytes) -> str:
    path: str = escape_surrogates(name.decode("utf-8", "surrogateescape"))
    return path


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None
