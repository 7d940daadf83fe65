"""What `beam board` costs: its first picture, and what it takes while a hundred agents work."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from beam.base.clock import SystemClock
from beam.model import events
from beam.model.settings import Limits
from beam.root.discovery import create
from beam.store.journal import Journal
from bench.measure import Bench, Figure, Series
from bench.place import BEAM, Project, until
from bench.rows_watch import _cpu_s, _rss_mb

_AGENTS = 100
_A_SECOND = 200
_CLOCK = SystemClock()


class _Screen:
    """What a program writes to its terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self.seen = b""
        self.count = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._terminal, 65536)
            except OSError:  # Linux says so when the other end is closed
                return
            self.count += len(data)
            self.seen = (self.seen + data)[-200_000:]


@contextmanager
def _shown(project: Project) -> Iterator[tuple[subprocess.Popen[bytes], _Screen]]:
    """A board on a terminal of 120 columns and 40 lines."""
    terminal, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        [*BEAM, "board"],
        env={**project.env, "TERM": "xterm-256color"},
        cwd=project.cwd,
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
    )
    os.close(other)
    try:
        yield process, _Screen(terminal)
    finally:
        process.terminate()
        process.wait()
        os.close(terminal)


def _first(project: Project) -> tuple[float, float]:
    """How long until the first picture, and until the first row is in it (ms)."""
    began = time.perf_counter()
    with _shown(project) as (_, screen):
        until(lambda: b"WHO" in screen.seen, "the first picture", 30)
        picture = (time.perf_counter() - began) * 1000
        until(lambda: b"worker-" in screen.seen, "the first row", 30)
        return picture, (time.perf_counter() - began) * 1000


def board(bench: Bench) -> list[Figure]:
    """`beam board` on 120 x 40: its first picture, then CPU and memory with 100 agents and 200 events a second."""
    names = [f"worker-{number:03d}" for number in range(_AGENTS)]
    agents = "".join(f"  {name}: {{command: [cat]}}\n" for name in names)
    project = Project(bench, "board", f"agents:\n{agents}")
    journals = []
    for name in names:
        place = project.place.agent(name)
        create(project.place, place)
        journals.append(Journal.open(place.journal, name, _CLOCK, Limits()))
        journals[-1].append(events.Text(text="begun"))
    firsts = [_first(project) for _ in range(bench.times(10))]
    with _shown(project) as (process, screen):
        until(lambda: b"worker-" in screen.seen, "the first row", 30)
        time.sleep(3)
        seconds = 5.0 if bench.quick else 20.0
        began, cpu, written = time.perf_counter(), _cpu_s(process.pid), screen.count
        number = 0
        while (now := time.perf_counter()) - began < seconds:
            while number < (now - began) * _A_SECOND:
                journals[number % _AGENTS].append(events.Text(text=f"event {number} of a hundred agents at work"))
                number += 1
            time.sleep(0.005)
        share = (_cpu_s(process.pid) - cpu) / (time.perf_counter() - began) * 100
        drawn = (screen.count - written) / 1024 / seconds
        until(lambda: f"event {number - 1} ".encode() in screen.seen, "the last event", 10)
        memory = _rss_mb(process.pid)
    for journal in journals:
        journal.close()
    pictures, rows = tuple(picture for picture, _ in firsts), tuple(row for _, row in firsts)
    return [
        Figure("board: first picture", Series("beam board until it drew", pictures), "ms", at_most=600),
        Figure("board: first row, 100 agents", Series("beam board until it names one", rows), "ms"),
        Figure("board: 200 events/s, 100 agents", Series("CPU of one core", (share,)), "%", at_most=10),
        Figure("board: 200 events/s, to the terminal", Series("written by it", (drawn,)), "KiB/s"),
        Figure("board: memory", Series("RSS at the end", (memory,)), "MB", at_most=80),
    ]
