"""What it costs to publish a message durably, alone, in a batch and by many at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from beam.base.clock import SystemClock
from beam.model.message import Message, Payload, encode, new_id
from beam.model.settings import Limits
from beam.root.discovery import create
from beam.root.paths import AgentPaths, RootPaths
from beam.store.journal import Journal
from beam.store.queue import Queue
from bench.measure import Bench, Figure, Series, in_turns

_CLOCK = SystemClock()
_ROUND = 20  # puts a sample; the queue is emptied after each, as it is where messages are answered
_BATCH = 1000
_WRITERS = 8
_TEXT = "Please look at the failing test in tests/test_order.py and say what is wrong. " * 4


def message() -> Message:
    """A message of an ordinary size, about 700 bytes as a file."""
    now = _CLOCK.now_ns()
    return Message(
        id=new_id("worker", now, os.urandom(4)),
        timestamp="2026-01-01T00:00:00.000000Z",
        sender="user",
        to="worker",
        thread="worker-1m7zzzzzzzz2ab9",
        payload=Payload(text=_TEXT),
    )


def put(bench: Bench) -> list[Figure]:
    """Durable puts a second, over a bare write + fsync + rename + fsync of the same bytes; two other queues beside."""
    place = _place(bench, "put")
    queue, limits = Queue(place.queue, place.put_lock), Limits(waiting=10 * _BATCH)
    bare_folder = bench.folder("put-bare")
    for box in ("tmp", "new"):
        (bare_folder / box).mkdir()
    others = _others(bench)
    one, bare, *rates = in_turns(
        bench.times(60),
        lambda: _rate(_ROUND, lambda: queue.put(message(), _CLOCK, limits), _emptied(place.queue / "new")),
        lambda: _rate(_ROUND, lambda: _bare_put(bare_folder), _emptied(bare_folder / "new")),
        *(other for _, other in others),
    )
    batch, bare_batch = in_turns(
        bench.times(10),
        lambda: _batch_rate(queue, limits, _emptied(place.queue / "new")),
        lambda: _rate(_BATCH, lambda: _bare_put(bare_folder), _emptied(bare_folder / "new")),
    )
    baseline = "a bare write + fsync + rename + fsync"
    beside = [
        Figure("a put of another queue", Series(what, rate), "puts/s", Series(baseline, bare))
        for (what, _), rate in zip(others, rates, strict=True)
    ]
    return [
        Figure("durable put", Series("Queue.put", one), "puts/s", Series(baseline, bare), at_least=0.8),
        Figure(
            "durable put, 1,000 at once",
            Series("Queue.put_all", batch),
            "puts/s",
            Series(baseline, bare_batch),
            at_least=1.5,
        ),
        *beside,
    ]


def _others(bench: Bench) -> list[tuple[str, Callable[[], float]]]:
    try:
        import persistqueue
        from dirq.QueueSimple import QueueSimple
    except ImportError:
        sys.stderr.write("dirq and persist-queue are not installed, they are left out: pip install '.[bench]'\n")
        return []
    data = encode(message())
    simple = QueueSimple(str(bench.folder("dirq")))
    files = persistqueue.Queue(str(bench.folder("persist-queue")))
    table = persistqueue.FIFOSQLiteQueue(str(bench.folder("persist-queue-sqlite")), auto_commit=True)
    return [
        ("dirq: QueueSimple.add (syncs nothing)", lambda: _rate(_ROUND, lambda: simple.add(data))),
        (
            "persist-queue: Queue.put (syncs once a chunk)",
            lambda: _rate(_ROUND, lambda: files.put(data)),
        ),
        ("persist-queue: FIFOSQLiteQueue.put (SQLite, WAL)", lambda: _rate(_ROUND, lambda: table.put(data))),
    ]


def writers(bench: Bench) -> list[Figure]:
    """Eight processes put to one agent at once: puts a second in all, over one process alone; the order is checked."""
    each = bench.times(200)

    def rate(count: int, name: str) -> float:
        place = _place(bench, name)
        program = (
            f"from bench.rows_store import write_many; write_many({str(place.queue)!r}, {str(place.put_lock)!r}, %d)"
        )
        began = time.perf_counter()
        running = [subprocess.Popen([sys.executable, "-c", program % each]) for _ in range(count)]
        assert not any(process.wait() for process in running)
        took = time.perf_counter() - began
        _check_order(place.queue, count * each)
        return count * each / took

    numbers = iter(range(1_000_000))
    eight, alone = in_turns(
        bench.times(5), lambda: rate(_WRITERS, f"writers-{next(numbers)}"), lambda: rate(1, f"writers-{next(numbers)}")
    )
    return [
        Figure(
            "8 writers on one agent, strict order",
            Series("8 processes, start included", eight),
            "puts/s",
            Series("1 process, start included", alone),
        )
    ]


def write_many(queue: str, put_lock: str, count: int) -> None:
    """What one writer does: puts that many messages, and checks that its own lie in the order in which it put them."""
    target, limits = Queue(Path(queue), Path(put_lock)), Limits(waiting=1_000_000)
    mine = []
    for _ in range(count):
        mine.append(message())
        target.put(mine[-1], _CLOCK, limits)
    order = {entry.id: position for position, entry in enumerate(target.entries("new"))}
    places = [order[sent.id] for sent in mine]
    assert places == sorted(places), "a writer's messages changed places"


def _check_order(queue: Path, count: int) -> None:
    positions = [entry.position for entry in Queue(queue, queue).entries("new")]
    assert len(positions) == len(set(positions)) == count, "a message is missing, or two have one place"


def append(bench: Bench) -> list[Figure]:
    """Journal appends, over writing the same line with one `write` (and fsync): stamped, redacted, encoded, folded."""
    from beam.model import events

    place = _place(bench, "append")
    journal = Journal.open(place.journal, "worker", _CLOCK, Limits())
    body = events.TextDelta(text="some twenty characters")
    line = events.encode(journal.append(body, turn=1, message_id="worker-1m7zzzzzzzz2ab9")) + b"\n"
    handle = os.open(bench.folder("append-bare") / "file", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def synced() -> None:
        os.write(handle, line)
        os.fsync(handle)

    def add(*, sync: bool) -> None:
        journal.append(body, turn=1, message_id="worker-1m7zzzzzzzz2ab9", sync=sync)

    plain, bare, sync, bare_sync = in_turns(
        bench.times(20),
        lambda: _rate(1000, lambda: add(sync=False)),
        lambda: _rate(1000, lambda: os.write(handle, line)),
        lambda: _rate(_ROUND, lambda: add(sync=True)),
        lambda: _rate(_ROUND, synced),
    )
    journal.close()
    os.close(handle)
    return [
        Figure("journal append", Series("Journal.append", plain), "events/s", Series("os.write", bare)),
        Figure(
            "journal append, on disk",
            Series("Journal.append(sync=True)", sync),
            "events/s",
            Series("write + fsync", bare_sync),
        ),
    ]


def _place(bench: Bench, name: str) -> AgentPaths:
    folder = bench.folder(name)
    (folder / "project").mkdir()
    home = RootPaths(folder / "root", folder / "project")
    place = home.agent("worker")
    create(home, place)
    return place


def _emptied(folder: Path) -> Callable[[], None]:
    def empty() -> None:
        for path in folder.iterdir():
            path.unlink()

    return empty


def _rate(count: int, step: Callable[[], object], after: Callable[[], None] = lambda: None) -> float:
    began = time.perf_counter()
    for _ in range(count):
        step()
    rate = count / (time.perf_counter() - began)
    after()
    return rate


def _batch_rate(queue: Queue, limits: Limits, after: Callable[[], None]) -> float:
    began = time.perf_counter()
    queue.put_all([message() for _ in range(_BATCH)], _CLOCK, limits)
    rate = _BATCH / (time.perf_counter() - began)
    after()
    return rate


def _bare_put(folder: Path) -> None:
    data = encode(message())
    name = os.urandom(8).hex()
    temporary, final = folder / "tmp" / name, folder / "new" / name
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(handle, data)
    os.fsync(handle)
    os.close(handle)
    temporary.rename(final)
    handle = os.open(final.parent, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
