"""Confines this process by Landlock: neither it nor its future children can change anything below the protected
folders.

This holds for all paths that lead there. The guard's child calls this module just before it becomes the agent, so the
module imports as little as `table` does. Landlock can only grant rights, and a right for a folder covers everything
below it. So a folder on the way to a protected folder gets no right itself; its other entries get their rights one by
one. As a result, no entry can be created or removed directly in such a folder (in HOME, say).

Landlock can't prevent changes of the mode, the owner, the times and the extended attributes of a file. It can't prevent
writing to a protected file by a second name (a hard link) or through a bind mount elsewhere (see
`confinement.aliases`), and it does not bind another process that is asked to do something. Before ABI 3 it does not
cover truncate(2). With ABI 1 no file can be moved from one folder to another (programs copy it then).
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

ERRNO_OFFSET = 4096  # added to the errno of a confinement that failed, so that it is not taken for the exec's

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture but those below
_OTHER_ARCHITECTURES = ("alpha", "mips")
_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
_MAX_LINKS = 40  # as many as the kernel follows

_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_REMOVE_AND_MAKE = 0b1_1111_1111 << 4  # REMOVE_DIR, REMOVE_FILE, and the seven kinds of MAKE_
_FILE_RIGHTS = _WRITE_FILE | _TRUNCATE


def abi() -> int:
    """Return the version of Landlock that this process can use on this kernel; 0 if it can't use Landlock."""
    if not table.LINUX or posix.uname().machine.startswith(_OTHER_ARCHITECTURES):
        return 0
    return max(0, table.libc(b"syscall")(_CREATE_RULESET, 0, 0, _VERSION))


def rights(version: int) -> int:
    """Return the mask of all rights to change files that this version of Landlock can withhold.

    The right to device ioctls (ABI 5) is left out, because they change no file.
    """
    return _WRITE_FILE | _REMOVE_AND_MAKE | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)


def encode_paths(protected: Iterable[bytes], allowed: Iterable[bytes]) -> bytes:
    """Return the two lists of paths encoded as one value for the guard; `decode_paths` decodes it."""
    return " ".join([*(f"-{path.hex()}" for path in protected), *(f"+{path.hex()}" for path in allowed)]).encode()


def decode_paths(value: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the two lists that `encode_paths` encoded: the protected and the allowed paths."""
    words = value.decode().split()
    protected, allowed = ([bytes.fromhex(word[1:]) for word in words if word[0] == sign] for sign in "-+")
    return protected, allowed


def confine_encoded(value: bytes, version: int = 0) -> None:
    """Confine this process as the encoded `value` says (see `encode_paths`). `version` is Landlock's (0: ask the
    kernel).

    Raises OSError with an errno that is increased by `ERRNO_OFFSET`.
    """
    protected, allowed = decode_paths(value)
    try:
        confine(protected, allowed, version or abi())
    except OSError as error:
        raise OSError((error.errno or 0) + ERRNO_OFFSET, "the agent could not be confined") from error


def confine(protected: Iterable[bytes], allowed: Iterable[bytes], version: int) -> None:
    """Confine this process permanently, and keep setuid programs from giving it other rights. Raises OSError.

    `allowed` are folders and files inside the protected folders that stay writable; each must exist. `version` is the
    version of Landlock.
    """
    call = table.libc(b"syscall")
    handled = rights(version)
    rules = call(_CREATE_RULESET, handled.to_bytes(8, sys.byteorder), 8, 0)
    if rules < 0:
        raise OSError(errno.ENOSYS, "this kernel gives no Landlock")
    try:
        for path, is_folder in _unprotected_entries(list(protected)):
            _allow(call, rules, path, handled if is_folder else handled & _FILE_RIGHTS)
        for path in allowed:
            if not _allow(call, rules, path, handled if _is_folder(path) else handled & _FILE_RIGHTS):
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


def _unprotected_entries(protected: list[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield (path, is_folder) for each entry that is not protected itself, but lies in a folder on the way to a
    protected path.

    Links and the folders on the way to protected paths are left out.
    """
    on_the_way, ends = folders_leading_to(protected)
    closed = on_the_way | ends
    for folder in on_the_way - ends:
        try:
            with posix.scandir(folder) as entries:
                found = [
                    (entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries if not entry.is_symlink()
                ]
        except OSError:  # it can't be read: its entries get no rights
            continue
        yield from ((path, is_folder) for path, is_folder in found if path not in closed)


def folders_leading_to(protected: Iterable[bytes]) -> tuple[set[bytes], set[bytes]]:
    """Return two sets of real paths: (folders, ends).

    `folders` are the folders in which the system looks up the parts of the protected paths, without folders at or below
    a protected path. `ends` are the protected paths themselves. If a part of a path is a symbolic link, the folder that
    contains the link belongs to `folders`, too, because the link could be replaced there. Raises OSError if a path
    leads through too many links.
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
            except OSError:  # not a link; or it is missing, and so is everything below it
                at = step
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, "too many links")
            at = b"/" if target.startswith(b"/") else at
            rest += [part for part in reversed(target.split(b"/")) if part]
        ends.add(at)
    return {folder for folder in folders if not _is_in(folder, ends)}, ends


def _is_in(path: bytes, ends: Iterable[bytes]) -> bool:
    return any(path == end or path.startswith(end.rstrip(b"/") + b"/") for end in ends)
