"""How soon an agent has what a person decides: from the request to the line that the agent reads."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from beam.base.clock import SystemClock, rfc3339
from beam.model.events import PermissionAsked
from beam.model.message import Message, Options, Payload, new_id
from beam.model.settings import Limits
from beam.model.state import State
from beam.root.discovery import create
from beam.store import control
from beam.store.control import ControlRequest
from beam.store.journal import Reader, read_state
from beam.store.queue import Queue
from bench.measure import Bench, Figure, Series
from bench.place import BEAM, Project, until

_CLOCK = SystemClock()
_NS = 1_000_000_000

# An agent that asks in each turn, and writes down when it read the answer and the interrupt (ns since the epoch).
_AGENT = """\
import json, sys, time
def say(value):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **value}) + "\\n")
    sys.stdout.flush()
def note(what):
    with open(sys.argv[1], "a") as file:
        file.write(f"{what} {time.time_ns()}\\n")
ASK = {
    "sessionId": "s1",
    "toolCall": {"toolCallId": "c1", "title": "make it", "kind": "edit"},
    "options": [{"optionId": "yes", "kind": "allow_once", "name": "Yes"}],
}
prompt = None
for line in sys.stdin:
    frame = json.loads(line)
    method = frame.get("method")
    if method == "session/prompt":
        prompt = frame["id"]
        say({"id": 900, "method": "session/request_permission", "params": ASK})
    elif frame.get("id") == 900 and method is None:
        note("decided")
    elif method == "session/cancel":
        note("interrupted")
        say({"id": prompt, "result": {"stopReason": "cancelled"}})
    elif method == "initialize":
        say({"id": frame["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}})
    elif method == "session/new":
        say({"id": frame["id"], "result": {"sessionId": "s1"}})
    elif "id" in frame:
        say({"id": frame["id"], "result": {}})
"""


def control_effect(bench: Bench) -> list[Figure]:
    """From the moment when a decision or an interrupt is asked for until the agent has read it."""
    project, noted = _with_agent(bench)
    ways: dict[str, list[float]] = {"decided": [], "interrupted": []}
    with _serving(project):
        for number in range(bench.times(40) + 1):
            message_id = _put(project)
            ask_id = _asked(project, message_id)
            for verb, target in (("approve", ask_id), ("interrupt", message_id)):
                what = "decided" if verb == "approve" else "interrupted"
                asked = _request(project, verb, target)
                until(lambda what=what, count=number: len(_noted(noted, what)) > count, what)  # type: ignore[misc]
                ways[what].append((_noted(noted, what)[number] - asked) / 1e6)
            until(lambda: _state(project).open_turn is None, "the end of the turn")
    found = []
    for what, name in (("decided", "decision"), ("interrupted", "interrupt")):
        series = Series(f"request -> the agent has read the {name}", tuple(ways[what][1:]))
        slowest = statistics.quantiles(series.samples, n=100, method="inclusive")[98]
        found.append(Figure(f"{name} to effect", series, "ms", at_most=100))
        found.append(
            Figure(
                f"{name} to effect, 99th percentile", Series(f"of {len(series.samples)}", (slowest,)), "ms", at_most=100
            )
        )
    return found


def _with_agent(bench: Bench) -> tuple[Project, Path]:
    project = Project(bench, "control", "agents: {}\n")
    script, noted = project.base / "asking.py", project.base / "noted"
    script.write_text(_AGENT)
    noted.touch()
    command = f"[{sys.executable}, -I, -S, {script}, {noted}]"
    text = f"agents:\n  a0: {{protocol: acp, command: {command}, access: ask}}\n"
    (project.cwd / "beam.yaml").write_text(text)
    return project, noted


@contextlib.contextmanager
def _serving(project: Project) -> Iterator[None]:
    broker = subprocess.Popen(
        (*BEAM, "broker"),
        env=project.env,
        cwd=project.cwd,
        stdin=subprocess.DEVNULL,
        stderr=(project.base / "broker.log").open("wb"),
    )
    try:
        until(lambda: (project.root / "broker.json").exists(), "the broker")
        yield
    finally:
        broker.terminate()
        broker.wait()


def _put(project: Project) -> str:
    place = project.place.agent("a0")
    create(project.place, place)
    now = _CLOCK.now_ns()
    message = Message(
        id=new_id("a0", now, _CLOCK.random(4)),
        timestamp=rfc3339(now),
        sender="human",
        to="a0",
        payload=Payload(text="go"),
        options=Options(via="dialogue", access="ask", new=True),
    )
    Queue(place.queue, place.put_lock).put(message, _CLOCK, Limits())
    return message.id


def _asked(project: Project, message_id: str) -> str:
    """The id of the ask of that message's turn, once it is open."""
    until(lambda: bool(_state(project).open_turn and _state(project).open_turn.asks), "the ask")  # type: ignore[union-attr]
    events = Reader(project.place.agent("a0").journal).poll()
    asks = [event for event in events if isinstance(event, PermissionAsked) and event.message_id == message_id]
    return asks[-1].ask_id


def _request(project: Project, verb: str, target: str) -> int:
    """Publishes a request, and returns when that began (nanoseconds since the epoch)."""
    now = _CLOCK.now_ns()
    wish = ControlRequest(
        id=new_id("a0", now, _CLOCK.random(4)),
        verb=verb,  # type: ignore[arg-type]
        timestamp=rfc3339(now),
        expires=rfc3339(now + 60 * _NS),
        target=target,
    )
    began = time.time_ns()
    control.publish(project.place.agent("a0").control, wish)
    return began


def _noted(path: Path, what: str) -> list[int]:
    return [int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(what)]


def _state(project: Project) -> State:
    return read_state(project.place.agent("a0").journal)
