"""Journals of agents with turns, sessions and what is open in them, for unit tests."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from beam.base.clock import Steps
from beam.model import events
from beam.model.outcome import Status
from beam.process import tree
from tests.support.context import Root

ELSEWHERE = events.Owner(pid=1, start_ticks=1)  # nobody here can know whether it lives


def record(root: Root, agent: str, *bodies: events.Event, lane: str | None = None) -> None:
    """Writes these events into the agent's journal, with the turn and the message that each has."""
    from beam.broker.holder.lease import AgentLease
    from beam.root import discovery

    paths = root.context.agent_paths(agent, lane)
    discovery.create(root.context.home, paths)
    lease = AgentLease.acquire(root.context, paths)
    assert lease is not None
    with contextlib.closing(lease):
        for body in bodies:
            lease.log.record(body, turn=body.turn, message_id=body.message_id)


def started(turn: int = 1, message_id: str = "m-1", **fields: Any) -> events.TurnStarted:
    """A turn of this process begins."""
    given = {"owner": tree.this_process(), "turn_key": "k", "adapter": "command", "via": "exec", **fields}
    return events.TurnStarted(turn=turn, message_id=message_id, **given)


def gone() -> events.Owner:
    """A process of this machine that lives no more."""
    return msgspec.structs.replace(tree.this_process(), start_ticks=1)


def finished(turn: int = 1, message_id: str = "m-1", **fields: Any) -> events.TurnFinished:
    return events.TurnFinished(turn=turn, message_id=message_id, **{"status": Status.COMPLETED, **fields})


def closed(turn: int = 1, message_id: str = "m-1") -> events.TurnClosed:
    return events.TurnClosed(turn=turn, message_id=message_id)


def turn(number: int, session_id: str, *, adapter: str = "claude", **fields: Any) -> list[events.Event]:
    """A whole turn in that session."""
    named = {"turn": number, "message_id": f"m-{number}"}
    opened = events.SessionStarted(session_id=session_id, resumed=number > 1, **named)
    begin = started(number, f"m-{number}", adapter=adapter)
    return [begin, opened, finished(number, f"m-{number}", session_id=session_id, **fields), closed(**named)]


def result(steps: Steps[Any], most: int = 1000) -> Any:
    """What the steps return, without any waiting."""
    for _ in range(most):
        try:
            next(steps)
        except StopIteration as done:
            return done.value
    raise AssertionError("it does not end")
