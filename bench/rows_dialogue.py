"""What a conversation by protocol costs: a long turn's frames read, a warm turn, many agents warm at the same time."""

from __future__ import annotations

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from beam.agents.link import Say
from beam.base.clock import SystemClock, parse_rfc3339, rfc3339
from beam.model import events
from beam.model.events import Event
from beam.model.message import Message, Options, Payload, new_id
from beam.model.settings import Limits
from beam.process.pipes import LineSplitter
from beam.root.discovery import create
from beam.secrets.redact import redact_event
from beam.store.journal import Reader
from beam.store.queue import Queue
from beam.turns.record import Bookkeeping, PieceRecorder
from bench.measure import Bench, Figure, Series, in_turns
from bench.place import BEAM, Project, until
from tests.support import acp_dialogue, claude_dialogue, codex_dialogue
from tests.support.dialogue import Conversation

_RECORDINGS = Path(__file__).parents[1] / "tests" / "recordings"
_FRAMES, _LARGEST, _READ = 2000, 4096, 65_536
_CALL = re.compile(rb'"toolCallId":"')  # each call is made once
_CLOCK = SystemClock()
AT_LEAST = 20_000  # frames a second


def frames(bench: Bench) -> list[Figure]:
    """A turn of 2,000 recorded frames of each protocol: from bytes to events without secrets, frames in a second of
    CPU."""
    return [_frames(bench, name, begin, recorded()) for name, begin, recorded in (_CLAUDE, _CODEX, _ACP)]


def _frames(bench: Bench, name: str, begin: Callable[[], Conversation], recorded: Iterator[dict[str, Any]]) -> Figure:
    lines = [json.dumps(frame, separators=(",", ":")).encode() + b"\n" for frame in recorded]
    lines = [line for line in lines if len(line) <= _LARGEST]
    repeats = range(_FRAMES // len(lines) + 1)
    turn = [_CALL.sub(rb"\g<0>r%d-" % number, line) for number in repeats for line in lines][:_FRAMES]
    data = b"".join(turn)
    (samples,) = in_turns(bench.times(20), lambda: _read(begin(), data))
    rate = Series(f"bytes to redacted events, CPU time, the best of {len(samples)}", (_FRAMES / min(samples),))
    note = f"{_FRAMES} frames, median {statistics.median(map(len, turn)):.0f} B"
    return Figure(f"frames of {name} read", rate, "/s", at_least=AT_LEAST, note=note)


def _read(talk: Conversation, data: bytes) -> float:
    """Seconds of CPU that the turn takes."""
    link, lines = talk.link, LineSplitter(1 << 24)
    found: list[Event] = []

    def record(body: Event, *, sync: bool = False) -> Event:
        clean, _ = redact_event(body)
        found.append(clean)
        return body

    book = Bookkeeping(PieceRecorder(record, _CLOCK), _CLOCK, 20)
    began = time.process_time()
    for start in range(0, len(data), _READ):
        for line in lines.feed(data[start : start + _READ]):
            for step in link.line(line, 0.0):
                if isinstance(step, Say):
                    book.record(step.event)
        book.flush()
    book.end(close_tools=True)
    took = time.process_time() - began
    assert link.busy and found, "the frames are of one turn"
    return took


def _heard(place: str, *names: str) -> Iterator[dict[str, Any]]:
    """The frames that these recordings have of the agent."""
    for name in names:
        for line in (_RECORDINGS / place / name).read_text("utf-8").splitlines():
            _, way, frame = line.split(" ", 2)
            if way == "<" and frame.startswith("{"):
                yield json.loads(frame)


def _of_claude() -> Iterator[dict[str, Any]]:
    for frame in _heard("claude/2.1.330/stream-json", "read.jsonl", "asks.jsonl", "session.jsonl"):
        if frame["type"] in ("stream_event", "assistant") or (frame["type"] == "user" and not frame.get("isReplay")):
            yield frame


def _of_codex() -> Iterator[dict[str, Any]]:
    kinds = ("item/started", "item/completed", "item/agentMessage/delta", "thread/tokenUsage/updated")
    for frame in _heard("codex/0.169.0/app-server", "01-session.jsonl", "05-features.jsonl"):
        if frame.get("method") in kinds:
            of = {"threadId": codex_dialogue.THREAD, "turnId": codex_dialogue.TURN}
            yield {**frame, "params": {**frame["params"], **of}}


def _of_acp() -> Iterator[dict[str, Any]]:
    kinds = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "usage_update", "plan")
    for place in ("acp/opencode-1.18.33", "acp/kimi-2.1.0", "acp/qwen-0.24.4"):
        for frame in _heard(place, "first.jsonl"):
            params = frame.get("params") or {}
            if frame.get("method") == "session/update" and params["update"]["sessionUpdate"] in kinds:
                yield {**frame, "params": {**params, "sessionId": acp_dialogue.SESSION}}


