"""Landlock: this process and everything that it starts can change nothing below some folders, by any path.

The guard's child calls it just before it becomes the agent, so it imports as little as `table` does. Landlock only
knows permissions, and a permission for a folder covers everything below it. So every entry of each folder on the way to
a protected one is allowed separately, and no such folder is: a *new* entry directly in one (in HOME, say) is refused,
and so is the removal of an old one.

It can't refuse chmod, chown, times and extended attributes; a file that has a second name (hard link) elsewhere; a bind
mount elsewhere (see `mounts.py`); what another process is asked to do. Before ABI 3 it does not cover truncate(2), and
with ABI 1 nothing moves from one folder to another (programs copy then).
"""

from __future__ import annotations

import errno
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

if TYPE_CHECKING or __package__:
    from beam.process import table
else:  # the guard's child
    import table

FAILED = 4096  # added to the errno of a confinement that failed, so that it is not taken for the exec's

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture but those below
_OTHER_NUMBERS = ("alpha", "mips")
_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
_LINKS = 40  # as many as the kernel follows

_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_REMOVE_AND_MAKE = 0b1_1111_1111 << 4  # REMOVE_DIR, REMOVE_FILE, and the seven kinds of MAKE_
_OF_A_FILE = _WRITE_FILE | _TRUNCATE


def abi() -> int:
    """Return the version of Landlock that this kernel lets this process use; 0 for none."""
    if not table.LINUX or posix.uname().machine.startswith(_OTHER_NUMBERS):
        return 0
    return max(0, table.libc(b"syscall")(_CREATE_RULESET, 0, 0, _VERSION))


def rights(version: int) -> int:
    """Return all rights to change something that this version can withhold. Device ioctls (ABI 5) change no file."""
    return _WRITE_FILE | _REMOVE_AND_MAKE | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)


def carried(protected: Iterable[bytes], allowed: Iterable[bytes]) -> bytes:
    """Return both lists as one unambiguous argument for the guard."""
    return " ".join([*(f"-{path.hex()}" for path in protected), *(f"+{path.hex()}" for path in allowed)]).encode()


def read(value: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the two lists that `carried` encoded: the protected and the allowed paths."""
    words = value.decode().split()
    protected, allowed = ([bytes.fromhex(word[1:]) for word in words if word[0] == sign] for sign in "-+")
    return protected, allowed


def confine_as(value: bytes, version: int = 0) -> None:
    """Confine this process as `carried` says. Raises OSError, with its errno increased by `FAILED`."""
    protected, allowed = read(value)
    try:
        confine(protected, allowed, version or abi())
    except OSError as error:
        raise OSError((error.errno or 0) + FAILED, "the agent could not be confined") from error


def confine(protected: Iterable[bytes], allowed: Iterable[bytes], version: int) -> None:
    """Confine this process permanently, with no way to gain rights through a setuid program. Raises OSError.

    `allowed` are folders and files inside the protected ones that stay writable; each must exist.
    """
    call = table.libc(b"syscall")
    handled = rights(version)
    rules = call(_CREATE_RULESET, handled.to_bytes(8, sys.byteorder), 8, 0)
    if rules < 0:
        raise OSError(errno.ENOSYS, "this kernel gives no Landlock")
    try:
        for path, is_folder in _open_to_all(list(protected)):
            _allow(call, rules, path, handled if is_folder else handled & _OF_A_FILE)
        for path in allowed:
            if not _allow(call, rules, path, handled if _is_folder(path) else handled & _OF_A_FILE):
                raise OSError(errno.ENOENT, "what was allowed is not there")
        if not table.prctl(_PR_SET_NO_NEW_PRIVS, 1) or call(_RESTRICT_SELF, rules, 0) < 0:
            raise OSError(errno.EPERM, "Landlock was refused")
    finally:
        posix.close(rules)


def _is_folder(path: bytes) -> bool:
    return posix.lstat(path).st_mode & 0o170000 == 0o040000


def _allow(call: Callable[..., int], rules: int, path: bytes, granted: int) -> bool:
    try:
        fd = posix.open(path, posix.O_PATH | posix.O_NOFOLLOW | posix.O_CLOEXEC)
    except OSError:  # gone since it was seen
        return False
    rule = granted.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
    try:
        return call(_ADD_RULE, rules, _PATH_BENEATH, rule, 0) == 0
    finally:
        posix.close(fd)


def _open_to_all(protected: list[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the entries beside the protected folders and beside the folders on the way to them, and whether each is a
    folder.
    """
    on_the_way, ends = way_to(protected)
    closed = on_the_way | ends
    for folder in on_the_way - ends:
        try:
            with posix.scandir(folder) as entries:
                found = [
                    (entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries if not entry.is_symlink()
                ]
        except OSError:  # it can't be read: nothing new comes of that
            continue
        yield from ((path, is_folder) for path, is_folder in found if path not in closed)


def way_to(protected: Iterable[bytes]) -> tuple[set[bytes], set[bytes]]:
    """Return (folders, ends).

    `folders` are the existing folders in which a step to a protected path is looked up, by their real paths; `ends` are
    the real paths of the protected ones. A link on the way counts with the folder that holds it, because it could be
    replaced there.
    """
    folders: set[bytes] = set()
    ends: set[bytes] = set()
    for path in protected:
        at, rest, links = b"/", [part for part in reversed(path.split(b"/")) if part], 0
        while rest:
            part = rest.pop()
            if part == b".":
                continue
            if part == b"..":
                at = at.rpartition(b"/")[0] or b"/"
                continue
            folders.add(at)
            step = at.rstrip(b"/") + b"/" + part
            try:
                target = posix.readlink(step)
            except OSError:  # no link; or not there, and then nothing below it is either
                at = step
                continue
            links += 1
            if links > _LINKS:
                raise OSError(errno.ELOOP, "too many links")
            at = b"/" if target.startswith(b"/") else at
            rest += [part for part in reversed(target.split(b"/")) if part]
        ends.add(at)
    return {folder for folder in folders if not _is_in(folder, ends)}, ends


def _is_in(path: bytes, ends: Iterable[bytes]) -> bool:
    return any(path == end or path.startswith(end.rstrip(b"/") + b"/") for end in ends)
