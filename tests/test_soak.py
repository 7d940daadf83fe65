"""A broker under a steady load for a long time: memory and descriptors stay flat, every message is answered, nothing is
left.

30 minutes in `make soak`; BEAM_SOAK_SECONDS says otherwise.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from beam.clock import SystemClock
from beam.home import Home
from beam.limits import Limits
from beam.message import Message, Payload, new_id
from beam.store.queue import Queue
from tests.support.cli import BEAM, Cli, eventually, processes_with
from tests.support.crash import check_numbers

pytestmark = [pytest.mark.acceptance, pytest.mark.soak]
SECONDS = float(os.environ.get("BEAM_SOAK_SECONDS", "1800"))
AGENTS = tuple(f"agent{number}" for number in range(10))
GROWTH_MB = 8.0
_CLOCK = SystemClock()


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def put(cli: Cli, agent: str, *, sender: str) -> None:
    """A message as `beam send --no-wait` puts it, without the cost of a process."""
    now = _CLOCK.now_ns()
    place = Home(root=cli.root).agent(agent)
    ident = new_id(agent, now, os.urandom(4))
    message = Message(
        id=ident,
        timestamp="2026-01-01T00:00:00.000000Z",
        sender=sender,
        to=agent,
        thread=ident,
        reply="queue" if sender != "human" else "none",
        payload=Payload(text="hi"),
    )
    Queue(place.queue, place.put_lock).put(message, _CLOCK, Limits())


def test_memory_and_descriptors_of_a_broker_stay_flat_under_a_steady_load(beam: Cli) -> None:
    lines = "".join(f"  {name}: {{command: [cat]}}\n" for name in AGENTS)
    beam.config(f"agents:\n{lines}limits: {{segment_bytes: 100000, hops: 1, known_ids_days: 1}}\n")
    for name in AGENTS:
        assert beam("send", name, "first").code == 0
    log = (beam.base / "broker.log").open("wb")
    broker = subprocess.Popen([*BEAM, "broker"], cwd=beam.project, env=beam.env, stderr=log, stdin=subprocess.DEVNULL)
    samples: list[tuple[float, float, int]] = []
    began = time.monotonic()
    sent = 0
    try:
        while (now := time.monotonic() - began) < SECONDS:
            for number in range(5):
                waiting = [name for name in AGENTS if len(beam.box(name, "new")) < 20]
                if waiting:
                    put(beam, waiting[(sent + number) % len(waiting)], sender="human" if sent % 2 else AGENTS[0])
                    sent += 1
            time.sleep(0.5)
            samples.append((now, resident_mb(broker.pid), descriptors(broker.pid)))
        eventually(lambda: not any(beam.box(name, box) for name in AGENTS for box in ("new", "cur")), 120)
        time.sleep(1)
        at_rest = descriptors(broker.pid)
    finally:
        broker.terminate()
        broker.wait(60)
        log.close()
    assert broker.returncode == 0, (beam.base / "broker.log").read_text()
    settled = [sample for sample in samples if sample[0] > SECONDS / 4]
    half = len(settled) // 2
    first, second = (statistics.median(sample[1] for sample in part) for part in (settled[:half], settled[half:]))
    most = max(sample[2] for sample in samples)
    turns = sum(beam.types(name).count("turn.closed") for name in AGENTS)
    print(
        f"{SECONDS:g} s, {sent} messages, {turns} turns: {first:.1f} MB in the first half, "
        f"{second:.1f} MB in the second; "
        f"{most} descriptors at most, {at_rest} at rest"
    )
    assert second - first < GROWTH_MB
    assert at_rest <= descriptors_of_rest(len(AGENTS))
    eventually(lambda: not processes_with(str(beam.base)), 10, "processes are left")
    for name in AGENTS:
        check_numbers(beam, name)


def descriptors_of_rest(agents: int) -> int:
    """A journal and a lock an agent, and what any process has."""
    return 2 * agents + 15
