"""What it costs to have an agent's process guarded and its output kept."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from beam.process import guard, landlock, spawn
from beam.process.confinement import Confinement
from bench.measure import Bench, Figure, Series, in_turns, run

_ENV = {"PATH": os.environ["PATH"]}


def guard_cost(bench: Bench) -> list[Figure]:
    """The guard of one agent process: its CPU from start to end, its memory while it waits."""
    folder = bench.folder("guard")
    cpu = []
    for alone, guarded in zip(
        *in_turns(bench.times(25), lambda: run(["true"], env=_ENV, cwd=folder).cpu_ms, _guarded_cpu), strict=True
    ):
        cpu.append(guarded - alone)
    memory = in_turns(bench.times(10), _private_mb)[0]
    return [
        Figure("guard, CPU", Series("guard of `true`, less `true`", tuple(cpu)), "ms", at_most=35),
        Figure("guard, private memory", Series("guard of `sleep`", memory), "MB", at_most=4),
    ]


def confined(bench: Bench) -> list[Figure]:
    """The same agent process kept from beam's own files by Landlock, in a home with 150 entries on the way to them."""
    if landlock.abi() == 0:
        return []
    home = bench.folder("confined")
    for number in range(150):
        (home / (".config/" if number % 3 == 0 else "") / f"entry-{number}").mkdir(parents=True)
    (home / ".local/state/beam").mkdir(parents=True)
    places = Confinement(protected=(str(home / ".local/state/beam"), str(home / ".config/beam")))
    samples, plain = in_turns(bench.times(25), lambda: _guarded_cpu(places.encoded), _guarded_cpu)
    confined, guarded = Series("guard of `true`, confined", samples), Series("guard of `true`", plain)
    return [Figure("confined start, CPU", confined, "ms", guarded, at_most=1.35)]


def _guarded_cpu(confined: bytes = b"") -> float:
    process, lifeline, status = _guarded(["true"], confined)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    os.close(lifeline)
    os.close(status)
    return (usage.ru_utime + usage.ru_stime) * 1000


def _private_mb() -> float:
    process, lifeline, status = _guarded(["sleep", "600"])
    try:
        assert os.read(status, 100).startswith(b"held")
        time.sleep(0.05)  # until it waits
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_")) / 1024
    finally:
        os.close(lifeline)
        os.close(status)
        process.wait()


def _guarded(argv: list[str], confined: bytes = b"") -> tuple[subprocess.Popen[bytes], int, int]:
    """A guard whose agent was let go: its process, and the holder's ends of its lifeline and its status."""
    lifeline, holder = os.pipe()
    said, status = os.pipe()
    words = guard.encode_instructions(
        [word.encode() for word in argv],
        lifeline=lifeline,
        status=status,
        holder=os.getpid(),
        marker=b"BEAM_TURN_b",
        grace=0,
        confined=confined,
    )
    with tempfile.TemporaryFile(buffering=0) as told:
        told.write(words)
        process = subprocess.Popen(
            guard.command(told.fileno()),
            executable=sys.executable,
            pass_fds=(lifeline, status, told.fileno()),
            start_new_session=True,
            env=_ENV,
            stdout=subprocess.DEVNULL,
        )
    os.close(lifeline)
    os.close(status)
    os.write(holder, b"go\n")
    return process, holder, said


def stdout_file(bench: Bench) -> list[Figure]:
    """Until beam has an agent's first line: by a private file (for agents that drop what a full pipe won't take) and by
    a pipe; and how long a written line is on its way."""
    folder = bench.folder("stdout")
    by_file, by_pipe = in_turns(
        bench.times(80), lambda: _first_line_ms(stdout_in=folder), lambda: _first_line_ms(stdout_in=None)
    )
    way_file, way_pipe = in_turns(
        bench.times(15), lambda: _on_its_way_ms(stdout_in=folder), lambda: _on_its_way_ms(stdout_in=None)
    )
    later = Series("first line by a file, less by a pipe", tuple(a - b for a, b in zip(by_file, by_pipe, strict=True)))
    return [
        Figure("stdout by a file, first line later by", later, "ms", at_most=2),
        Figure(
            "stdout by a file, line written -> read",
            Series("a line by a file, median of 20", way_file),
            "ms",
            Series("a line by a pipe, median of 20", way_pipe),
        ),
    ]


def _first_line_ms(*, stdout_in: Path | None) -> float:
    async def first() -> float:
        seen: list[float] = []
        began = time.perf_counter()
        child = await spawn.start(
            ["echo", "x"],
            env=_ENV,
            cwd="/",
            turn_key="bench",
            on_line=lambda line: seen.append(time.perf_counter() - began),
            stdout_in=stdout_in,
        )
        child.go()
        await child.wait()
        return seen[0] * 1000

    return asyncio.run(first())


_SAYS_WHEN = """
import time
for _ in range(20):
    time.sleep(0.005)
    print(time.perf_counter(), flush=True)
"""


def _on_its_way_ms(*, stdout_in: Path | None) -> float:
    async def ways() -> float:
        seen: list[float] = []
        on_line: Callable[[bytes], None] = lambda line: seen.append(time.perf_counter() - float(line))  # noqa: E731
        child = await spawn.start(
            [sys.executable, "-I", "-S", "-c", _SAYS_WHEN],
            env=_ENV,
            cwd="/",
            turn_key="bench",
            on_line=on_line,
            stdout_in=stdout_in,
        )
        child.go()
        await child.wait()
        return statistics.median(seen) * 1000

    return asyncio.run(ways())
