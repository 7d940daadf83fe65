"""The branch, the repository and the work tree of a folder, read from git's own files. git itself is not run.

The files are untrusted, because the folder's author may have written them. So each is read as a plain file with a size
limit.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from beam.base import files
from beam.base.errors import BeamError
from beam.base.typed_values import escape_surrogates

_MAX_BYTES = 4096
_BRANCHES = "ref: refs/heads/"
_REF = "ref: "
_COMMIT_CHARS = 12  # characters of a commit


class GitPlace(Struct, frozen=True, kw_only=True):
    """Where a folder lies in git.

    `branch` is null if no branch is checked out (detached HEAD). Only in that case `commit` is set: to the beginning of
    the commit's id. `work_tree` is the folder with the checked-out files; `repository` is git's own directory, which
    several work trees may share.
    """

    branch: str | None
    commit: str | None
    work_tree: str
    repository: str


def git_place(folder: Path) -> GitPlace | None:
    """Return where the folder lies in git; None if it is outside of any repository, or if git's files can't be read."""
    for level in (folder, *folder.parents):
        directory = git_directory(level)
        if directory is not None:
            return _describe(level, directory)
    return None


def git_directory(level: Path) -> Path | None:
    """Return git's own directory for the work tree with this top folder; None if the folder is not the top of a work
    tree."""
    dot_git = level / ".git"
    if os.path.isfile(dot_git / "HEAD"):  # noqa: PTH113 - it never raises
        return dot_git
    named = _first_line(dot_git)  # a linked work tree or a submodule names it
    return (level / named.removeprefix("gitdir: ")) if named.startswith("gitdir: ") else None


def _describe(level: Path, directory: Path) -> GitPlace | None:
    head = _first_line(directory / "HEAD")
    if not head:
        return None
    branch = head.removeprefix(_BRANCHES) if head.startswith(_BRANCHES) else None
    other = head.removeprefix(_REF) if head.startswith(_REF) else None
    common = _first_line(directory / "commondir")
    repository = directory / common if common else directory
    return GitPlace(
        branch=escape_surrogates(branch or other) if branch or other else None,
        commit=None if branch or other else escape_surrogates(head[:_COMMIT_CHARS]),
        work_tree=escape_surrogates(str(level)),
        repository=escape_surrogates(os.path.realpath(repository)),
    )


def _first_line(path: Path) -> str:
    try:
        data = files.read(path, _MAX_BYTES)
    except (BeamError, OSError):
        return ""
    return data.decode("utf-8", "surrogateescape").partition("\n")[0].strip()
