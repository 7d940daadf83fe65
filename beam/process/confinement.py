"""The confinement of an agent's process: the paths that it may not change. Also finds other paths to the protected
folders.

The turn passes the confinement to the guard as one value. Does not depend on why a path is protected, or on the agent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct


class Confinement(Struct, frozen=True, kw_only=True):
    """The paths that an agent's process can't change, and the exceptions. All paths are absolute.

    Nothing can be changed at or below the `protected` paths, except at or below the `allowed` paths. The `allowed`
    paths must exist when the process starts.
    """

    protected: tuple[str, ...]
    allowed: tuple[str, ...] = ()

    @property
    def encoded(self) -> bytes:
        """Return the confinement encoded as bytes for the guard (see `landlock.encode_paths`)."""
        from beam.process import landlock

        return landlock.encode_paths(map(os.fsencode, self.protected), map(os.fsencode, self.allowed))

    def closed_folders(self) -> set[str]:
        """Return the real paths of the folders on the way to a protected path.

        No entry can be created directly in these folders, though their other entries stay writable.
        """
        from beam.process import landlock

        return {os.fsdecode(folder) for folder in landlock.folders_leading_to(map(os.fsencode, self.protected))[0]}


def is_within(path: str, folder: str) -> bool:
    """Return whether the path is the folder itself or lies below it. Both must be real paths."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def reaches_into(protected: str, folder: str) -> bool:
    """Return whether protecting the path would also prevent new entries in the folder (a real path) or below it."""
    from beam.process import landlock

    folders, ends = landlock.folders_leading_to([os.fsencode(protected)])
    return any(is_within(os.fsdecode(path), folder) for path in (*folders, *ends))


def aliases(paths: Iterable[str], mountinfo: str) -> Iterator[str]:
    """Yield the other paths at which bind mounts show the given paths, or folders below the given paths.

    `mountinfo` is the content of /proc/self/mountinfo (see proc(5)).
    """
    mounts = [(words[2], _decode_escapes(words[3]), _decode_escapes(words[4])) for words in _mount_fields(mountinfo)]
    for path in map(os.path.realpath, paths):
        here = [mount for mount in mounts if is_within(path, mount[2])]
        if not here:
            continue
        device, root, at = max(reversed(here), key=lambda mount: len(mount[2]))
        inside = _join_paths(root, path[len(at.rstrip("/")) :])
        for other, mounted, point in mounts:
            if other != device or point == at:
                continue
            if is_within(inside, mounted):
                yield _join_paths(point, inside[len(mounted.rstrip("/")) :])
            elif is_within(mounted, inside):
                yield point


def _join_paths(folder: str, rest: str) -> str:
    return f"{folder.rstrip('/')}/{rest.lstrip('/')}".rstrip("/") or "/"


def _mount_fields(mountinfo: str) -> Iterator[list[str]]:
    for line in mountinfo.splitlines():
        words = line.partition(" - ")[0].split(" ")
        if len(words) >= 5:
            yield words


def _decode_escapes(path: str) -> str:
    """Return the path with the kernel's escapes for space, tab, newline and backslash decoded."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path
