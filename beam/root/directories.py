"""Makes the directories of a root and of an agent in it, durably, and checks that they are real directories of this
user alone, on a file system with working locks.

The only file that it makes is the root's `.gitignore`. Does not depend on the content of files, or on locks that are
held.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beam.base.errors import BeamError, ConfigError, DiskError
from beam.root.paths import ELSEWHERE_HINT, ROOT_DIRS, AgentPaths, RootPaths, disk_error

if TYPE_CHECKING:
    import grp
    import pwd


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


# File systems whose locks or notifications don't reach everyone, with the word that `allow_fs` may use for the kind.
_SHARED_FILESYSTEMS = {
    **dict.fromkeys(("nfs", "nfs4"), "nfs"),
    **dict.fromkeys(("cifs", "smb2", "smb3", "smbfs", "ncpfs"), "smb"),
    **dict.fromkeys(("9p", "v9fs"), "9p"),
    **dict.fromkeys(("fuse", "fuseblk", "virtiofs", "osxfs", "grpcfuse", "fakeowner"), "fuse"),
    **{kind: kind for kind in ("afs", "ceph", "lustre", "glusterfs", "beegfs", "coda", "vboxsf", "prl_fs", "vmhgfs")},
}


_OCTAL = r"\\([0-7]{3})"  # the kernel writes space, tab, newline and backslash like this


def check_owner(home: RootPaths, *, uid: int) -> None:
    """Raise DiskError for a root, and ConfigError for a beam.yaml, that another user owns or may write.

    Raises DiskError also for a root that is a symbolic link. A missing root or beam.yaml passes. The check is cheap
    enough to run before beam.yaml is read.
    """
    root = lstat(home.root)
    if root is not None:
        if stat.S_ISLNK(root.st_mode):
            target = os.path.realpath(home.root)
            raise DiskError(
                f"{home.root} is a symbolic link; beam uses real directories only",
                f"use the directory itself: --root {target}",
                subject=str(home.root),
            )
        if not stat.S_ISDIR(root.st_mode):
            raise not_a_directory_error(home.root)
        _check_mine(home.root, root, uid=uid, error=DiskError, private_group_may_write=False)
    file = home.config_file
    config = lstat(file)
    if config is not None and stat.S_ISLNK(config.st_mode):
        if config.st_uid != uid:
            raise _not_mine(file, config.st_uid, ConfigError)
        config = lstat(Path(os.path.realpath(file)))
    if config is not None:
        if not stat.S_ISREG(config.st_mode):
            raise ConfigError(f"{file} is not a file", "move it away", subject=str(file))
        _check_mine(file, config, uid=uid, error=ConfigError, private_group_may_write=True)


def _check_mine(
    path: Path, found: os.stat_result, *, uid: int, error: type[BeamError], private_group_may_write: bool
) -> None:
    if found.st_uid != uid:
        raise _not_mine(path, found.st_uid, error)
    writers = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if writers == stat.S_IWGRP and private_group_may_write and _is_private_gid(found.st_gid, uid):
        return
    if writers:
        raise error(f"{path} can be written by other users", f"take that away: chmod go-w {path}", subject=str(path))


def _not_mine(path: Path, owner: int, error: type[BeamError]) -> BeamError:
    return error(
        f"{path} belongs to another user (uid {owner})",
        f"take it over with chown if you trust what is in it, or keep beam's state elsewhere: {ELSEWHERE_HINT}",
        subject=str(path),
    )


def _is_private_gid(gid: int, uid: int) -> bool:
    import grp
    import pwd

    try:
        return is_private_group(grp.getgrgid(gid), pwd.getpwuid(uid))
    except KeyError:
        return False


def is_private_group(group: grp.struct_group, user: pwd.struct_passwd) -> bool:
    """Return whether the group is the private group of this ordinary user. Such a user often has the umask 002, which
    makes a new beam.yaml group-writable."""
    is_own = group.gr_gid == user.pw_gid and group.gr_name == user.pw_name
    return user.pw_uid != 0 and is_own and set(group.gr_mem) <= {user.pw_name}


def check_filesystem(home: RootPaths, *, allow_fs: Collection[str] = (), mountinfo: str | None = None) -> None:
    """Raise DiskError for a root on a file system without dependable locks or notification, unless `allow_fs` names
    that file system.

    `mountinfo` is the text of /proc/self/mountinfo; if it is None, the file is read (a system without that file is not
    checked).
    """
    where = Path(os.path.realpath(home.root))
    kind = filesystem_of(where, read_mountinfo() if mountinfo is None else mountinfo)
    family = "fuse" if kind.startswith("fuse.") else _SHARED_FILESYSTEMS.get(kind)
    if family is None or kind in allow_fs or family in allow_fs:
        return
    raise DiskError(
        f"{home.root} is on a file system without dependable locks ({kind})",
        f"keep beam's state on a local disk ({ELSEWHERE_HINT}), or write `allow_fs: [{kind}]` into your config.yaml",
        subject=str(home.root),
    )


def read_mountinfo() -> str:
    """Return this process's mounts; "" if the system does not list them."""
    try:
        return Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return ""


def filesystem_of(path: Path, mountinfo: str) -> str:
    """Return the type of the file system that contains the absolute real `path` ("nfs4"); "" if `mountinfo` does not
    tell.

    `mountinfo` has the format of proc(5). If several mounts are at the same place, the last one counts.
    """
    kind, longest = "", -1
    for line in mountinfo.splitlines():
        fields, _, tail = line.partition(" - ")
        words = fields.split(" ")
        if len(words) < 5 or not tail:
            continue
        mount = re.sub(_OCTAL, lambda match: chr(int(match[1], 8)), words[4])
        if len(mount) >= longest and path.is_relative_to(mount):
            kind, longest = tail.split(" ")[0], len(mount)
    return kind
