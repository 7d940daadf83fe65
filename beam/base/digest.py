"""Tells whether content is the same: digest functions, and stamps of files that are not read.

The digests do without OpenSSL. `hashlib` would first load OpenSSL (7 ms of CPU, 3 MB), although OpenSSL is no faster
for a few kilobytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
else:
    try:
        from _blake2 import blake2b

        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:  # a Python without digests of its own
        from hashlib import blake2b, sha256

__all__ = ["blake2b", "sha256"]


Stamp = tuple[int, ...] | None


def stamp_of(path: Path) -> Stamp:
    """Return a stamp that differs after a change of the file, the directory, or its permissions; None if the path does
    not exist or can't be examined."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid
