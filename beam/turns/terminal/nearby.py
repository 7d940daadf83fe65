"""A short path for a directory: the path of a socket may have at most 107 bytes, and a root's path may be longer."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from beam.base import files

_OWN_DESCRIPTORS = Path("/proc/self/fd")


@contextlib.contextmanager
def short_path(directory: Path) -> Iterator[Path]:
    """Yield a short path of the directory if the system has one (in /proc/self/fd), otherwise its ordinary path."""
    handle = files.open_directory(directory)
    try:
        yield _OWN_DESCRIPTORS / str(handle) if _OWN_DESCRIPTORS.is_dir() else directory
    finally:
        os.close(handle)
