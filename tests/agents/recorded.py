"""Recordings of agent CLIs: one process each, as it was started, what it wrote, and how it ended.

A loader an adapter makes `Recorded` values of its files; here is what is done with them, the same for every adapter.
The files are as they were recorded. `BEAM_WRITE_EXPECTED=1` writes the expectations anew: read the difference.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct

from beam.agents.base import Decoder, ErrorReader, Exit, Turn, Verdict
from beam.model import events
from beam.process.lines import LineSplitter

Decode = Callable[[Turn], Decoder]


class Recorded(Struct, frozen=True, kw_only=True):
    """One process. `exit.stderr_tail` is all that it wrote to stderr."""

    name: str
    turn: Turn
    stdout: bytes
    exit: Exit


def decode(make: Decode, recorded: Recorded, chunks: list[bytes]) -> tuple[list[events.Event], Verdict]:
    """The events and the verdict, stdout fed in these chunks, then stderr line by line where the decoder reads it."""
    decoder, lines = make(recorded.turn), LineSplitter(1 << 30)
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


def whole(make: Decode, recorded: Recorded) -> str:
    """The listing of a recording that is fed at once."""
    return listing(recorded, *decode(make, recorded, [recorded.stdout]))


def check(make: Decode, recorded: Recorded, expected: Path) -> None:
    """It decodes to its checked-in events, whole, byte by byte and in growing chunks, and nothing of it is unknown."""
    data = recorded.stdout
    found = decode(make, recorded, [data])
    listed = listing(recorded, *found)
    if os.environ.get("BEAM_WRITE_EXPECTED"):
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(listed, "utf-8")
    assert listed == expected.read_text("utf-8")
    growing, position, size = [], 0, 1
    while position < len(data):
        growing.append(data[position : position + size])
        position, size = position + size, size + 1
    assert decode(make, recorded, [data[n : n + 1] for n in range(len(data))]) == found
    assert decode(make, recorded, growing) == found
    assert [event for event in found[0] if isinstance(event, events.Unknown)] == []
    raws = [event.raw for event in found[0] if getattr(event, "raw", UNSET) is not UNSET]  # type: ignore[attr-defined]
    assert Counter(raws) <= Counter(data.decode().split("\n")), "each line is kept at most once"
    assert not any(isinstance(event, events.TextDelta) and hasattr(event, "raw") for event in found[0])


def listing(recorded: Recorded, found: list[events.Event], verdict: Verdict) -> str:
    """The events as JSON Lines, the verdict last. `raw` is shown as the number of the line on stdout that it is."""
    numbers = {line: n for n, line in enumerate(recorded.stdout.decode("utf-8", "replace").split("\n"), 1)}
    shown = []
    for event in found:
        fields = json.loads(events.encode(event))
        for header in ("v", "seq", "ts", "agent", "turn", "message_id"):
            del fields[header]
        if getattr(event, "raw", UNSET) is not UNSET:
            fields["raw"] = numbers[fields["raw"]]
        shown.append(fields)
    said = json.loads(msgspec.json.encode(verdict))
    if not verdict.unfinished:
        del said["unfinished"]
    shown.append({"verdict": said})
    return "".join(json.dumps(fields, ensure_ascii=False) + "\n" for fields in shown)
