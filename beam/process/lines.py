"""Splits a stream of bytes into complete lines. The bytes come in chunks of any size.

Pure; does not depend on where the bytes come from.
"""

from __future__ import annotations


class Piece(bytes):
    """A part of a line that goes on."""


class LineSplitter:
    """Splits a stream at each newline byte. The lines do not depend on how the stream is divided into chunks.

    With `piece_bytes`, a line that has no end yet is returned as soon as it has this many bytes, as a `Piece`; what
    follows may be further pieces, and then the rest of the line.

    A line longer than `limit` bytes is cut off: its first `limit` bytes are returned as soon as the limit is passed,
    and the rest of the line is dropped. Each byte is copied a fixed number of times, however long the line is.
    """

    def __init__(self, limit: int, *, piece_bytes: int = 0) -> None:
        self._limit = limit
        self._piece_bytes = piece_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._returned = 0  # bytes of the line that were returned as pieces
        self._dropping = False
        self.cut = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their newlines; also a line that this chunk makes too
        long.

        `cut` is the number of lines that were cut off so far.
        """
        lines: list[bytes] = []
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._add(piece, lines)
            if not self._dropping:
                lines.append(b"".join(self._parts))
            self._reset()
        if rest:
            self._add(rest, lines)
            if self._piece_bytes and not self._dropping and self._size - self._returned >= self._piece_bytes:
                lines.append(Piece(b"".join(self._parts)))
                self._parts.clear()
                self._returned = self._size
        return lines

    def end(self) -> list[bytes]:
        """Return the last line, if the stream did not end with a newline."""
        lines = [b"".join(self._parts)] if self._size and not self._dropping else []
        self._reset()
        return lines

    def _add(self, piece: bytes, lines: list[bytes]) -> None:
        if self._dropping:
            return
        room = self._limit - self._size
        self._parts.append(piece if len(piece) <= room else piece[:room])
        self._size += len(piece)
        if len(piece) > room:
            lines.append(b"".join(self._parts))
            self._parts.clear()
            self._dropping = True
            self.cut += 1

    def _reset(self) -> None:
        self._parts.clear()
        self._size = self._returned = 0
        self._dropping = False


class Tail:
    """Keeps the last `count` lines of a stream, and at most `limit` bytes of them."""

    def __init__(self, count: int, *, limit: int = 256 * 1024) -> None:
        self._count = count
        self._limit = limit
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Add bytes, and drop the oldest bytes beyond the limit."""
        self._kept += chunk[-self._limit :]
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def text(self) -> str:
        """Return the kept lines; invalid UTF-8 becomes U+FFFD."""
        lines = bytes(self._kept[-self._limit :]).splitlines(keepends=True)
        return b"".join(lines[-self._count :] if self._count else []).decode("utf-8", "replace")
