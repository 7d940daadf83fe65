"""Finds the turns of other agents that were at work in a folder at the same time as a turn, from their journals."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from msgspec import Struct

from beam.base.clock import recorded_ns
from beam.base.errors import DiskError
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.root import discovery
from beam.root.paths import AgentPaths
from beam.store.lock import is_held
from beam.store.reader import Reader
from beam.store.segment import segments

_COARSE_NS = 1_000_000_000  # file systems tell times less exactly than events


class SeenTurn(Struct, kw_only=True):
    """A turn with snapshots of a folder, from `began` to `ended` (RFC 3339; null: it did not end, as far as its journal
    goes). `is_own`: it is the turn that is looked at itself. `is_running`: a process runs it. `named` are the files
    that its CLI named as changed."""

    agent: str
    is_own: bool
    began: str
    ended: str | None = None
    is_running: bool = False
    named: set[str]


def turns_in(context: RootContext, folder: str, since: str, own: AgentPaths, number: int | None) -> list[SeenTurn]:
    """Return the turns of all roots in the work tree `folder` that did not end before `since`. The turn `number` of the
    agent or lane `own` is looked at."""
    found: list[SeenTurn] = []
    roots = discovery.known_roots(context.environ)
    for home in roots if context.home in roots else [context.home, *roots]:
        for name in home.agents():
            for paths in (home.agent(name), *home.agent(name).lanes()):
                if _was_written(paths, recorded_ns(since) - _COARSE_NS) or is_held(paths.lock):
                    with contextlib.suppress(DiskError):  # `beam doctor` names a damaged journal
                        turns = _turns(paths, folder, number if paths.dir == own.dir else None)
                        found += [turn for turn in turns if (turn.ended or since) >= since]
    return found


def _was_written(paths: AgentPaths, since_ns: int) -> bool:
    """Return whether an event was recorded in the agent's journal at that time or later."""
    for name in segments(paths.journal)[-1:]:
        try:
            return os.stat(paths.journal / name).st_mtime_ns >= since_ns  # noqa: PTH116 - it may vanish
        except OSError:
            return False
    return False


def _turns(paths: AgentPaths, folder: str, own: int | None) -> Iterator[SeenTurn]:
    found: dict[int | None, SeenTurn] = {}
    for event in Reader(paths.journal, 0).poll():
        if isinstance(event, events.WorkTreeRecorded) and event.folder == folder and event.turn not in found:
            found[event.turn] = SeenTurn(agent=paths.agent, is_own=event.turn == own, began=event.ts, named=set())
        elif isinstance(event, events.FileChanged) and event.turn in found:
            found[event.turn].named.add(event.path)
        elif isinstance(event, events.TurnFinished) and event.turn in found:
            found[event.turn].ended = event.ts
    is_lock_held = any(turn.ended is None for turn in found.values()) and is_held(paths.lock)
    for turn in found.values():
        turn.is_running = turn.ended is None and is_lock_held
        yield turn
