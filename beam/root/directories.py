"""Makes the directories of a root and of an agent in it, durably, and checks that they are real directories.

The only file that it makes is the root's `.gitignore`. Does not depend on the content of files, or on locks.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from beam.base.errors import DiskError
from beam.root.paths import ROOT_DIRS, AgentPaths, RootPaths, disk_error

_AGENT_DIRS = (
    *("queue", "queue/tmp", "queue/new", "queue/cur", "queue/dead"),
    *("control", "control/tmp", "control/new", "asks", "journal"),
)


_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def create(home: RootPaths, paths: AgentPaths | None = None) -> None:
    """Create the root (mode 0700, ignored by git) and the agent's directories, durably. Existing directories stay.

    Raises DiskError that names the path.
    """
    _make_root(home.root)
    _make_dirs(_folders(home, paths) if paths is not None else [home.root / name for name in ROOT_DIRS])


def _make_root(root: Path) -> None:
    _make_dirs([*reversed(_missing_folders(root.parent)), root])
    ignore = root / ".gitignore"
    try:
        if ignore.exists():
            return
    except OSError as error:
        raise disk_error(error, ignore, "read") from error
    try:
        with os.fdopen(os.open(ignore, _NEW_FILE_FLAGS, 0o600), "wb") as file:
            file.write(b"*\n")
    except OSError as error:
        with contextlib.suppress(OSError):
            ignore.unlink()  # half a file would be taken for the user's own
        raise disk_error(error, ignore, "create") from error


def _missing_folders(folder: Path) -> list[Path]:
    """Return the missing folders among this folder and its parents, the innermost first."""
    found = []
    try:
        while not folder.exists():
            found.append(folder)
            folder = folder.parent
    except OSError as error:
        raise disk_error(error, folder, "create") from error
    return found


def _make_dirs(folders: Sequence[Path]) -> None:
    touched: set[Path] = set()
    for folder in folders:
        try:
            folder.mkdir(0o700)
            touched.add(folder.parent)
        except FileExistsError as error:
            _check_directory(folder, error)
        except OSError as error:
            raise disk_error(error, folder, "create") from error
    for parent in touched:
        _sync(parent)


def _sync(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise disk_error(error, folder, "sync") from error


def not_a_directory_error(path: Path) -> DiskError:
    return DiskError(f"{path} is a file; beam needs a directory there", "move the file away", subject=str(path))


def check_paths(home: RootPaths, paths: AgentPaths) -> None:
    """Raise DiskError if a symbolic link or a file is in the place of one of the agent's directories.

    A missing directory passes.
    """
    for folder in _folders(home, paths):
        _check_directory(folder, None)


def _folders(home: RootPaths, paths: AgentPaths) -> list[Path]:
    outer = [paths.dir] if paths.lane is None else [paths.dir.parent.parent, paths.dir.parent, paths.dir]
    return [*(home.root / name for name in ROOT_DIRS), *outer, *(paths.dir / name for name in _AGENT_DIRS)]


def _check_directory(folder: Path, cause: OSError | None) -> None:
    found = lstat(folder)
    if found is None or stat.S_ISDIR(found.st_mode):
        return
    if stat.S_ISLNK(found.st_mode):
        raise DiskError(
            f"{folder} is a symbolic link; beam uses real directories only",
            "replace the link by the directory itself",
            subject=str(folder),
        ) from cause
    raise not_a_directory_error(folder) from cause


def lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise disk_error(error, path, "look at") from error
