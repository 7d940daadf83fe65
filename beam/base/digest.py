"""Digest functions without OpenSSL. `hashlib` would first load OpenSSL (7 ms of CPU, 3 MB), although OpenSSL is no
faster for a few kilobytes."""

from __future__ import annotations

import sys
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
