"""Recordings of agent CLIs: one process each, as it was started, what it wrote, and how it ended.

A loader an adapter makes `Recorded` values of its files; here is what is done with them, the same for every adapter.
The files are as they were recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import UNSET, Struct

from beam.agents.base import Decoder, ErrorReader, Exit, Turn, Verdict
from beam.model import events
from beam.process.pipes import LineSplitter

Decode = Callable[[Turn], Decoder]


class Recorded(Struct, frozen=True, kw_only=True):
    """One process. `exit.stderr_tail` is all that it wrote to stderr; `answered` are the asks that a person decided."""

    name: str
    turn: Turn
    stdout: bytes
    exit: Exit
    answered: tuple[str, ...] = ()


def decode(make: Decode, recorded: Recorded, chunks: list[bytes]) -> tuple[list[events.Event], Verdict]:
    """The events and the verdict, stdout fed in these chunks, then stderr line by line where the decoder reads it."""
    decoder, lines = make(recorded.turn), LineSplitter(1 << 30)
    for ask_id in recorded.answered:
        decoder.on_decided(ask_id, "person")  # type: ignore[attr-defined]
    found: list[events.Event] = []
    for chunk in chunks:
        for line in lines.feed(chunk):
            found += decoder.line(line)
    for line in lines.end():
        found += decoder.line(line)
    if isinstance(decoder, ErrorReader):
        for line in recorded.exit.stderr_tail.splitlines():
            found += decoder.error_line(line.encode())
    last, verdict = decoder.end(recorded.exit)
    return [*found, *last], verdict


def check(make: Decode, recorded: Recorded) -> None:
    """It is the same whole, byte by byte and in growing chunks, and nothing of it is unknown."""
    data = recorded.stdout
    found = decode(make, recorded, [data])
    growing, position, size = [], 0, 1
    while position < len(data):
        growing.append(data[position : position + size])
        position, size = position + size, size + 1
    assert decode(make, recorded, [data[n : n + 1] for n in range(len(data))]) == found, recorded.name
    assert decode(make, recorded, growing) == found, recorded.name
    assert [event for event in found[0] if isinstance(event, events.Unknown)] == [], recorded.name
    raws = [event.raw for event in found[0] if getattr(event, "raw", UNSET) is not UNSET]  # type: ignore[attr-defined]
    assert Counter(raws) <= Counter(data.decode().split("\n")), "each line is kept at most once"
    assert not any(isinstance(event, events.TextDelta) and hasattr(event, "raw") for event in found[0])
