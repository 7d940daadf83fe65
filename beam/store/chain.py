"""The hash chain over the lines of a segment: each line ends with a hash that covers the line itself and the previous
hash.

`hash` is BLAKE2b of 8 bytes, in hex. It covers the previous hash (nothing for the first line), every byte between the
previous hash's line and this line, and this line without `,"hash":"..."}`. A line that was changed does not fit its own
hash. If a line was removed, or inserted without a hash, the hash of the next line does not fit. A line that a crash cut
short has no hash; the next hash covers it. The chain detects damage. It is not a signature, because
whoever can write the file can also write new hashes. Does not depend on the meaning of the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from beam.base import files
from beam.base.digest import blake2b

_MARK, _END = b',"hash":"', b'"}'
_DIGITS = 16
_SEAL = re.compile(rb',"hash":"([0-9a-f]{16})"}\Z')
_SEAL_AND_NEWLINE = re.compile(rb',"hash":"([0-9a-f]{16})"}\n')
_SEAL_BYTES = len(_MARK) + _DIGITS + len(_END)
_FIRST_READ_BYTES = 64 * 1024  # read from the end of a segment first, to find its last hash


class Chain:
    """The end of the hash chain as its writer has it: `last` is the last hash written, "" if there is none yet."""

    def __init__(self, last: str = "") -> None:
        self.last = last
        self._new = blake2b
        self._rest = self._new(last.encode(), digest_size=_DIGITS // 2)

    @classmethod
    def read_end(cls, path: Path, size: int) -> Chain:
        """Return the chain at the end of the segment file at `path`, which has `size` bytes.

        If the segment's lines have hashes, only the end of the file is read.
        """
        look = _FIRST_READ_BYTES
        while True:
            begin = max(0, size - look)
            data = b"".join(files.read_pieces(path, begin))
            at = data.rfind(_MARK)
            while at >= 0 and not (found := _SEAL_AND_NEWLINE.match(data, at)):
                at = data.rfind(_MARK, 0, at)
            if at >= 0 and found is not None:
                chain = cls(found[1].decode())
                chain._rest.update(data[found.end() :])
                return chain
            if begin == 0:
                chain = cls()
                chain._rest.update(data)
                return chain
            look *= 8

    def seal(self, line: bytes) -> bytes:
        """Return the line with its hash added. The line is a JSON object and ends with a newline."""
        body = line[:-2]
        self._rest.update(body)
        self.last = self._rest.hexdigest()
        self._rest = self._new(self.last.encode(), digest_size=_DIGITS // 2)
        return b'%b,"hash":"%b"}\n' % (body, self.last.encode())


class HashMismatch(Struct, frozen=True):
    """A line whose hash does not fit. Either this line is damaged, or one of the lines without a hash before it, from
    line `since` on.

    Lines are counted from 1; `begin` is the offset of the line in bytes.
    """

    line: int
    since: int
    begin: int


class ChainCheck:
    """Checks the hash chain of a segment while the segment is read. `last` is the last hash read, "" if there was none
    yet."""

    def __init__(self) -> None:
        self.last = ""
        self._new = blake2b
        self._hash = self._new(digest_size=_DIGITS // 2)
        self._held = b""  # the end of the line so far, which may be its hash
        self._line = self._since = 1
        self._line_begin = self._position = 0

    def feed(self, pieces: Iterable[bytes]) -> Iterator[HashMismatch]:
        """Yield each line whose hash does not fit, in order. `pieces` are the next bytes of the segment, split
        anywhere."""
        for piece in pieces:
            *ends, begin = piece.split(b"\n")
            for end in ends:
                self._add(end)
                wrong = self._end_line()
                if wrong is not None:
                    yield wrong
            self._add(begin)

    def _add(self, data: bytes) -> None:
        self._position += len(data)
        held = self._held + data
        self._hash.update(held[:-_SEAL_BYTES])
        self._held = held[-_SEAL_BYTES:]

    def _end_line(self) -> HashMismatch | None:
        found = _SEAL.match(self._held)
        wrong = None
        if found is None:
            self._hash.update(self._held + b"\n")
        else:
            said = found[1].decode()
            if self._hash.hexdigest() != said:
                wrong = HashMismatch(self._line, self._since, self._line_begin)
            self.last = said
            self._hash = self._new(said.encode(), digest_size=_DIGITS // 2)
            self._since = self._line + 1
        self._held = b""
        self._line += 1
        self._position += 1
        self._line_begin = self._position
        return wrong
