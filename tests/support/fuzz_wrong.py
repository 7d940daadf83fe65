"""Readers with the faults that the fuzz is there to find."""

from __future__ import annotations

import os
import time

from tests.support.fuzz import Reader

WRONG = b"\xde\xad"


def readers() -> list[Reader]:
    """One of each fault; each takes any other input."""
    return [
        Reader("raises", [b"x", WRONG + b" and more"], _raises),
        Reader("is slow", [b"x", WRONG], _is_slow),
        Reader("waits", [b"x", WRONG], _waits),
        Reader("takes memory", [b"x", WRONG], _takes_memory),
        Reader("kills", [b"x", WRONG], _kills),
        Reader("refuses", [b"x", WRONG], _refuses, (ValueError,)),
    ]


def _raises(data: bytes) -> None:
    if WRONG in data:
        raise KeyError("nobody declared this")


def _is_slow(data: bytes) -> None:
    began = time.process_time()
    while data == WRONG and time.process_time() - began < 1.2:
        pass


def _waits(data: bytes) -> None:
    if data == WRONG:
        read, _ = os.pipe()
        os.read(read, 1)


def _takes_memory(data: bytes) -> int:
    return len(b"x" * (300 << 20)) if data == WRONG else 0


def _kills(data: bytes) -> None:
    if data == WRONG:
        os.abort()


def _refuses(data: bytes) -> None:
    if data == WRONG:
        raise ValueError("as it said")
