"""Reads a compressed session file, with limits on what it unfolds to.

The module `zstandard` is an extra, and is imported only for such a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from beam.base import files
from beam.base.errors import DiskError
from beam.foreign.unreadable import UnreadableError

SUFFIX = ".zst"
MAX_UNFOLDED = 512 << 20  # bytes
MAX_WINDOW = 32 << 20  # bytes that the decoder may keep
_PACKED = 512  # bytes that are unfolded at once, to 16 MiB at most: a block of 4 bytes can hold 128 KiB


def pieces(path: str, most: int = MAX_UNFOLDED) -> Iterator[bytes]:
    """Yield the first `most` bytes of the content of a regular file of this user, in pieces.

    Raises UnreadableError if `zstandard` is not installed, if the file is damaged, or if it unfolds to more than
    `MAX_UNFOLDED` bytes.
    """
    try:
        import zstandard
    except ImportError:
        raise UnreadableError("compressed with zstd; to read it: pip install 'beam-agents[zstd]'") from None
    left = min(most, MAX_UNFOLDED)
    try:
        with files.open_reader(path) as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                raise UnreadableError("a file of another user")
            decoder = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
            frame = decoder.decompressobj()
            while packed := file.read(_PACKED):
                while packed and left:
                    frame = decoder.decompressobj() if frame.eof else frame
                    data = frame.decompress(packed)[:left]
                    packed = frame.unused_data if frame.eof else b""
                    left -= len(data)
                    if data:
                        yield data
                if not left:
                    break
            if not left and most >= MAX_UNFOLDED:
                raise UnreadableError(f"what is behind the first {MAX_UNFOLDED >> 20} MiB of a compressed file")
            if left and not frame.eof:
                raise UnreadableError("a compressed file without its end")
    except zstandard.ZstdError:
        raise UnreadableError("damaged zstd") from None
    except (OSError, DiskError):
        raise UnreadableError("a file that can't be opened") from None
