"""Removes a directory with everything in it, at any depth, because an agent may nest directories without limit.

Follows no symbolic link. Does not depend on the content of files.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from beam.base.files import open_directory

_DEEP = 100  # a depth that `shutil.rmtree` can remove even if its caller's stack is deep


def remove_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove the directory with everything in it. Raises OSError, unless `ignore_errors`."""
    try:
        _empty(path)
        path.rmdir()
        return
    except OSError:
        if ignore_errors and not os.path.lexists(path):
            return
    import shutil  # for directories in each other; bz2 and lzma are imported with it

    with contextlib.suppress(OSError):
        if _is_deep(path):
            _flatten(path)
    shutil.rmtree(path, ignore_errors=ignore_errors)


def _empty(path: Path) -> None:
    """Remove the files, links and empty directories in this directory. Raises OSError if another directory is in it."""
    top = open_directory(path, follow=False)
    try:
        with os.scandir(top) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_directory in found:
            if is_directory:
                os.rmdir(name, dir_fd=top)
            else:
                os.unlink(name, dir_fd=top)
    finally:
        os.close(top)


def _is_deep(path: Path) -> bool:
    """Return whether directories are nested too deep below this one for a recursive function."""
    waiting = [(os.fspath(path), 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth == _DEEP:
            return True
        try:
            with os.scandir(folder) as entries:
                waiting += [(entry.path, depth + 1) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return True
    return False


def _flatten(path: Path) -> None:
    """Move every directory below this directory directly into this directory, under a new name."""
    top = open_directory(path, follow=False)
    try:
        waiting, number = _directories_in(top), 0
        while waiting:
            inner = os.open(waiting.pop(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
            try:
                for name in _directories_in(inner):
                    number += 1
                    moved = f".{os.urandom(8).hex()}-{number}"
                    os.rename(name, moved, src_dir_fd=inner, dst_dir_fd=top)
                    waiting.append(moved)
            finally:
                os.close(inner)
    finally:
        os.close(top)


def _directories_in(directory_fd: int) -> list[str]:
    with os.scandir(directory_fd) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
