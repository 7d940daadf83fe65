"""What it costs to read: events of journals, a large agent, an agent's own output, the live view."""

from __future__ import annotations

import contextlib
import gc
import json
import select
import subprocess
import time
from pathlib import Path

from msgspec import structs

from beam.base.clock import SystemClock
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status, Usage
from beam.model.settings import Limits
from beam.model.state import State, apply
from beam.root.discovery import create
from beam.store.journal import Journal, LineDecoder, read_state
from beam.store.search_index import SearchIndex
from bench.measure import Bench, Figure, Series, in_turns, run
from bench.place import BEAM, Project, until

_CLOCK = SystemClock()
_RECORDINGS = Path(__file__).parents[1] / "tests" / "recordings" / "claude"
_DELTAS = 40  # of a turn; with the rest of it, 50 events


def turn(number: int) -> list[tuple[Event, str | None]]:
    """The bodies of one ordinary turn, and the message that each belongs to."""
    message_id = f"worker-{number:015d}"
    owner = events.Owner(pid=4711, start_ticks=12345, boot_id="5f1c", pid_namespace="4026531836", host="here")
    bodies: list[Event] = [
        events.MessageQueued(sender="user", text="Please look at it. " * 4, thread=message_id, digest="d" * 64),
        events.MessageClaimed(),
        events.TurnStarted(attempt=1, owner=owner, turn_key=f"{number:016x}", adapter="claude", via="exec"),
        events.PromptSent(bytes=80),
        events.ToolCalled(call_id=f"call-{number}", name="Read"),
        *(events.TextDelta(text="some twenty characters") for _ in range(_DELTAS)),
        events.ToolReturned(call_id=f"call-{number}"),
        events.Text(text="some twenty characters " * _DELTAS),
        events.UsageSeen(usage=Usage(input_tokens=1000, output_tokens=400)),
        events.TurnFinished(attempt=1, status=Status.COMPLETED, reply="some twenty characters " * _DELTAS),
        events.TurnClosed(attempt=1),
    ]
    return [(body, message_id) for body in bodies]


def decode_fold(bench: Bench) -> list[Figure]:
    """Lines of a journal to events to the state, over `json.loads` of the same lines."""
    lines = b"".join(
        events.encode(
            structs.replace(body, seq=seq, ts="2026-01-01T00:00:00.000000Z", agent="worker", turn=1, message_id=id)
        )
        + b"\n"
        for seq, (body, id) in enumerate((each for number in range(400) for each in turn(number)), 1)
    )
    count = lines.count(b"\n")

    def ours() -> float:
        state = State(agent="worker")
        began = time.process_time()
        for event in LineDecoder(Path("journal")).feed(lines, 0):
            apply(state, event)
        assert state.seq == count
        return count / (time.process_time() - began)

    def plain() -> float:
        began = time.process_time()
        for line in lines.splitlines():
            json.loads(line)
        return count / (time.process_time() - began)

    mine, theirs = in_turns(bench.times(25), ours, plain)
    this = Series("Lines.feed + apply, CPU time", mine)
    return [
        Figure("decode + fold", this, "events/s", at_least=300_000),
        Figure("decode + fold", this, "events/s", Series("json.loads", theirs)),
    ]


