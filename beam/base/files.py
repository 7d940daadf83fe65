"""Opens files safely, and changes them durably: create, replace, move, remove, and sync after an append.

A power failure may lose any other change. Opening a file never blocks, and anything but a plain file is refused. A
reader also refuses a file that is larger than its limit. Most functions turn an OSError into a DiskError that names the
path and the next step. Does not depend on the content of files.
"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import os
import stat
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import BinaryIO

from beam.base.errors import DiskError, RefusedFileError

_HINTS = {
    errno.ENOSPC: "free some space; nothing that was sent before is lost",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EROFS: "the file system is read-only; choose another with BEAM_STATE, or --root",
    errno.EACCES: "check who owns it, or choose another with BEAM_STATE, or --root",
    errno.EPERM: "check who owns it, or choose another with BEAM_STATE, or --root",
    errno.ELOOP: "beam follows no symbolic links inside its root; put the real file or directory there",
    errno.EIO: "the disk reports an error; look at the system's log",
    errno.EMFILE: "too many open files; raise `ulimit -n`",
    errno.ENFILE: "the system has too many open files",
}
TURN_DESCRIPTORS = 24  # of one turn: event loop, the agent's pipes, its guard, journal, locks and message files
EXTRA_TURN_DESCRIPTORS = 8  # of each further turn at the same time
HELD_AGENT_DESCRIPTORS = 2  # of each agent that is held: its journal and lock
_DELETED_SUFFIX = " (deleted)"  # the system marks the path of a removed file like this
_FILE_MODE = 0o600
_WRITER_THREADS = 16
PIECE_BYTES = 4 << 20  # the largest piece in which a file is read, as large as a usual segment of a journal
_GROWTH_BYTES = 4096  # that may have been added to a file since its size was read
_DIRECTORY_MODE = 0o700
_waits_for_disk = contextvars.ContextVar("waits_for_disk", default=True)
_NONBLOCKING_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # so that opening a FIFO or a device never blocks


class disk_action:
    """Context manager that turns an OSError in its block into a DiskError: "can't <action> <path>: <why>"."""

    __slots__ = ("_action", "_path")

    def __init__(self, action: str, path: Path) -> None:
        self._action, self._path = action, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise disk_error(self._action, self._path, error) from error


def disk_error(action: str, path: Path | str, error: OSError) -> DiskError:
    """Return the DiskError for an OSError."""
    hint = _HINTS.get(error.errno or 0, "")
    return DiskError(f"can't {action} {path}: {error.strerror or error}", hint, subject=str(path))


def is_full(error: DiskError) -> bool:
    """Return whether the error means a full disk or an exhausted quota."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


def check_descriptors(count: int) -> None:
    """Raise DiskError unless `count` more files can be opened. An operation that begins with this check does not fail
    halfway."""
    null = Path(os.devnull)
    with contextlib.ExitStack() as opened_here, disk_action(f"open {count} more files, such as", null):
        for _ in range(count):
            opened_here.callback(os.close, os.open(null, os.O_RDONLY | os.O_CLOEXEC))


def make_directory(path: Path) -> None:
    """Create the directory and its missing parents, each for this user only. An existing directory stays as it is."""
    with disk_action("make", path):
        if path.is_dir():
            return
        make_directory(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=_DIRECTORY_MODE)


@contextlib.contextmanager
def without_sync() -> Generator[None]:
    """Write without syncing to disk inside the context, in this task and in the tasks that it starts.

    This is for a replay, which has no effects and can be repeated, so its files may be lost in a power failure.
    """
    token = _waits_for_disk.set(False)
    try:
        yield
    finally:
        _waits_for_disk.reset(token)


def sync(handle: int) -> bool:
    """Sync the open file to disk and return True; inside `without_sync` do nothing and return False."""
    if not _waits_for_disk.get():
        return False
    os.fsync(handle)
    return True


def sync_directory(path: Path) -> None:
    """Sync the names in the directory to disk."""
    with disk_action("sync", path):
        handle = open_directory(path)
        try:
            sync(handle)
        finally:
            os.close(handle)


def write_new(path: Path, data: bytes) -> None:
    """Create a file and sync its content to disk. The file's name is on disk only once its directory is synced."""
    with disk_action("write", path):
        handle = open_to_write(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(handle, data)
            sync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        finally:
            os.close(handle)


def allocate(path: Path, size: int) -> None:
    """Create a file of this size, with its space allocated on disk.

    The content of the file is undefined. After a DiskError the file does not exist.
    """
    with disk_action("write", path):
        handle = open_to_write(path, os.O_WRONLY | os.O_CREAT)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, size)
            else:
                write_all(handle, bytes(size))
            sync(handle)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        finally:
            os.close(handle)


def write_many(contents: Mapping[Path, bytes]) -> None:
    """Create several files as `write_new` does, in parallel, because overlapping syncs share one flush of the disk.

    After a DiskError any of them may exist.
    """
    if len(contents) < _WRITER_THREADS:
        for path, data in contents.items():
            write_new(path, data)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_WRITER_THREADS) as pool:
        for _ in pool.map(write_new, contents, contents.values()):
            pass


