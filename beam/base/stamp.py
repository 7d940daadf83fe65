"""Tells whether a file or directory changed, without reading it."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[int, ...] | None


def stamp_of(path: Path) -> Stamp:
    """Return a stamp that differs after a change of the file, the directory, or its permissions; None if the path does
    not exist or can't be examined."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid
