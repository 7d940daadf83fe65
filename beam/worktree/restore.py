"""Writes files of a folder as a snapshot has them, whatever an agent did to the folder meanwhile.

Each path is walked from the folder's own descriptor, and no symbolic link is followed, so nothing outside of the folder
is written. A file is replaced by a rename: no reader sees half of it, and a hard link to it elsewhere keeps its
content. Git is not run, so no hook and no filter is. Does not depend on how snapshots are made.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from beam.base import files
from beam.base.errors import DiskError, RefusedFileError, UnfinishedError
from beam.worktree.snapshots import TreeFile, begin_object, object_id

TEMPORARY = b".beam-undo.tmp"  # beside each file that is being written; the next undo there removes what a kill left
EXECUTABLE, LINK = b"100755", b"120000"
_OTHERS = 0o7777 & ~0o111
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class Folder:
    """A folder that is held open and locked against others that restore files in it. Paths are relative to it, in
    bytes."""

    def __init__(self, path: Path) -> None:
        """Open and lock the folder. Raises DiskError, RefusedFileError if a symbolic link is in the path,
        UnfinishedError if somebody else restores files there."""
        with files.disk_action("open", path):
            self._top = os.open(path, _DIRECTORY)
        try:
            _check_direct(path)
            fcntl.flock(self._top, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._top)
            raise UnfinishedError(f"another undo is at work in {path}", "wait for it", subject=str(path)) from None
        except BaseException:
            os.close(self._top)
            raise

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._top)

    def has(self, path: bytes, file: TreeFile | None) -> bool:
        """Return whether the path is now what the snapshot's file is (None: nothing). Raises OSError."""
        try:
            with self._parent(path) as (parent, name):
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if file is None:
                    return False
                if stat.S_ISLNK(found.st_mode):
                    target = os.readlink(name, dir_fd=parent)
                    return file.mode == LINK and object_id(target, file.object) == file.object
                if not stat.S_ISREG(found.st_mode) or file.mode == LINK:
                    return False
                is_executable = bool(found.st_mode & stat.S_IXUSR)
                return is_executable == (file.mode == EXECUTABLE) and _has_content(parent, name, file)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            return file is None

    def write(self, path: bytes, file: TreeFile, data: bytes) -> None:
        """Make the path what the snapshot's file is, whose content is `data`. Missing folders are made. Raises OSError,
        RefusedFileError."""
        with self._parent(path, makes=True) as (parent, name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(TEMPORARY, dir_fd=parent)
            try:
                if file.mode == LINK and b"\0" in data:
                    raise RefusedFileError(f"{os.fsdecode(path)!r} would be a link that no system knows")
                if file.mode == LINK:
                    os.symlink(data, TEMPORARY, dir_fd=parent)
                else:
                    _write_temporary(parent, name, data, is_executable=file.mode == EXECUTABLE)
                os.rename(TEMPORARY, name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(TEMPORARY, dir_fd=parent)
                raise

    def remove(self, path: bytes) -> None:
        """Remove the file or link, and the folders that become empty. Raises OSError, RefusedFileError."""
        with self._parent(path) as (parent, name):
            os.unlink(name, dir_fd=parent)
        above = path.rpartition(b"/")[0]
        with contextlib.suppress(OSError):  # another file is in it
            while above:
                with self._parent(above) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
                above = above.rpartition(b"/")[0]

    @contextlib.contextmanager
    def _parent(self, path: bytes, *, makes: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield the descriptor of the folder that the path is in, and the path's last part. With `makes`, missing
        folders are made."""
        *above, name = path.split(b"/")
        for part in (*above, name):
            if not _is_plain(part):
                raise RefusedFileError(f"{os.fsdecode(path)!r} is no path of a file in a work tree")
        handle = os.dup(self._top)
        try:
            for part in above:
                if makes:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                below = os.open(part, _DIRECTORY, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle, name
        finally:
            os.close(handle)


def _check_direct(path: Path) -> None:
    if os.path.realpath(path) != str(path):
        raise RefusedFileError(f"{path} is reached by a symbolic link, so nothing is written", subject=str(path))


def _is_plain(part: bytes) -> bool:
    """Return whether the part of a path names a file that git would store: neither this folder, nor one above it, nor
    git's own directory, under whatever name a file system knows that."""
    known = part.lower().rstrip(b" .")
    if part in (b"", b".", b"..") or b"\0" in part:
        return False
    return known not in (b".git", b"git~1") and not known.startswith(b".git:")


def _has_content(parent: int, name: bytes, file: TreeFile) -> bool:
    handle = os.open(name, _LOOK, dir_fd=parent)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return False
        made = begin_object(found.st_size, file.object)
        while data := os.read(handle, files.PIECE_BYTES):
            made.update(data)
        return made.hexdigest().encode() == file.object
    finally:
        os.close(handle)


def _write_temporary(parent: int, name: bytes, data: bytes, *, is_executable: bool) -> None:
    """Write the data beside the file `name`, with that file's permissions if it exists."""
    handle = os.open(TEMPORARY, _NEW, 0o666, dir_fd=parent)
    try:
        mode = os.fstat(handle).st_mode
        with contextlib.suppress(OSError):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            mode = found.st_mode if stat.S_ISREG(found.st_mode) else mode
        mode &= _OTHERS
        os.fchmod(handle, mode | (mode & 0o444) >> 2 if is_executable else mode)
        files.write_all(handle, data)
        files.sync(handle)
    finally:
        os.close(handle)


def disk_error(path: Path, error: OSError) -> DiskError | None:
    """Return the error for a disk that takes no more; None if only this one path can't be written."""
    is_of_disk = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
    return files.disk_error("write", path, error) if is_of_disk else None
