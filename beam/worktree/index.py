"""Prepares a git index and adds files to it, so that the index hides no changed file and git does not run in nested
repositories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from beam.worktree.calls import GitCallBuilder, GitCalls, GitError

_GITLINK = b"160000 "  # how `ls-files -s` begins the entry of a repository in the work tree
_FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")


class UncheckedFiles(Struct, frozen=True, kw_only=True):
    """The paths of files that git does not check for changes. `assumed` are the files marked `assume-unchanged`. Files
    marked `skip-worktree` are in `skipped` if they exist, and in `absent` if they do not exist, as in a sparse
    checkout."""

    assumed: frozenset[bytes]
    skipped: frozenset[bytes]
    absent: frozenset[bytes]

    def unmark_arguments(self) -> list[tuple[tuple[str, ...], bytes]]:
        """Return the arguments and the standard input of each `git update-index` call that removes the marks from the
        files in `assumed` and `skipped`."""
        marks = (("--no-assume-unchanged", self.assumed), ("--no-skip-worktree", self.skipped))
        return [((mark, "-z", "--stdin"), b"\0".join(sorted(paths))) for mark, paths in marks if paths]


def unchecked_files(listing: bytes, folder: Path) -> UncheckedFiles:
    """Return the marked files, from the output of `git ls-files -v -z` in that folder.

    Anybody who can write the index can mark a file. No diff shows a change of a marked file.
    """
    entries = [(entry[:1], entry[2:]) for entry in listing.split(b"\0") if entry[:1].islower() or entry[:1] == b"S"]
    skipped = frozenset(path for tag, path in entries if tag in b"Ss")
    absent = frozenset(path for path in skipped if not os.path.lexists(folder / os.fsdecode(path)))
    assumed = frozenset(path for tag, path in entries if tag.islower())
    return UncheckedFiles(assumed=assumed, skipped=skipped - absent, absent=absent)


def repositories_in(listing: bytes) -> dict[bytes, bytes]:
    """Return the commit of each nested repository, by its path, from the output of `git ls-files -s -z`.

    In each nested repository that is in the index, `git add` runs `git status` with the configuration of that
    repository. A nested repository that is not in the index is added without running `git status` there.
    """
    entries = (entry.partition(b"\t") for entry in listing.split(b"\0") if entry.startswith(_GITLINK))
    return {path: head.split(b" ")[1] for head, _, path in entries}


def unmark_files(git: GitCallBuilder, folder: Path) -> GitCalls[None]:
    """Remove the marks in the index that keep git from checking existing files for changes."""
    marks = unchecked_files((yield git("ls-files", "-v", "-z")), folder)
    for words, paths in marks.unmark_arguments():
        yield git("update-index", *words, stdin=paths)


def forget_repositories(git: GitCallBuilder) -> GitCalls[dict[bytes, bytes]]:
    """Remove nested repositories from the index, so that git does not run in them. Return the commit of each, by its
    path."""
    found = repositories_in((yield git("ls-files", "-s", "-z")))
    if found:
        yield git("update-index", "-z", "--force-remove", "--stdin", stdin=b"\0".join(found))
    return found


def add_files(git: GitCallBuilder, left_out: Sequence[str] = ()) -> GitCalls[dict[bytes, bytes]]:
    """Add the files of the current folder to the index, except those that the pathspecs in `left_out` exclude. Return
    the commit of each nested repository that was in the index before, by its path."""
    before = yield from forget_repositories(git)
    try:
        yield git("add", "--all", "--", ".", *left_out)
    except GitError:  # for example, because a repository without a commit is in the folder
        found = (yield git("ls-files", "--others", "-z")).split(b"\0")
        inside = [b":(exclude,literal)" + path for path in found if path.endswith(b"/")]
        paths = [b".", *map(os.fsencode, left_out), *inside]
        yield git("add", "--all", *_FROM_STDIN, stdin=b"\0".join(paths))
    return before


def succeeds(git: GitCallBuilder, *words: str) -> GitCalls[bool]:
    """Return whether git ends with exit code 0. Exit code 1 means "no", even if the disk is full. Raises GitError if
    git did not run to its end."""
    try:
        yield structs.replace(git(*words), asks=True)
    except GitError as error:
        if error.code is None:
            raise
        return False
    return True
