"""A root and a clock for unit tests: no processes, no waiting, every time and id known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beam.agents import registry
from beam.base.clock import Steps
from beam.broker.asking.agent_requests import carry_out
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.context import RootContext
from beam.config.resolve import load
from beam.model.message import Message, Options, Payload, new_id
from beam.model.settings import Limits
from beam.root import discovery
from beam.root.paths import AgentPaths, RootPaths
from beam.store.journal import Reader
from beam.store.queue import Queue

NOON_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


class FakeClock:
    """A clock that stands still until it is moved. `now` is nanoseconds since the epoch."""

    def __init__(self, now: int = NOON_NS) -> None:
        self.now = now
        self.elapsed = 0.0
        self.drawn = 0

    def now_ns(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.elapsed

    def random(self, count: int) -> bytes:
        self.drawn += 1
        return self.drawn.to_bytes(count, "big")

    def sleep(self, seconds: float) -> None:
        """Moves both clocks."""
        self.now += int(seconds * SECOND_NS)
        self.elapsed += seconds


class Root:
    """A scratch root with its agents. `box` and `asker` are mailboxes, `worker` is `cat`."""

    def __init__(self, tmp_path: Path, *, limits: str = "{}") -> None:
        self.clock = FakeClock()
        self.base = tmp_path / "project"
        self.base.mkdir()
        (self.base / "beam.yaml").write_text(
            "agents:\n  box: {adapter: mailbox}\n  asker: {adapter: mailbox}\n  worker: {command: [cat]}\n"
            "  other: {command: [cat]}\n"
            f"limits: {limits}\n"
        )
        self.environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "BEAM_TRUST": "1"}
        self.context = self.reload()

    def reload(self) -> RootContext:
        """The context with what beam.yaml says now."""
        root = RootPaths(self.base.parent / "root", self.base)
        config = load(root, environ=self.environ, adapters=tuple(registry.ADAPTERS))
        self.context = RootContext(
            home=root,
            config=config,
            clock=self.clock,
            environ=self.environ,
            carry_out=carry_out,
            exposed=None,
        )
        return self.context

    def place(self, agent: str) -> AgentPaths:
        """The agent's place, with its directories."""
        place = self.context.agent_paths(agent)
        discovery.create(self.context.home, place)
        return place

    def queue(self, agent: str) -> Queue:
        place = self.place(agent)
        return Queue(place.queue, place.put_lock)

    def message(self, to: str, text: str = "hi", **fields: object) -> Message:
        """A message from a person, unless the fields say otherwise."""
        given: dict[str, object] = {
            "id": new_id(to, self.clock.now_ns(), self.clock.random(4)),
            "timestamp": "2026-01-01T00:00:00.000000Z",
            "sender": "human",
            "to": to,
            "payload": Payload(text=text),
            "thread": "t",
            "options": Options(),
        }
        return Message(**{**given, **fields})  # type: ignore[arg-type]

    def put(self, to: str, text: str = "hi", **fields: object) -> Message:
        """Such a message, in its queue."""
        message = self.message(to, text, **fields)
        assert self.queue(to).put(message, self.clock, self.context.config.limits)
        return message

    def hold(self, agent: str) -> AgentLease:
        """The agent's lease; nobody else has it."""
        lease = AgentLease.acquire(self.context, self.place(agent))
        assert lease is not None
        return lease

    def events(self, agent: str) -> list[object]:
        """Every event of the agent's journal."""
        return list(Reader(self.context.agent_paths(agent).journal).poll())

    def boxes(self, agent: str) -> dict[str, list[str]]:
        """The ids in each box of the agent's queue that is not empty."""
        queue = self.queue(agent)
        found = {box: [entry.id for entry in queue.entries(box)] for box in ("new", "cur", "dead")}
        return {box: ids for box, ids in found.items() if ids}


SMALL = Limits(segment_bytes=1)


def ended(steps: Steps[Any]) -> Any:
    """The result of steps that come to their end, without any of their pauses."""
    for _ in range(1000):
        try:
            next(steps)
        except StopIteration as done:
            return done.value
    raise AssertionError("the steps come to no end")