def publish(temporary: Path, final: Path, data: bytes) -> None:
    """Create the file under its final name, complete and on disk, or not at all.

    `temporary` and `final` must be in the same file system.
    """
    write_new(temporary, data)
    move(temporary, final)


def replace(path: Path, data: bytes) -> None:
    """Replace the file's content, durably. A reader sees either the old or the new content."""
    publish(path.with_name(f".{path.name}.{os.getpid()}.tmp"), path, data)


def move(source: Path, target: Path) -> None:
    """Rename the file, durably. Raises FileNotFoundError if the file is gone, because another process moved it
    first."""
    try:
        source.rename(target)
    except FileNotFoundError:
        with disk_action("look at", target.parent):
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
    """Remove the file, durably. The file may be gone already."""
    with disk_action("remove", path):
        path.unlink(missing_ok=True)
    sync_directory(path.parent)


def open_to_write(path: Path, flags: int, *, directory_fd: int | None = None) -> int:
    """Return a descriptor of the plain file for writing with these flags; O_CREAT creates the file for this user only.

    With `directory_fd` (an open directory), only the last part of the path counts: it names the file in that directory.
    Raises OSError, and RefusedFileError for anything but a plain file.
    """
    try:
        name = path if directory_fd is None else path.name
        handle = os.open(name, flags | _NONBLOCKING_FLAGS | os.O_NOFOLLOW, _FILE_MODE, dir_fd=directory_fd)
    except OSError as error:
        raise _refusal(path, error) from error
    _check_plain(path, handle)
    return handle


def open_stream(path: Path, flags: int) -> int:
    """Return a descriptor as `open_to_write` does, but in the blocking mode that every program expects of its stdout
    and stderr."""
    handle = open_to_write(path, flags)
    os.set_blocking(handle, True)
    return handle


def open_directory(path: Path, *, follow: bool = True) -> int:
    """Return a descriptor of the directory; a symbolic link to one is refused, unless `follow`. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))


def real_directory(path: Path) -> str:
    """Return the same path as `os.path.realpath`. On Linux this takes three system calls instead of one for each part
    of the path."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                real = str(Path(f"/proc/self/fd/{handle}").readlink())
            finally:
                os.close(handle)
            if real.startswith("/") and not real.endswith(_DELETED_SUFFIX):
                return real
    return os.path.realpath(path)


def write_at(directory_fd: int, name: str, data: bytes) -> None:
    """Create a file in an open directory that others may write to. An existing file is never written to. Raises
    OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | _NONBLOCKING_FLAGS
    handle = os.open(name, flags, _FILE_MODE, dir_fd=directory_fd)
    try:
        write_all(handle, data)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write all the bytes to the descriptor. Raises OSError, possibly after a part of the bytes was written."""
    written = os.write(handle, data)
    if written == len(data):
        return
    view = memoryview(data)[written:]
    while view:
        view = view[os.write(handle, view) :]


# -- reading what somebody else may have put there ---------------------------------------------------------------------

_READ_FLAGS = os.O_RDONLY | _NONBLOCKING_FLAGS
_NO_ATIME = getattr(os, "O_NOATIME", 0)
# Errors that are not the file's fault.
_PASSING_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EINTR, errno.EAGAIN)


def open_to_read(path: Path | str, *, follow: bool = False, quietly: bool = False) -> int:
    """Return a descriptor of the plain file for reading. Raises the same errors as `open_reader`. `quietly` leaves the
    access time of the file unchanged if the file is this user's own."""
    if quietly:
        with contextlib.suppress(PermissionError):
            return _open(path, follow=follow, flags=_READ_FLAGS | _NO_ATIME)[0]
    return _open(path, follow=follow)[0]


def open_reader(path: Path | str, *, follow: bool = False) -> BinaryIO:
    """Return the plain file, opened for reading.

    Raises OSError, and RefusedFileError for anything but a plain file. Without `follow`, a symbolic link is refused.
    With `follow`, the link may lead to a plain file of this user or of root.
    """
    return os.fdopen(open_to_read(path, follow=follow), "rb")


