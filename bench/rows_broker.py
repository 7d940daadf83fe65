"""What a broker costs: from a published file to a guard, many agents at once, and doing nothing."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from beam.base.clock import SystemClock
from beam.model.message import Message, Payload, new_id
from beam.model.settings import Limits
from beam.model.state import CLOSED, DEAD
from beam.root.discovery import create
from beam.store.journal import Reader, read_state
from beam.store.queue import Queue
from bench.measure import Bench, Figure, Series, run
from bench.place import BEAM, Project, until

_CLOCK = SystemClock()
_TICKS = os.sysconf("SC_CLK_TCK")

# The real broker, which also writes down when each guard was spawned (nanoseconds since the epoch).
_SPY = """
import subprocess, sys, time
real, out = subprocess.Popen, open(sys.argv[1], "a", buffering=1)
class Spied(real):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if any("guard" in str(word) for word in args[0]):
            out.write(f"{time.time_ns()}\\n")
subprocess.Popen = Spied
from beam.cli.main import run_and_flush
sys.argv[1:] = ["broker"]
sys.exit(run_and_flush())
"""


def dispatch(bench: Bench) -> list[Figure]:
    """From the moment when a message's file has its name until its guard is spawned, with a broker at rest."""
    project = _with_agents(bench, "dispatch", 5, "[cat]")
    spawned = project.base / "spawned"
    ways = []
    with _serving(project, (sys.executable, "-c", _SPY, str(spawned))):
        for number in range(bench.times(200) + 1):
            agent = f"a{number % 5}"
            put = _put(project, agent)
            until(lambda count=number: _lines(spawned) > count, "a guard")  # type: ignore[misc]
            ways.append((int(spawned.read_text().splitlines()[number]) - put) / 1e6)
            until(lambda agent=agent: not _waits(project, agent), "the end of the turn")  # type: ignore[misc]
            time.sleep(0.02)
    ways = ways[1:]
    median = Series("beam broker: rename of the file -> guard spawned", tuple(ways))
    slowest = statistics.quantiles(ways, n=100, method="inclusive")[98]
    return [
        Figure("dispatch, broker running", median, "ms", at_most=8),
        Figure("dispatch, 99th percentile", Series(f"of {len(ways)}", (slowest,)), "ms", at_most=25),
    ]


def many_agents(bench: Bench) -> list[Figure]:
    """200 agents with 20 trivial turns each, all waiting at once (40 with 5 in a quick run): CPU a
    turn, and fairness."""
    agents, turns = (40, 5) if bench.quick else (200, 20)
    project = _with_agents(bench, "many", agents, "['true']")
    for name in _names(agents):
        place = project.place.agent(name)
        Queue(place.queue, place.put_lock).put_all([_message(name) for _ in range(turns)], _CLOCK, Limits())
    before = run(["true"], env=project.env, cwd=project.cwd).cpu_ms
    with _serving(project, (*BEAM, "broker"), check=False) as broker:
        began = time.perf_counter()
        done = 0
        while done < agents:
            time.sleep(1.0)
            done = sum(not _waits(project, name) for name in _names(agents))
            assert time.perf_counter() - began < 1.0 * agents * turns, "the turns don't end"
        took = time.perf_counter() - began
        own, children = _cpu_ms(broker.pid)
    count = agents * turns
    _check_all_ended(project, agents, turns)
    waits = _waited(project, agents)
    middle = statistics.median(waits)
    note = (
        f"{agents} agents x {turns} turns in {took:.0f} s, {count / took:.1f} turns/s; "
        f"broker alone {own / count:.0f} ms"
    )
    each = (own + children) / count - before
    return [
        Figure(
            *("many agents, CPU a turn", Series("broker and guards, less `true`", (each,)), "ms"), at_most=60, note=note
        ),
        Figure(
            "many agents, the longest wait over the median",
            Series("s until an agent's first turn and between its turns: the longest", (max(waits),)),
            "s",
            Series("the median", (middle,)),
            at_most=3,
        ),
    ]


