"""Reads from a git index which folders of the work tree are repositories of their own (submodules), because `git
status` looks into each of them.

Does not depend on the configuration of these repositories, or on whether anything is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_GITLINK = 0o160000
_GITLINK_BYTES = b"\0\0\xe0\0"  # the bytes of this mode in an entry
_HASH_SIZES = (20, 32)  # bytes of an object's name: SHA-1, SHA-256
_HASH_OFFSET = 40
_EXTENDED = 0x4000
_NUL = re.compile(b"\0")


def submodules(data: bytes) -> list[str]:
    """Return the paths of the submodules in the bytes of a git index, as git stores them.

    Raises ValueError if `data` is not an index. An index without submodules is recognised quickly, because the file
    mode of a submodule does not occur in it.
    """
    if data[:4] != b"DIRC" or len(data) < 12:
        raise ValueError("it is no index")
    if _GITLINK_BYTES not in data:
        return []
    found: dict[bytes, None] = {}
    is_read = False
    for size in _HASH_SIZES:  # the repository uses one of them; if both can be read, both results count
        try:
            found |= {name: None for mode, name in list(_entries(data, size)) if mode == _GITLINK}
        except (ValueError, IndexError):
            continue
        is_read = True
    if not is_read:
        raise ValueError("its entries can't be read")
    return [name.decode(errors="surrogateescape") for name in found]


def _entries(data: bytes, hash_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the mode and the path of each entry; `hash_bytes` is the size of an object's name. Raises ValueError or
    IndexError if the entries can't be read with that size."""
    version, count = (int.from_bytes(data[at : at + 4], "big") for at in (4, 8))
    if version not in (2, 3, 4):
        raise ValueError("an unknown version")
    at, name = 12, b""
    for _ in range(count):
        begin, flags_at = at, at + _HASH_OFFSET + hash_bytes
        mode = int.from_bytes(data[begin + 24 : begin + 28], "big")
        if mode >> 12 not in (0o4, 0o10, 0o12, 0o16):
            raise ValueError("no mode of an entry")
        at = flags_at + (4 if int.from_bytes(data[flags_at : flags_at + 2], "big") & _EXTENDED else 2)
        kept = 0
        if version == 4:
            gone, at = _read_number(data, at)
            kept = len(name) - gone
            if kept < 0:
                raise ValueError("no path")
        end = _NUL.search(data, at)
        if end is None:
            raise ValueError("a path without an end")
        name = name[:kept] + data[at : end.start()]
        at = end.end() if version == 4 else begin + (end.start() - begin + 8) // 8 * 8
        if not name:
            raise ValueError("an empty path")
        yield mode, name
    while at < len(data) - hash_bytes:  # its extensions: a name and a size before each
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
    if at != len(data) - hash_bytes:
        raise ValueError("something after its entries")


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length number at the position `at`, and the position after that number."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
