"""What it costs to read the agents' own output: each adapter's decoder, fed the recordings of its CLI."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from beam.agents import registry
from beam.agents.base import Turn
from bench.measure import Bench, Figure, Series, in_turns

_RECORDINGS = Path(__file__).parents[1] / "tests" / "recordings"
_TIMED = re.compile(rb" *\d+\.\d{3} ")
_PLAIN_TEXT = ("aider", "cn")  # their output is the answer itself
_TURN = Turn(text="hi", message_id="worker-1m7zzzzzzzz2ab9", agent="worker", access="read", cwd="/", scratch="/")
AT_LEAST = 50  # MB/s


def decode(bench: Bench) -> list[Figure]:
    """Each adapter's recordings to events: bytes of output in a second of CPU."""
    names = [name for name in registry.ADAPTERS if (_RECORDINGS / name).is_dir()]
    return [decode_one(bench, name) for name in names]


def decode_one(bench: Bench, adapter: str) -> Figure:
    """The recordings of one adapter. The best sample counts: noise of the machine only makes it slower."""
    streams = recorded(adapter)
    size = sum(len(line) + 1 for lines in streams for line in lines) / 1e6
    again = max(1, round(1 / size))
    (samples,) = in_turns(bench.times(40), lambda: _once(adapter, streams, again))
    rate = Series(f"{adapter}: decoder.line, CPU time, the best of {len(samples)}", (again * size / min(samples),))
    note = f"{len(streams)} recordings, {size:.2f} MB, {again} times over"
    return Figure(f"{adapter}'s output decoded", rate, "MB/s", at_least=AT_LEAST, note=note)


def _once(adapter: str, streams: list[list[bytes]], again: int) -> float:
    face = registry.adapter(adapter).exec
    assert face is not None
    took = 0.0
    for _ in range(again):
        readers: list[Callable[[bytes], object]] = [face.decoder(_TURN).line for _ in streams]
        began = time.process_time()
        for read, lines in zip(readers, streams, strict=True):
            for line in lines:
                read(line)
        took += time.process_time() - began
    return took


def recorded(adapter: str) -> list[list[bytes]]:
    """The lines of each recorded output of this adapter's CLI."""
    place = _RECORDINGS / adapter
    streams = [path.read_bytes().splitlines() for path in sorted(place.rglob("*.out"))]
    if not streams:
        return [_untimed(path.read_bytes()) for path in sorted(place.rglob("*.rec"))]
    plain = adapter in _PLAIN_TEXT
    return [[line for line in lines if plain or line.startswith(b"{")] for lines in streams]


def _untimed(data: bytes) -> list[bytes]:
    """What the recording has of stdout, without the time before each line."""
    part = data.partition(b"## stdout\n")[2].partition(b"## stderr")[0]
    lines = (_TIMED.sub(b"", line, count=1) for line in part.splitlines())
    return [line for line in lines if line.startswith(b"{")]