def idle_broker(bench: Bench) -> list[Figure]:
    """A broker that serves 100 agents, each of which worked once, and has nothing to do."""
    project = _with_agents(bench, "idle", 100, "['true']")
    seconds = 5 if bench.quick else 20
    with _serving(project, (*BEAM, "broker")) as broker:
        for name in _names(100):
            _put(project, name)
        until(lambda: not any(_waits(project, name) for name in _names(100)), "100 turns", 120)
        time.sleep(2)
        samples = []
        for _ in range(3):
            before = sum(_cpu_ms(broker.pid))
            time.sleep(seconds / 3)
            samples.append((sum(_cpu_ms(broker.pid)) - before) / (seconds / 3 * 1000) * 100)
        fields = Path(f"/proc/{broker.pid}/statm").read_text().split()
        size = int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        open_files = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
    return [
        Figure("idle broker, 100 agents, CPU", Series(f"of one core, {seconds} s", tuple(samples)), "%", at_most=0.5),
        Figure(
            *("idle broker, 100 agents, memory", Series("resident", (size,)), "MB"),
            at_most=60,
            note=f"{open_files} descriptors",
        ),
    ]


def _names(count: int) -> list[str]:
    return [f"a{number}" for number in range(count)]


def _with_agents(bench: Bench, name: str, count: int, command: str) -> Project:
    lines = "".join(f"  {agent}: {{command: {command}}}\n" for agent in _names(count))
    project = Project(bench, name, f"agents:\n{lines}")
    for agent in _names(count):
        home = project.place
        create(home, home.agent(agent))
    return project


def _message(agent: str) -> Message:
    now = _CLOCK.now_ns()
    ident = new_id(agent, now, os.urandom(4))
    return Message(
        id=ident, timestamp="2026-01-01T00:00:00.000000Z", sender="human", to=agent, thread=ident, reply="none",
        payload=Payload(text="hi"),
    )  # fmt: skip


def _put(project: Project, agent: str) -> int:
    """Publishes a message; when its file got its name (nanoseconds since the epoch)."""
    place = project.place.agent(agent)
    message = _message(agent)
    moment = 0
    rename = Path.rename

    def noted(self: Path, target: Path) -> Path:
        nonlocal moment
        moved = rename(self, target)
        moment = time.time_ns()
        return moved

    Path.rename = noted  # type: ignore[assignment,method-assign]
    try:
        Queue(place.queue, place.put_lock).put(message, _CLOCK, Limits())
    finally:
        Path.rename = rename  # type: ignore[method-assign]
    return moment


def _waits(project: Project, agent: str) -> bool:
    queue = project.root / "agents" / agent / "queue"
    return any(next((queue / box).iterdir(), None) is not None for box in ("new", "cur"))


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def _serving(project: Project, command: tuple[str, ...], *, check: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    log = (project.base / "broker.log").open("wb")
    broker = subprocess.Popen(command, env=project.env, cwd=project.cwd, stdin=subprocess.DEVNULL, stderr=log)
    try:
        until(lambda: (project.root / "broker.json").exists(), "the broker's start")
        if check:
            time.sleep(1.0)
        yield broker
    finally:
        broker.terminate()
        broker.wait(60)
        log.close()


def _cpu_ms(pid: int) -> tuple[float, float]:
    """CPU of the process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, below_user, below_system = (int(field) * 1000 / _TICKS for field in fields[11:15])
    return user + system, below_user + below_system


def _check_all_ended(project: Project, agents: int, turns: int) -> None:
    for name in _names(agents):
        state = read_state(project.place.agent(name).journal)
        assert len(state.known) == turns
        assert all(known.phase in (CLOSED, DEAD) for known in state.known.values())
        assert state.totals.by_status == {"completed": turns}, (name, state.last)


def _waited(project: Project, agents: int) -> list[float]:
    """For each agent the longest time that it stood still while messages waited, in seconds."""
    from beam.base.clock import parse_rfc3339
    from beam.model import events

    journals = [list(Reader(project.place.agent(name).journal).poll()) for name in _names(agents)]
    first = min(parse_rfc3339(event.ts) for journal in journals for event in journal)
    found = []
    for journal in journals:
        moments = [
            parse_rfc3339(event.ts) for event in journal if isinstance(event, events.TurnStarted | events.TurnClosed)
        ]
        edges = [first, *moments]
        found.append(max((edges[i + 1] - edges[i]) / 1e9 for i in range(0, len(edges) - 1, 2)))
    return found
