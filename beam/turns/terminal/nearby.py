"""A short name for a directory: the name of a socket may have 107 bytes, and a root may lie deep."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from beam.base import files

_OWN = Path("/proc/self/fd")


@contextlib.contextmanager
def near(directory: Path) -> Iterator[Path]:
    """Yield a short name of the directory where the system has such names, otherwise the directory's own."""
    handle = files.open_directory(directory)
    try:
        yield _OWN / str(handle) if _OWN.is_dir() else directory
    finally:
        os.close(handle)