def _begun(talk: Any) -> Any:
    talk.begin()
    talk.prompt()
    return talk


_CLAUDE = ("claude", lambda: _begun(claude_dialogue.Talk()), _of_claude)
_CODEX = ("codex", lambda: _begun(codex_dialogue.Talk()), _of_codex)
_ACP = ("an ACP agent", lambda: acp_dialogue.talking(), _of_acp)


# -- warm --------------------------------------------------------------------------------------------------------------

# An agent that answers at once, and writes down when it read each prompt and when it answered (ns since the epoch).
_AGENT = """\
import json, sys, time
def say(value):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **value}) + "\\n")
    sys.stdout.flush()
UPDATE = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}
SESSION = sys.argv[1]
with open(sys.argv[2], "a", buffering=1) as noted:
    for line in sys.stdin:
        frame = json.loads(line)
        method = frame.get("method")
        if method == "session/prompt":
            noted.write(f"{time.time_ns()} ")
            say({"method": "session/update", "params": {"sessionId": SESSION, "update": UPDATE}})
            say({"id": frame["id"], "result": {"stopReason": "end_turn"}})
            noted.write(f"{time.time_ns()}\\n")
        elif method == "initialize":
            say({"id": frame["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}})
        elif method == "session/new":
            say({"id": frame["id"], "result": {"sessionId": SESSION}})
        elif "id" in frame:
            say({"id": frame["id"], "result": {}})
"""


def warm_share(bench: Bench) -> list[Figure]:
    """beam's share of a warm turn of an agent that answers at once: from the published message until the agent has the
    prompt, and from its answer until the turn is closed."""
    project = _with_agents(bench, "share", 1)
    shares = []
    with _serving(project) as broker:
        count = bench.times(100) + 2
        for number in range(count):
            if number == 2:
                before = _cpu_ms(broker.pid)
            put = _put(project, "a0")
            until(lambda count=number: _closed(project, "a0") > count, "the end of the turn")  # type: ignore[misc]
            asked, answered = _noted(project, "a0")[number]
            closed = [event for event in _journal(project, "a0") if isinstance(event, events.TurnClosed)][-1]
            shares.append((asked - put + parse_rfc3339(closed.ts) - answered) / 1e6)
            time.sleep(0.02)
        cpu = (_cpu_ms(broker.pid) - before) / (count - 2)
    shares = shares[2:]  # the first one is cold
    slowest = statistics.quantiles(shares, n=100, method="inclusive")[98]
    note = f"the broker's CPU a turn: {cpu:.1f} ms"
    return [
        Figure(
            "beam's share of a warm turn",
            Series("put -> prompt read, answer -> closed", tuple(shares)),
            "ms",
            at_most=10,
            note=note,
        ),
        Figure("beam's share, 99th percentile", Series(f"of {len(shares)}", (slowest,)), "ms", at_most=20),
    ]


