"""Finds the agents and messages of a root, and their files. Reading takes no locks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from beam.base.errors import BeamError, NotFoundError, UsageError
from beam.broker.inbox.context import RootContext
from beam.model.message import agent_of
from beam.model.state import State
from beam.root.paths import AgentPaths
from beam.store.queue import Queue
from beam.store.segment import read_state

BOXES: dict[str, Literal["waiting", "running", "dead"]] = {"new": "waiting", "cur": "running", "dead": "dead"}


def queue_of(paths: AgentPaths) -> Queue:
    """Return the queue of the agent or lane with these paths."""
    return Queue(paths.queue, paths.put_lock)


def all_paths(context: RootContext, agents: list[str] | None = None) -> Iterator[AgentPaths]:
    """Yield the paths of these agents, each followed by the paths of its lanes. Without `agents`, yield those of every
    agent of the root that has files."""
    for name in context.home.agents() if agents is None else agents:
        paths = context.home.agent(name)
        yield paths
        yield from paths.lanes()


def agent_names(context: RootContext, *, of_runs: bool = True) -> list[str]:
    """Return the names of all agents that are declared or have files here, sorted, without the archived ones. Without
    `of_runs`, also leave out the agents that only a scenario uses."""
    names = sorted({*context.config.names(), *context.home.agents()})
    paths = [each for name in names if not (each := context.home.agent(name)).archived.exists()]
    return [each.agent for each in paths if of_runs or not is_of_run(context, each)]


def is_of_run(context: RootContext, paths: AgentPaths, state: State | None = None) -> bool:
    """Return whether only a scenario uses the agent: it is a session that is not declared, and a run sent it the last
    message. `state` is the agent's state, if the caller has read it."""
    if "@" not in paths.agent or paths.agent in context.config.names():
        return False
    try:
        return (state or read_state(paths.journal)).of_run
    except BeamError:
        return False


def find_message(context: RootContext, message_id: str) -> tuple[AgentPaths, str]:
    """Find a message by its whole id or any unique ending of at least four characters; return its agent's paths and its
    whole id.

    Raises NotFoundError if there is no such message, UsageError for an ending that is ambiguous or too short.
    """
    agent = agent_of(message_id)
    if agent in context.home.agents():
        paths = context.home.agent(agent)
        lane = _lane(paths, message_id)
        for candidate in (lane, paths):
            if candidate is not None and _has(candidate, message_id):
                return candidate, message_id
    if len(message_id) < 4:
        raise UsageError(f"{message_id!r} is too short to name a message", "give at least four characters of its end")
    found = sorted(
        {(known, paths) for paths, known in message_ids(context) if known.endswith(message_id)},
        key=lambda pair: pair[0],
    )
    if not found:
        raise NotFoundError(
            f"there is no message {message_id} in {context.home.root}",
            "beam queue list; beam log",
            subject=message_id,
        )
    if len(found) > 1:
        names = ", ".join(known for known, _ in found[:4])
        raise UsageError(
            f"{message_id} matches {len(found)} messages: {names}",
            "give more characters of its end",
            subject=message_id,
        )
    return found[0][1], found[0][0]


def _lane(paths: AgentPaths, message_id: str) -> AgentPaths | None:
    suffix = message_id.rpartition("-")[2]
    lane = paths.lane_of(suffix)
    return lane if lane.dir.is_dir() else None


def _has(paths: AgentPaths, message_id: str) -> bool:
    return queue_of(paths).find(message_id) is not None or message_id in read_state(paths.journal).known


def message_ids(context: RootContext) -> Iterator[tuple[AgentPaths, str]]:
    for paths in all_paths(context):
        for box in BOXES:
            for entry in queue_of(paths).entries(box):
                yield paths, entry.id
        for known in read_state(paths.journal).known:
            yield paths, known
