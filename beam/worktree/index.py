"""Prepares a git index and adds files to it, so that the index hides no changed file and git does not run in nested
repositories."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from beam.base import files
from beam.worktree.calls import GitCallBuilder, GitCalls, GitError

LISTED = ("-v", "-s", "--debug", "-z")
_GITLINK = b"160000"  # the mode of a repository in the work tree
_MAX_INDEX_BYTES = 64 << 20
_ENTRY = re.compile(
    rb"(.) (\d{6}) ([0-9a-f]+) (\d)\t([^\0]*)\0"
    rb"  ctime: (\d+):\d+\n  mtime: (\d+):\d+\n  dev: .*\n  uid: .*\n  size: (\d+)\t.*\n"
)
_FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")


class IndexEntry(Struct, frozen=True, kw_only=True):
    """An entry of git's index. `changed_s` is the later of the file's two times, in whole seconds, and `size` the
    file's size (modulo 2**32), as git saw them. `marked`: git does not check the file for changes (`assume-unchanged`,
    `skip-worktree`); `left_out`: because of the second mark."""

    path: bytes
    mode: bytes
    object: bytes
    stage: bytes
    changed_s: int
    size: int
    marked: bool
    left_out: bool


def index_entries(listing: bytes) -> list[IndexEntry]:
    """Return the entries of an index, from the output of `git ls-files` with `LISTED`. Raises GitError if it is of a
    form that beam does not know, because no entry may be passed over."""
    found, at = [], 0
    for match in _ENTRY.finditer(listing):
        if match.start() != at:
            break
        at = match.end()
        tag, mode, name, stage, path, changed, modified, size = match.groups()
        found.append(
            IndexEntry(
                path=path,
                mode=mode,
                object=name,
                stage=stage,
                changed_s=max(int(changed), int(modified)),
                size=int(size),
                marked=tag.islower() or tag == b"S",
                left_out=tag in b"Ss",
            )
        )
    if at != len(listing):
        raise GitError("git ls-files told of its index in a form that beam does not know")
    return found


def copy_index(source: Path, target: Path) -> None:
    """Copy an index, and the time at which git wrote it, by which `prepare_index` knows its doubtful entries. Raises
    OSError, BeamError."""
    written_ns = source.lstat().st_mtime_ns  # read first: an older time leaves more in doubt
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    files.write_new(temporary, files.read(source, _MAX_INDEX_BYTES))
    os.utime(temporary, ns=(written_ns, written_ns))
    files.move(temporary, target)


def written_s(index: Path) -> int:
    """Return the time at which git wrote the index, in whole seconds; 0 if there is none. It is the earlier of the
    file's two times: an older time leaves more in doubt."""
    try:
        found = index.lstat()
    except OSError:
        return 0
    return int(min(found.st_mtime, found.st_ctime))


def forget_converted_files(git: GitCallBuilder) -> GitCalls[None]:
    """Forget what the index knows of the times of each file whose content is not that of its object, because git
    converted it when it was added (line ends, encodings, `$Id$`): snapshots have files as they are. Such a file is
    known by its size. A file of a filter keeps its object: the filter has the content, and it may be large."""
    entries = [each for each in index_entries((yield git("ls-files", *LISTED))) if each.mode != _GITLINK and each.size]
    if not entries:
        return
    names = b"".join(each.object + b"\n" for each in entries)
    sizes = (yield git("cat-file", "--batch-check=%(objectsize)", stdin=names)).split(b"\n")
    converted = [
        each for each, size in zip(entries, sizes, strict=False) if not size.isdigit() or int(size) % 2**32 != each.size
    ]
    filtered = yield from files_of_filters(git, [each.path for each in converted])
    yield from _write_entries(git, [_line(each) for each in converted if each.path not in filtered])


def files_of_filters(git: GitCallBuilder, paths: Sequence[bytes]) -> GitCalls[set[bytes]]:
    """Return those of the paths whose content a filter converts, as `.gitattributes` says."""
    if not paths:
        return set()
    told = (yield git("check-attr", "-z", "--stdin", "filter", stdin=b"\0".join(paths))).split(b"\0")
    without = (b"unspecified", b"unset")
    return {path for path, value in zip(told[0::3], told[2::3], strict=False) if value not in without}


def _line(entry: IndexEntry) -> bytes:
    return b"%s %s %s\t" % (entry.mode, entry.object, entry.stage) + entry.path


def prepare_index(
    git: GitCallBuilder, folder: Path, since_s: int, *, keep_absent: bool
) -> GitCalls[dict[bytes, bytes]]:
    """Make git look at all files of the folder. Return the commit of each nested repository, by its path.

    git compares a file's times by the second, so it can't see that a file was changed in the second `since_s`, in which
    the index was written, or later: what the index knows of such a file's times is forgotten, and git reads the file.
    (git does this itself, but not if the file's time was set back.) Marks that keep git from checking a file are
    removed; with `keep_absent` not from files that do not exist, as in a sparse checkout. Nested repositories leave the
    index, because git would run `git status` there, with their own configuration.
    """
    entries = index_entries((yield git("ls-files", *LISTED)))
    repositories = {each.path: each.object for each in entries if each.mode == _GITLINK}

    def is_doubtful(entry: IndexEntry) -> bool:
        if entry.marked or entry.changed_s >= since_s:
            return not (keep_absent and entry.left_out and not os.path.lexists(folder / os.fsdecode(entry.path)))
        return False

    lines = [b"0 %s\t" % each.object + each.path for each in entries if each.mode == _GITLINK]
    lines += [_line(each) for each in entries if each.mode != _GITLINK and is_doubtful(each)]
    yield from _write_entries(git, lines)
    return repositories


def put_repositories_back(git: GitCallBuilder, folder: Path, repositories: Mapping[bytes, bytes]) -> GitCalls[None]:
    """Add the nested repositories whose folder exists to the index again, unless they are in it."""
    empty = [path for path in repositories if os.path.isdir(folder / os.fsdecode(path))]  # noqa: PTH112
    there = {each.path for each in index_entries((yield git("ls-files", *LISTED)))} if empty else set()
    yield from _write_entries(git, [b"160000 %s\t" % repositories[path] + path for path in empty if path not in there])


def _write_entries(git: GitCallBuilder, lines: Sequence[bytes]) -> GitCalls[None]:
    """Write entries, whose paths are relative to the current folder, into the index: without the files' times."""
    if lines:
        inside = (yield git("rev-parse", "--show-prefix")).rstrip(b"\n")
        stdin = b"\0".join(line.replace(b"\t", b"\t" + inside, 1) for line in lines)
        yield git("update-index", "-z", "--index-info", stdin=stdin)


def add_files(
    git: GitCallBuilder, folder: Path, since_s: int, left_out: Sequence[str] = (), *, keep_absent: bool = False
) -> GitCalls[dict[bytes, bytes]]:
    """Add the files of the current folder to the index, except those that the pathspecs in `left_out` exclude. Return
    the commit of each nested repository that was in the index before, by its path. `folder`, `since_s` and
    `keep_absent` are those of `prepare_index`."""
    before = yield from prepare_index(git, folder, since_s, keep_absent=keep_absent)
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
    git did not run to its end, or refuses the repository."""
    try:
        yield structs.replace(git(*words), asks=True)
    except GitError as error:
        if error.code is None:
            raise
        return False
    return True