def warm_agents(bench: Bench) -> list[Figure]:
    """50 agents warm in one broker (10 in a quick run): its memory for each, and the longest wait where all have three
    messages at once."""
    count = 10 if bench.quick else 50
    project = _with_agents(bench, "warm", count, f"limits: {{kept: {count}}}\n")
    with _serving(project) as broker:
        _put(project, "a0")
        until(lambda: _closed(project, "a0") == 1, "the first turn", seconds=60)
        before = _resident_mb(broker.pid)
        for number in range(1, count):
            _put(project, f"a{number}")
        until(lambda: all(_closed(project, f"a{n}") for n in range(count)), "a turn of each", seconds=300)
        each = (_resident_mb(broker.pid) - before) / (count - 1)
        began = time.time_ns()
        for _ in range(3):
            for number in range(count):
                _put(project, f"a{number}")
        until(lambda: all(_closed(project, f"a{n}") == 4 for n in range(count)), "three turns of each", seconds=300)
        waits = []
        for number in range(count):
            asked = [moment for moment, _ in _noted(project, f"a{number}")][1:]
            edges = [began, *asked]
            waits.append(max(after - before for before, after in pairwise(edges)) / 1e9)
            starts = [event for event in _journal(project, f"a{number}") if isinstance(event, events.AgentStarted)]
            assert len({event.pid for event in starts}) == 1, "its process was not kept"
    return [
        Figure("warm agent, memory in the broker", Series(f"resident, of {count}", (each,)), "MB", at_most=3),
        Figure(
            "warm agents, the longest wait over the median",
            Series("s until an agent's first prompt and between its prompts: the longest", (max(waits),)),
            "s",
            Series("the median", (statistics.median(waits),)),
            at_most=3,
        ),
    ]


def _with_agents(bench: Bench, name: str, count: int, more: str = "") -> Project:
    project = Project(bench, name, "agents: {}\n")
    script = project.base / "agent.py"
    script.write_text(_AGENT)
    lines = [
        f"  a{number}: {{protocol: acp, access: ask, "
        f"command: [{sys.executable}, -I, -S, {script}, s{number}, {project.base}/noted-a{number}]}}\n"
        for number in range(count)
    ]
    (project.cwd / "beam.yaml").write_text(f"agents:\n{''.join(lines)}{more}")
    for number in range(count):
        create(project.place, project.place.agent(f"a{number}"))
        (project.base / f"noted-a{number}").touch()  # the agent may make no file there
    return project


@contextlib.contextmanager
def _serving(project: Project) -> Iterator[subprocess.Popen[bytes]]:
    log = (project.base / "broker.log").open("wb")
    broker = subprocess.Popen((*BEAM, "broker"), env=project.env, cwd=project.cwd, stdin=subprocess.DEVNULL, stderr=log)
    try:
        until(lambda: (project.root / "broker.json").exists(), "the broker")
        time.sleep(1.0)
        yield broker
    finally:
        broker.terminate()
        broker.wait(60)
        log.close()


def _put(project: Project, agent: str) -> int:
    """Publish a message; return when that was done (nanoseconds since the epoch)."""
    place, now = project.place.agent(agent), _CLOCK.now_ns()
    message = Message(
        id=new_id(agent, now, _CLOCK.random(4)),
        timestamp=rfc3339(now),
        sender="human",
        to=agent,
        payload=Payload(text="go"),
        options=Options(),
    )
    Queue(place.queue, place.put_lock).put(message, _CLOCK, Limits())
    return time.time_ns()


def _journal(project: Project, agent: str) -> list[Any]:
    return list(Reader(project.place.agent(agent).journal).poll())


def _closed(project: Project, agent: str) -> int:
    """How many turns are over."""
    return sum(isinstance(event, events.TurnClosed) for event in _journal(project, agent))


def _noted(project: Project, agent: str) -> list[tuple[int, int]]:
    lines = (project.base / f"noted-{agent}").read_text().splitlines()
    return [(int(asked), int(answered)) for asked, answered in map(str.split, lines)]


def _cpu_ms(pid: int) -> float:
    """CPU time of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) * 1000 / os.sysconf("SC_CLK_TCK") for field in fields[11:13])


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) / 1000
    raise LookupError(pid)