def million(bench: Bench) -> list[Figure]:
    """An agent with a million events (100,000 with --quick): opened by its next holder, and by a cold `beam status`."""
    wanted = 100_000 if bench.quick else 1_000_000
    project = Project(bench, "million", "agents:\n  worker:\n    command: [cat]\n")
    home = project.place
    place = home.agent("worker")
    create(home, place)
    limits = Limits()
    journal = Journal.open(place.journal, "worker", _CLOCK, limits)
    began, number = time.perf_counter(), 0
    while journal.state.seq < wanted:
        number += 1
        for body, message_id in turn(number):
            journal.append(body, turn=number, message_id=message_id)
        journal.rotate_if_due()
    journal.close()
    seconds = time.perf_counter() - began

    def opened() -> float:
        began = time.perf_counter()
        Journal.open(place.journal, "worker", _CLOCK, limits).close()
        took = time.perf_counter() - began
        gc.collect()
        return took * 1000

    def read() -> float:
        began = time.perf_counter()
        assert read_state(place.journal).seq >= wanted
        took = time.perf_counter() - began
        gc.collect()
        return took * 1000

    def status() -> float:
        return run((*BEAM, "status"), env=project.env, cwd=project.cwd).wall_ms

    open_ms, read_ms, status_ms = in_turns(bench.times(15), opened, read, status)
    with contextlib.closing(SearchIndex(home.search)) as index:
        began = time.perf_counter()
        index.update({"worker": place.journal})
        indexed_s = time.perf_counter() - began

    def search() -> float:
        return run((*BEAM, "search", "twenty", "-n", "20"), env=project.env, cwd=project.cwd).wall_ms

    def look_up() -> float:
        with contextlib.closing(SearchIndex(home.search)) as index:
            began = time.perf_counter()
            index.update({"worker": place.journal})
            assert index.find("twenty", limit=20)
            return (time.perf_counter() - began) * 1000

    look_up_ms, search_ms = in_turns(bench.times(15), look_up, search)
    sizes = [path.stat().st_size for path in sorted(place.journal.iterdir())]
    newest = sizes[-1] / 1e6
    note = (
        f"{wanted:,} events, {number:,} turns, {len(sizes)} segments, newest {newest:.1f} MB, built in {seconds:.0f} s"
    )
    return [
        Figure("a 1,000,000-event agent opens", Series("Journal.open", open_ms), "ms", at_most=300, note=note),
        Figure("a 1,000,000-event agent is read", Series("read_state", read_ms), "ms"),
        Figure("a 1,000,000-event agent, cold", Series("beam status", status_ms), "ms"),
        Figure(
            "1,000,000 events are searched",
            Series("SearchIndex", look_up_ms),
            "ms",
            at_most=100,
            note=f"the index was built in {indexed_s:.0f} s, {home.search.stat().st_size / 1e6:.0f} MB",
        ),
        Figure("1,000,000 events are searched, cold", Series("beam search", search_ms), "ms"),
    ]


def claude_output(bench: Bench) -> list[Figure]:
    """Claude Code's recorded output to events, over `json.loads` of the same lines."""
    from beam.agents.base import Turn
    from beam.agents.claude import exec

    recordings = [path.read_bytes() for path in sorted(_RECORDINGS.rglob("*.out"))]
    streams = [[line for line in data.splitlines() if line.startswith(b"{")] for data in recordings]
    size = sum(len(line) for lines in streams for line in lines) / 1e6
    asked = Turn(text="hi", message_id="worker-1m7zzzzzzzz2ab9", agent="worker", access="read", cwd="/", scratch="/")
    again = max(1, int(1 / size))

    def ours() -> float:
        began = time.process_time()
        for _ in range(again):
            for lines in streams:
                decoder = exec.decoder(asked)
                for line in lines:
                    decoder.line(line)
        return again * size / (time.process_time() - began)

    def plain() -> float:
        began = time.process_time()
        for _ in range(again):
            for lines in streams:
                for line in lines:
                    json.loads(line)
        return again * size / (time.process_time() - began)

    mine, theirs = in_turns(bench.times(15), ours, plain)
    note = f"{len(streams)} recordings, {size:.2f} MB"
    return [
        Figure(
            "claude's output decoded",
            Series("decoder.line, CPU time", mine),
            "MB/s",
            Series("json.loads", theirs),
            note=note,
        )
    ]


def watch(bench: Bench) -> list[Figure]:
    """From the append of an event to its line, printed by a real `beam watch --json`."""
    project = Project(bench, "watch", "agents:\n  worker:\n    command: [cat]\n")
    home = project.place
    place = home.agent("worker")
    create(home, place)
    journal = Journal.open(place.journal, "worker", _CLOCK, Limits())
    running = subprocess.Popen(
        [*BEAM, "watch", "--json"], env=project.env, cwd=project.cwd, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert running.stdout
    try:
        _until_watching(journal, running)
        found = []
        for number in range(bench.times(50)):
            time.sleep(0.02)
            began = time.perf_counter()
            journal.append(events.Notice(code="bench", text=f"<{number}>"))
            while f"<{number}>".encode() not in running.stdout.readline():
                pass
            found.append((time.perf_counter() - began) * 1000)
    finally:
        running.terminate()
        running.wait()
        journal.close()
    return [Figure("watch: written -> printed", Series("beam watch --json", tuple(found)), "ms", at_most=50)]


def _until_watching(journal: Journal, running: subprocess.Popen[bytes]) -> None:
    out = running.stdout
    assert out

    def told() -> bool:
        journal.append(events.Notice(code="bench", text="ready?"))
        return bool(select.select([out], [], [], 0.2)[0])

    until(told, "beam watch's first line")
    time.sleep(1.5)
    while select.select([out], [], [], 0)[0]:
        out.readline()
