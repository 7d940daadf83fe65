"""The only durable moves: publish, claim, replace, append, remove. Everything else that beam writes can be lost.

An OSError leaves here as a DiskError that names the path and the next step. Must not know: what is in a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from beam.errors import DiskError

_HINTS = {
    errno.ENOSPC: "free some space; nothing that was sent before is lost",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EROFS: "the file system is read-only; choose another with --root",
    errno.EACCES: "check who owns it, or choose another with --root",
    errno.EPERM: "check who owns it, or choose another with --root",
    errno.ELOOP: "beam follows no symbolic links inside its root; put the real file or directory there",
    errno.EIO: "the disk reports an error; look at the system's log",
    errno.EMFILE: "too many open files; raise `ulimit -n`",
    errno.ENFILE: "the system has too many open files",
}
TURN_FILES = 24  # the event loop, the agent's pipes, its guard, journal, locks and message files
MORE_TURN_FILES = 8  # of another turn beside it
HELD_FILES = 2  # of an agent that is held: journal and lock
_FILE_MODE = 0o600
_MANY = 16
_DIRECTORY_MODE = 0o700


@contextlib.contextmanager
def disk(action: str, path: Path) -> Iterator[None]:
    """Turns an OSError inside into a DiskError: "can't <action> <path>: <why>"."""
    try:
        yield
    except OSError as error:
        raise disk_error(action, path, error) from error


def disk_error(action: str, path: Path, error: OSError) -> DiskError:
    """The DiskError for an OSError."""
    hint = _HINTS.get(error.errno or 0, "")
    return DiskError(f"can't {action} {path}: {error.strerror or error}", hint, subject=str(path))


def is_full(error: DiskError) -> bool:
    """Whether there was no room on the disk, or none for this user."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


def check_descriptors(count: int) -> None:
    """So many more files can be open at once. Raises DiskError: better than in the middle of something."""
    null = Path(os.devnull)
    with contextlib.ExitStack() as opened_here, disk(f"open {count} more files, such as", null):
        for _ in range(count):
            opened_here.callback(os.close, os.open(null, os.O_RDONLY | os.O_CLOEXEC))


def make_directory(path: Path) -> None:
    """The directory exists, private, and so do its parents."""
    with disk("make", path):
        if path.is_dir():
            return
        make_directory(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=_DIRECTORY_MODE)


def sync_directory(path: Path) -> None:
    """The names in the directory are on disk."""
    with disk("sync", path):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_new(path: Path, data: bytes) -> None:
    """A new file with this content, its content on disk (its name is not, until its directory is synced)."""
    with disk("write", path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _FILE_MODE)
        try:
            write_all(handle, data)
            os.fsync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        finally:
            os.close(handle)


def allocate(path: Path, size: int) -> None:
    """The file has this size, and takes the room of it on disk. Its content is nothing; after a
    DiskError it is gone."""
    with disk("write", path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, size)
            else:
                write_all(handle, bytes(size))
            os.fsync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        finally:
            os.close(handle)


def write_many(contents: Mapping[Path, bytes]) -> None:
    """Several new files, each as by `write_new`; many at once: syncs that overlap share a flush of the disk.

    After a DiskError any of them may be there.
    """
    if len(contents) < _MANY:
        for path, data in contents.items():
            write_new(path, data)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_MANY) as pool:
        for _ in pool.map(write_new, contents, contents.values()):
            pass


def publish(temporary: Path, final: Path, data: bytes) -> None:
    """The file appears under its final name, whole and on disk, or not at all. Both paths lie in one file system."""
    write_new(temporary, data)
    move(temporary, final)


def replace(path: Path, data: bytes) -> None:
    """The file has this content, on disk; readers see the old or the new one."""
    publish(path.with_name(f".{path.name}.{os.getpid()}.tmp"), path, data)


def move(source: Path, target: Path) -> None:
    """The file has its new name, on disk. Raises FileNotFoundError if it is gone: somebody else was quicker."""
    try:
        source.rename(target)
    except FileNotFoundError:
        with disk("look at", target.parent):
            has_target = target.parent.is_dir()
        if has_target:
            raise
        raise DiskError(f"can't move {source} to {target}: no such directory", subject=str(target)) from None
    except OSError as error:
        raise disk_error("move", source, error) from error
    sync_directory(target.parent)
    if source.parent != target.parent:
        sync_directory(source.parent)


def remove(path: Path) -> None:
    """The file is gone, on disk; it may have been gone before."""
    with disk("remove", path):
        path.unlink(missing_ok=True)
    sync_directory(path.parent)


def write_all(handle: int, data: bytes) -> None:
    """All bytes are written; raises OSError, possibly after some of them."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def opened(path: Path, *, follow: bool = False) -> BinaryIO:
    """The file, for reading. A symbolic link is refused (OSError), unless `follow`: nothing in a root is one."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)), "rb")


def read(path: Path, limit: int | None = None, *, follow: bool = False) -> bytes:
    """The file's content, at most `limit` bytes. Raises FileNotFoundError, and DiskError for anything else; so for a
    symbolic link, unless `follow`."""
    try:
        with opened(path, follow=follow) as file:
            return file.read() if limit is None else file.read(limit)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise disk_error("read", path, error) from error


def names(path: Path) -> list[str]:
    """The names in a directory, sorted; none if there is no such directory."""
    try:
        return sorted(os.listdir(path))  # noqa: PTH208 - names, not paths: this is asked ten times a second
    except FileNotFoundError:
        return []
    except OSError as error:
        raise disk_error("list", path, error) from error
