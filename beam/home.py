"""Names beam's files and checks whether they may be used: the root, an agent's place in it, the XDG directories.

Makes directories, never files of state. Must not know: what is in a file, who holds a lock, any setting, or how a
folder gets its root (`beam.roots`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from beam.errors import BeamError, ConfigError, DiskError
from beam.message import NAME, check_name

if TYPE_CHECKING:
    import grp
    import pwd

CONFIG_NAME = "beam.yaml"
GONE = ".removed-"  # an agent's or a lane's directory that was moved away to be removed begins with this
ROOT_DIRS = ("agents", "locks", "threads")
_PLACE_DIRS = (
    *("queue", "queue/tmp", "queue/new", "queue/cur", "queue/dead"),
    *("control", "control/tmp", "control/new", "asks", "journal"),
)

# File systems whose locks or notifications don't reach everyone, with the word that `allow_fs` may use for the kind.
_SHARED_FILESYSTEMS = {
    **dict.fromkeys(("nfs", "nfs4"), "nfs"),
    **dict.fromkeys(("cifs", "smb2", "smb3", "smbfs", "ncpfs"), "smb"),
    **dict.fromkeys(("9p", "v9fs"), "9p"),
    **dict.fromkeys(("fuse", "fuseblk", "virtiofs", "osxfs", "grpcfuse", "fakeowner"), "fuse"),
    **{kind: kind for kind in ("afs", "ceph", "lustre", "glusterfs", "beegfs", "coda", "vboxsf", "prl_fs", "vmhgfs")},
}


class Place(Struct, frozen=True):
    """Directories and files of one agent, or of one of its lanes (`--once`: a throw-away session beside the queue)."""

    agent: str
    dir: Path
    lane: str | None = None

    @property
    def queue(self) -> Path:
        return self.dir / "queue"

    @property
    def control(self) -> Path:
        return self.dir / "control"

    @property
    def asks(self) -> Path:
        return self.dir / "asks"

    @property
    def journal(self) -> Path:
        return self.dir / "journal"

    @property
    def lock(self) -> Path:
        """The file whose flock makes a holder."""
        return self.dir.parent.parent / "locks" / self.agent if self.lane is None else self.dir / "lock"

    @property
    def put_lock(self) -> Path:
        """The file whose flock orders publications."""
        return self.dir / "put.lock"

    @property
    def reserve(self) -> Path:
        """The file whose room an outcome takes on a full disk; lanes share their agent's."""
        return (self.dir if self.lane is None else self.dir.parent.parent) / "reserve"

    @property
    def log(self) -> Path:
        """What a detached worker writes to stderr."""
        return self.dir / "worker.log"

    def unstarted(self, turn_key: str) -> Path:
        """The file by which the guard of that turn says that it never let the agent go. In the root: an agent that
        could make it would have its message run twice."""
        return self.dir / f"{turn_key}.unstarted"

    def lane_of(self, suffix: str) -> Place:
        """The lane of this agent with that name."""
        return Place(self.agent, self.dir / "once" / check_name(suffix, "lane"), suffix)

    def lanes(self) -> list[Place]:
        """The lanes that exist, sorted by name."""
        return [Place(self.agent, self.dir / "once" / name, name) for name in _named_dirs(self.dir / "once")]


class Home(Struct, frozen=True):
    """One root, which need not exist yet, and the project folder that it belongs to; both are absolute paths.

    No state is ever read from `project`, only declarations: beam.yaml and what it names.
    """

    root: Path
    project: Path

    @property
    def config_file(self) -> Path:
        return self.project / CONFIG_NAME

    def agent(self, name: str) -> Place:
        """The place of an agent. Raises UsageError for what is no name."""
        return Place(check_name(name), self.root / "agents" / name)

    def agents(self) -> list[str]:
        """Names of the agents that have a directory, sorted."""
        return _named_dirs(self.root / "agents")

    @property
    def threads(self) -> Path:
        """Where it is counted what each thread used."""
        return self.root / "threads"

    @property
    def turns(self) -> Path:
        """Where turns have their own folders: outside the root, as agents may write there."""
        return self.root.with_name(f"{self.root.name}.turns")

    def turns_of(self, place: Place) -> Path:
        """Where the turns of one agent, or of one lane, have theirs."""
        return self.turns / (place.agent if place.lane is None else f"{place.agent}.{place.lane}")

    def exists(self) -> bool:
        return self.root.is_dir()