def read(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """Return the content of a plain file of at most `limit` bytes.

    Raises FileNotFoundError for a missing file; RefusedFileError for a larger file and for anything but a plain file (a
    symbolic link is treated as in `open_reader`); DiskError for any other failure.
    """
    try:
        handle, size = _open(path, follow=follow)
        try:
            data = read_content(handle, size, limit)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise disk_error("read", path, error) from error
    if data is None:
        raise RefusedFileError(
            f"{path} is larger than {_in_mib(limit)}, which is more than beam reads of such a file",
            "move it away if you did not create it",
            subject=str(path),
        )
    return data


def read_at(directory_fd: int, name: str, limit: int, *, owner: int) -> bytes:
    """Return the content of a plain file in an open directory that others may write to.

    The file must have a single hard link, at most `limit` bytes, and this owner (a uid). Raises RefusedFileError for
    any other file and for a missing one; DiskError for an error that is not the file's fault, such as a shortage of
    descriptors.
    """
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise RefusedFileError(f"{name[:80]!r} is no name of a file", subject=name[:80])
    try:
        handle = os.open(name, _READ_FLAGS | os.O_NOFOLLOW, dir_fd=directory_fd)
        try:
            found = os.fstat(handle)
            wrong = _what_is_wrong(found, owner)
            data = None if wrong else read_content(handle, found.st_size, limit)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in _PASSING_ERRNOS:
            raise disk_error("read", Path(name), error) from error
        is_link = error.errno == errno.ELOOP
        why = "is a symbolic link" if is_link else f"can't be read: {error.strerror}"
        raise RefusedFileError(f"{name} {why}", subject=name) from error
    if data is None:
        raise RefusedFileError(f"{name} {wrong or f'is larger than {_in_mib(limit)}'}", subject=name)
    return data


def read_pieces(path: Path | str, start: int = 0, *, follow: bool = False) -> Generator[bytes, None, None]:
    """Yield the content of a plain file from the byte `start` to its present end, in pieces of at most PIECE_BYTES.

    This is for files of any size to which others append. Raises the same errors as `read`.
    """
    try:
        handle, size = _open(path, follow=follow)
        try:
            while data := os.pread(handle, min(PIECE_BYTES, max(size - start, 0) + _GROWTH_BYTES), start):
                start += len(data)
                yield data
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise disk_error("read", path, error) from error


def _what_is_wrong(found: os.stat_result, owner: int) -> str:
    if not stat.S_ISREG(found.st_mode):
        return f"is {_kind(found.st_mode)}"
    if found.st_nlink != 1:
        return "has more than one name" if found.st_nlink else "was removed"
    return "" if found.st_uid == owner else f"belongs to another user (uid {found.st_uid})"


def _open(path: Path | str, *, follow: bool, flags: int = _READ_FLAGS) -> tuple[int, int]:
    """Return a descriptor of the plain file, and the file's size. Raises OSError, RefusedFileError."""
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and follow:
            return _open_link(path, flags)
        raise _refusal(path, error) from error
    return handle, _check_plain(path, handle).st_size


def _open_link(path: Path | str, flags: int) -> tuple[int, int]:
    try:
        handle = os.open(path, flags)
    except OSError as error:
        raise _refusal(path, error) from error
    found = _check_plain(path, handle)
    if found.st_uid not in (os.geteuid(), 0):  # 0: root, as a package manager may have written the file
        os.close(handle)
        raise RefusedFileError(
            f"{path} is a symbolic link to a file of another user (uid {found.st_uid})",
            "replace the link by the file itself",
            subject=str(path),
        )
    return handle, found.st_size


def _check_plain(path: Path | str, handle: int) -> os.stat_result:
    """Return the file status of the descriptor if it is of a plain file. Otherwise close the descriptor, and raise
    IsADirectoryError or RefusedFileError."""
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode):
        return found
    os.close(handle)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _not_plain_error(path, found.st_mode)


def _refusal(path: Path | str, error: OSError) -> OSError | RefusedFileError:
    """Return the error to raise for a failed open: RefusedFileError for a link or a socket, else the error itself."""
    if error.errno == errno.ELOOP:
        return RefusedFileError(
            f"{path} is a symbolic link; beam reads the file itself only",
            "replace the link by the file itself",
            subject=str(path),
        )
    if error.errno == errno.ENXIO:
        return _not_plain_error(path, _mode(path))
    return error


def _mode(path: Path | str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _not_plain_error(path: Path | str, mode: int) -> RefusedFileError:
    return RefusedFileError(
        f"{path} is {_kind(mode)}, and beam reads plain files only",
        "move it away if you did not create it",
        subject=str(path),
    )


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "no file")


def read_content(handle: int, size: int, limit: int) -> bytes | None:
    """Return the whole content of the open file, whose size was `size` a moment ago; None if it is more than `limit`
    bytes."""
    if size > limit:
        return None
    data = os.read(handle, size + 1)
    if len(data) == size:
        return data
    parts, total = [data], len(data)  # it grew meanwhile, or came in pieces
    while total <= limit and (part := os.read(handle, min(PIECE_BYTES, limit + 1 - total))):
        parts.append(part)
        total += len(part)
    return None if total > limit else b"".join(parts)


def _in_mib(limit: int) -> str:
    return f"{limit / 2**20:g} MiB"


def names(path: Path) -> list[str]:
    """Return the names in a directory, sorted; [] if the directory does not exist."""
    return sorted(unsorted_names(path))


def unsorted_names(path: Path) -> list[str]:
    """Return the names in a directory, unsorted; [] if the directory does not exist. Sorting would cost as much as
    listing."""
    try:
        return os.listdir(path)  # noqa: PTH208 - names, not paths: this is asked ten times a second
    except FileNotFoundError:
        return []
    except OSError as error:
        raise disk_error("list", path, error) from error
