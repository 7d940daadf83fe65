"""A broker under a steady load for a long time: memory and descriptors stay flat, all is answered, nothing is left.

30 minutes in `make soak`; BEAM_SOAK_SECONDS says otherwise. The ids of the last 30 days, which a broker remembers, are
left aside here (`known_ids_days: 0`); what one of them costs is in tests/model/test_state.py.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest

from beam.base.clock import SystemClock
from beam.model.message import Message, Payload, new_id
from beam.model.settings import Limits
from beam.store.queue import Queue
from tests.support.cli import BEAM, Cli, eventually, processes_with
from tests.support.crash import check_numbers

pytestmark = [pytest.mark.acceptance, pytest.mark.soak]
MINUTES = 30
SECONDS = float(os.environ.get("BEAM_SOAK_SECONDS", MINUTES * 60))
AGENTS = tuple(f"agent{number}" for number in range(10))
WAITING = 20  # more than these are not sent to an agent: what waits must not grow
WARM_UP_MINUTES = 8
WARM_UP = WARM_UP_MINUTES / MINUTES  # of the time
WINDOWS = 24  # medians of so many equal parts of the rest
# Python takes memory in pieces of 1 MB; and pathlib keeps the parts of every path in a table of the interpreter's that
# grows twice, by 0.5 to 1 MB, on its way to its steady size, once some thousand turns were taken. Less is no growth.
MAX_MB = 3.0
# Answers what was asked, and not what is an answer: an exchange ends after two turns, with no dead letter.
ANSWERS = "read -r word; if [ $word = ask ]; then echo an answer; fi"
_CLOCK = SystemClock()


@dataclass(frozen=True)
class Sample:
    """What the broker uses, that many seconds after the beginning. `cpu` is seconds so far."""

    at: float
    resident_mb: float
    descriptors: int
    cpu: float


def sample(pid: int, at: float) -> Sample:
    process = Path(f"/proc/{pid}")
    resident = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    ticks = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
    cpu = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return Sample(at, resident, len(list((process / "fd").iterdir())), cpu)


def put(cli: Cli, agent: str, *, sender: str) -> None:
    """A message as `beam send --no-wait` puts it, without the cost of a process."""
    now = _CLOCK.now_ns()
    place = cli.home.agent(agent)
    ident = new_id(agent, now, os.urandom(4))
    message = Message(
        id=ident,
        timestamp="2026-01-01T00:00:00.000000Z",
        sender=sender,
        to=agent,
        thread=ident,
        reply="queue" if sender != "human" else "none",
        payload=Payload(text="ask"),
    )
    Queue(place.queue, place.put_lock).put(message, _CLOCK, Limits())


def put_some(cli: Cli, sent: int) -> int:
    """Up to five messages, half of them from another agent that gets the answer; how many."""
    free = [name for name in AGENTS if len(cli.box(name, "new")) < WAITING]
    for number in range(sent, sent + (5 if len(free) > 1 else 0)):
        agent, other = free[number % len(free)], free[(number + 1) % len(free)]
        put(cli, agent, sender="human" if number % 2 else other)
    return 5 if len(free) > 1 else 0


def rise(values: list[float]) -> tuple[float, float]:
    """How much the values rise from the first to the last: the median of all slopes between two of them, and the upper
    end of its 95 % confidence (Theil and Sen)."""
    slopes = sorted((later - earlier) / (j - i) for (i, earlier), (j, later) in combinations(enumerate(values), 2))
    count, steps = len(values), len(values) - 1
    spread = 1.96 * (count * (count - 1) * (2 * count + 5) / 18) ** 0.5
    upper = slopes[min(len(slopes) - 1, round((len(slopes) + spread) / 2))]
    return statistics.median(slopes) * steps, upper * steps


def medians(samples: list[Sample]) -> list[float]:
    """The median of memory in each window, in MB, after the warming up."""
    settled = [each.resident_mb for each in samples if each.at > SECONDS * WARM_UP]
    size = len(settled) // WINDOWS
    return [statistics.median(settled[start : start + size]) for start in range(0, size * WINDOWS, size)]


def test_memory_and_descriptors_of_a_broker_stay_flat_under_a_steady_load(beam: Cli) -> None:
    script = beam.base / "agent.sh"
    script.write_text(ANSWERS)
    lines = "".join(f"  {name}: {{command: [sh, {script}]}}\n" for name in AGENTS)
    beam.config(f"agents:\n{lines}limits: {{segment_bytes: 100000, known_ids_days: 0}}\n")
    for name in AGENTS:
        assert beam("send", name, "ask").out == "an answer\n"
    log = (beam.base / "broker.log").open("wb")
    broker = subprocess.Popen([*BEAM, "broker"], cwd=beam.project, env=beam.env, stderr=log, stdin=subprocess.DEVNULL)
    samples: list[Sample] = []
    began = time.monotonic()
    sent = 0
    try:
        while (now := time.monotonic() - began) < SECONDS:
            sent += put_some(beam, sent)
            time.sleep(0.5)
            samples.append(sample(broker.pid, now))
            if len(samples) % 120 == 0:
                print(f"{now:.0f} s, {sent} sent: {samples[-1]}", flush=True)
        eventually(lambda: not any(beam.box(name, box) for name in AGENTS for box in ("new", "cur")), 120)
        eventually(lambda: sample(broker.pid, 0).descriptors <= descriptors_of_rest(len(AGENTS)), 10, "left open")
    finally:
        broker.terminate()
        broker.wait(60)
        log.close()
    assert broker.returncode == 0, (beam.base / "broker.log").read_text()
    turns = sum(beam.types(name).count("turn.closed") for name in AGENTS)
    slope, upper = rise(medians(samples))
    print(
        f"{SECONDS:g} s, {sent} messages, {turns} turns, {samples[-1].cpu:.0f} s CPU; "
        f"memory {samples[-1].resident_mb:.1f} MB, rising by {slope:.2f} MB (95 %: up to {upper:.2f}); "
        f"at most {max(each.descriptors for each in samples)} descriptors",
        file=sys.stderr,
    )
    assert upper < MAX_MB
    eventually(lambda: not processes_with(str(beam.base)), 10, "processes are left")
    for name in AGENTS:
        check_numbers(beam, name)
        assert beam.box(name, "dead") == []


def descriptors_of_rest(agents: int) -> int:
    """A journal and a lock an agent, and what any process has."""
    return 2 * agents + 15