def _named_dirs(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if NAME.match(entry.name) and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _disk_error(error, folder, "read") from error


# -- creating ----------------------------------------------------------------------------------------------------------


def create(home: Home, place: Place | None = None) -> None:
    """Makes the root (0700, ignored by git) and the place's directories, durably; what is there already stays.

    Raises DiskError that names the path.
    """
    _make_root(home.root)
    _make_dirs(_folders(home, place) if place is not None else [home.root / name for name in ROOT_DIRS])


_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def _make_root(root: Path) -> None:
    _make_dirs([*reversed(_missing(root.parent)), root])
    ignore = root / ".gitignore"
    try:
        if ignore.exists():
            return
    except OSError as error:
        raise _disk_error(error, ignore, "read") from error
    try:
        with os.fdopen(os.open(ignore, _NEW_FILE, 0o600), "wb") as file:
            file.write(b"*\n")
    except OSError as error:
        with contextlib.suppress(OSError):
            ignore.unlink()  # half a file would be taken for the user's own
        raise _disk_error(error, ignore, "create") from error


def _missing(folder: Path) -> list[Path]:
    """The folder and those above it that are not there yet, the innermost first."""
    found = []
    try:
        while not folder.exists():
            found.append(folder)
            folder = folder.parent
    except OSError as error:
        raise _disk_error(error, folder, "create") from error
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
            raise _disk_error(error, folder, "create") from error
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
        raise _disk_error(error, folder, "sync") from error


def _not_a_directory(path: Path) -> DiskError:
    return DiskError(f"{path} is a file; beam needs a directory there", "move the file away", subject=str(path))


_ELSEWHERE = "BEAM_STATE=DIR, `state_dir:` in your own configuration, or --root DIR"
_NEXT_STEP = {
    errno.EROFS: f"keep beam's state on a disk that can be written: {_ELSEWHERE}",
    errno.ENOSPC: f"free some space, or keep beam's state on another disk: {_ELSEWHERE}",
    errno.EDQUOT: f"free some space, or keep beam's state on another disk: {_ELSEWHERE}",
    errno.EACCES: f"keep beam's state in a folder of your own: {_ELSEWHERE}",
    errno.EPERM: f"keep beam's state in a folder of your own: {_ELSEWHERE}",
    errno.ENOTDIR: "a part of that path is a file; move it away",
    errno.ENAMETOOLONG: f"use a shorter path: {_ELSEWHERE}",
}


def _disk_error(error: OSError, path: Path, verb: str) -> DiskError:
    reason = (error.strerror or str(error)).lower()
    hint = _NEXT_STEP.get(error.errno or 0, f"look at the disk, or keep beam's state elsewhere: {_ELSEWHERE}")
    return DiskError(f"can't {verb} {path}: {reason}", hint, subject=str(path))


def check_place(home: Home, place: Place) -> None:
    """Refuses (DiskError) a place in which a symbolic link, or a file, stands for a directory. Absent ones pass."""
    for folder in _folders(home, place):
        _check_directory(folder, None)


def _folders(home: Home, place: Place) -> list[Path]:
    outer = [place.dir] if place.lane is None else [place.dir.parent.parent, place.dir.parent, place.dir]
    return [*(home.root / name for name in ROOT_DIRS), *outer, *(place.dir / name for name in _PLACE_DIRS)]


def _check_directory(folder: Path, cause: OSError | None) -> None:
    found = _lstat(folder)
    if found is None or stat.S_ISDIR(found.st_mode):
        return
    if stat.S_ISLNK(found.st_mode):
        raise DiskError(
            f"{folder} is a symbolic link; beam uses real directories only",
            "put the directory itself there",
            subject=str(folder),
        ) from cause
    raise _not_a_directory(folder) from cause


# -- checking ----------------------------------------------------------------------------------------------------------


def check(home: Home, *, uid: int, allow_fs: Collection[str] = (), mountinfo: str | None = None) -> None:
    """Refuses a root that is not safely this user's: `check_owner`, then `check_filesystem`."""
    check_owner(home, uid=uid)
    check_filesystem(home, allow_fs=allow_fs, mountinfo=mountinfo)


def check_owner(home: Home, *, uid: int) -> None:
    """Refuses a root (DiskError) or beam.yaml (ConfigError) that another user owns or may write, and a linked root.

    Absent files pass. Cheap enough to come before beam.yaml is read.
    """
    root = _lstat(home.root)
    if root is not None:
        if stat.S_ISLNK(root.st_mode):
            target = os.path.realpath(home.root)
            raise DiskError(
                f"{home.root} is a symbolic link; beam uses real directories only",
                f"name the directory itself: --root {target}",
                subject=str(home.root),
            )
        if not stat.S_ISDIR(root.st_mode):
            raise _not_a_directory(home.root)
        _check_mine(home.root, root, uid=uid, error=DiskError, private_group_may_write=False)
    config = _lstat(home.config_file)
    if config is not None and stat.S_ISLNK(config.st_mode):
        if config.st_uid != uid:
            raise _not_mine(home.config_file, config.st_uid, ConfigError)
        config = _lstat(Path(os.path.realpath(home.config_file)))
    if config is not None:
        if not stat.S_ISREG(config.st_mode):
            raise ConfigError(f"{home.config_file} is not a file", "move it away", subject=str(home.config_file))
        _check_mine(home.config_file, config, uid=uid, error=ConfigError, private_group_may_write=True)


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _disk_error(error, path, "look at") from error


def _check_mine(
    path: Path, found: os.stat_result, *, uid: int, error: type[BeamError], private_group_may_write: bool
) -> None:
    if found.st_uid != uid:
        raise _not_mine(path, found.st_uid, error)
    writers = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if writers == stat.S_IWGRP and private_group_may_write and _is_private_group(found.st_gid, uid):
        return
    if writers:
        raise error(f"{path} can be written by other users", f"take that away: chmod go-w {path}", subject=str(path))


def _not_mine(path: Path, owner: int, error: type[BeamError]) -> BeamError:
    return error(
        f"{path} belongs to another user (uid {owner})",
        f"take it over with chown if you trust what is in it, or keep beam's state elsewhere: {_ELSEWHERE}",
        subject=str(path),
    )


def _is_private_group(gid: int, uid: int) -> bool:
    import grp
    import pwd

    try:
        return is_private(grp.getgrgid(gid), pwd.getpwuid(uid))
    except KeyError:
        return False


def is_private(group: grp.struct_group, user: pwd.struct_passwd) -> bool:
    """Whether the group is that of one ordinary user alone (umask 002 writes beam.yaml group-writable there)."""
    is_own = group.gr_gid == user.pw_gid and group.gr_name == user.pw_name
    return user.pw_uid != 0 and is_own and set(group.gr_mem) <= {user.pw_name}


def check_filesystem(home: Home, *, allow_fs: Collection[str] = (), mountinfo: str | None = None) -> None:
    """Refuses (DiskError) a root on a file system without real locks or notification, unless `allow_fs` names it.

    `mountinfo` is the text of /proc/self/mountinfo; null reads it (no check on systems without it).
    """
    where = Path(os.path.realpath(home.root))
    kind = filesystem_of(where, read_mountinfo() if mountinfo is None else mountinfo)
    family = "fuse" if kind.startswith("fuse.") else _SHARED_FILESYSTEMS.get(kind)
    if family is None or kind in allow_fs or family in allow_fs:
        return
    raise DiskError(
        f"{home.root} is on a file system without dependable locks ({kind})",
        f"keep beam's state on a local disk ({_ELSEWHERE}), or write `allow_fs: [{kind}]` into {home.config_file}",
        subject=str(home.root),
    )


def read_mountinfo() -> str:
    """This process's mounts; "" where the system does not say."""
    try:
        return Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return ""


def filesystem_of(path: Path, mountinfo: str) -> str:
    """The type of the file system that holds the absolute real `path` ("nfs4"); "" if the text doesn't say.

    `mountinfo` is as in proc(5). Of mounts over each other the last one counts.
    """
    kind, longest = "", -1
    for line in mountinfo.splitlines():
        fields, _, tail = line.partition(" - ")
        words = fields.split(" ")
        if len(words) < 5 or not tail:
            continue
        mount = _OCTAL.sub(lambda match: chr(int(match[1], 8)), words[4])
        if len(mount) >= longest and path.is_relative_to(mount):
            kind, longest = tail.split(" ")[0], len(mount)
    return kind


_OCTAL = re.compile(r"\\([0-7]{3})")  # the kernel writes space, tab, newline and backslash like this


# -- the user's directories --------------------------------------------------------------------------------------------


def state_dir(environ: Mapping[str, str]) -> Path:
    """Returns where beam keeps what it knows for this user: `$BEAM_STATE`, else `$XDG_STATE_HOME/beam`."""
    if environ.get("BEAM_STATE", "").startswith("/"):
        return Path(environ["BEAM_STATE"])
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def config_dir(environ: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/beam`: what this user set for all folders."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config")


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    named = environ.get(variable, "")
    if named.startswith("/"):  # the XDG specification has relative paths ignored
        return Path(named) / "beam"
    return user_home(environ) / default / "beam"


def user_home(environ: Mapping[str, str]) -> Path:
    """`$HOME`, else what the user database says. Raises DiskError where neither knows."""
    if environ.get("HOME", "").startswith("/"):
        return Path(environ["HOME"])
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        raise DiskError("this user has no home directory", "set HOME to a folder of your own") from error
