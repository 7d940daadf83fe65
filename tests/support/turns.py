"""What a turn needs, for tests that run one without a lease: its input, its services, its handle."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from beam.agents.base import Host, Turn
from beam.base.clock import Clock, SystemClock
from beam.model.events import E, Event
from beam.model.settings import DEFAULT_LIMITS
from beam.turns.asks import AgentCalls, Asks
from beam.turns.handle import Stop, TurnHandle, TurnServices
from beam.turns.input import TurnInput
from beam.turns.request import Record


class Recorded:
    """A journal in memory."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, body: Event, *, sync: bool = False) -> Event:
        self.events.append(body)
        return body

    def of(self, kind: type[E]) -> list[E]:
        """The events of this kind, in their order."""
        return [event for event in self.events if isinstance(event, kind)]

    def kinds(self) -> list[str]:
        """The names of all events, in their order."""
        return [type(event).__name__ for event in self.events]


def turn_input(turn: Turn, **fields: Any) -> TurnInput:
    """The input of that turn: a minute for it, and of the environment only PATH."""
    settled = {
        "scratch": Path(turn.scratch),
        "host": Host(),
        "turn_key": uuid.uuid4().hex,
        "limits": DEFAULT_LIMITS,
        "environ": {"PATH": os.environ["PATH"]},
        "child_env": {},
        "timeout": 60.0,
        "idle_timeout": 60.0,
        **fields,
    }
    return TurnInput(turn=turn, **settled)


def services(record: Record, clock: Clock | None = None, **fields: Any) -> TurnServices:
    """Services that poll nothing and keep nothing."""
    return TurnServices(record=record, clock=clock or SystemClock(), **{"poll": lambda: None, **fields})


def handle(record: Record, stop: Stop | None = None, *, clock: Clock | None = None, limit: float = 60.0) -> TurnHandle:
    """The handle of a turn of agent x."""
    clock = clock or SystemClock()
    return TurnHandle(stop=stop or Stop(), asks=Asks("x", record, clock, limit), calls=AgentCalls(clock))
