"""Compares an agent's work tree as it is now with its state before a turn."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from beam.api.find import all_paths
from beam.base.errors import NotFoundError, UsageError
from beam.broker.inbox.context import RootContext
from beam.model.events import AnyEvent, SessionStarted, WorkTreeRecorded, WorkTreeUndone
from beam.root.paths import AgentPaths
from beam.store.reader import Reader, last_events
from beam.turns.snapshot import SnapshotChanges, WorkTree

_NO_SNAPSHOT_HINT = "one is made before a turn with access above `read` of an agent CLI"

_TAIL_BYTES = 64 << 10  # of a journal, in which its last snapshot is looked for first


class WorkTreeDiff(Struct, frozen=True, kw_only=True):
    """The changes in the work tree `folder` since a turn began. `turn` is the turn's number, `ts` the time when it
    began (RFC 3339)."""

    agent: str
    folder: str
    turn: int | None
    ts: str
    changes: SnapshotChanges


async def diff(
    context: RootContext,
    paths: AgentPaths,
    *,
    message_id: str | None = None,
    turn: int | None = None,
    session: bool = False,
) -> WorkTreeDiff:
    """Return the changes in the work tree since a turn began: the turn of the message `message_id`, the turn with the
    number `turn`, the first turn of the session (with `session`), or by default the agent's last turn.

    Raises NotFoundError if no snapshot was made for that turn, UsageError if the folder is gone or the parameters
    contradict each other, GitError.
    """
    if message_id is not None and (turn is not None or session):
        raise UsageError("a message's id says which turn is meant", "leave out --turn and --session")
    if turn is not None and session:
        raise UsageError("--turn and --session don't go together")
    journal = Reader(paths.journal, 0).poll()
    before = record_before(paths, journal, message_id=message_id, turn=turn, session=session)
    tree = work_tree_of(context, paths, before.folder)
    changes = await tree.compare(before.tree or "", await tree.take_with_copied_index(paths.agent))
    return WorkTreeDiff(agent=paths.agent, folder=before.folder, turn=before.turn, ts=before.ts, changes=changes)


def last_recorded(
    context: RootContext,
    agents: list[str] | None = None,
    kind: type[WorkTreeRecorded] | type[WorkTreeUndone] = WorkTreeRecorded,
) -> AgentPaths:
    """Return the agent, or the lane of a `--once` message, with the last event of this kind among these agents
    (default: all): by default, with the last turn before which a snapshot was made. Raises NotFoundError if there is
    none."""
    found = [(ts, paths) for paths in all_paths(context, agents) if (ts := _last_ts(paths, kind))]
    if found:
        return max(found, key=lambda each: each[0])[1]
    if agents is not None and len(agents) == 1:
        return context.agent_paths(agents[0])
    raise NotFoundError("no snapshot of a work tree was made here", _NO_SNAPSHOT_HINT)


def _last_ts(paths: AgentPaths, kind: type[WorkTreeRecorded] | type[WorkTreeUndone]) -> str:
    """Return the time of the last event of this kind in the journal; "" if it has none."""
    size, is_whole, ts = _TAIL_BYTES, False, ""
    while not is_whole and not ts:
        journal, is_whole = last_events(paths.journal, size)
        size *= 16
        ts = max((event.ts for event in journal if isinstance(event, kind)), default="")
    return ts


def work_tree_of(context: RootContext, paths: AgentPaths, folder: str) -> WorkTree:
    """Return the work tree of a snapshot. Raises UsageError if it is gone."""
    if not os.path.isdir(folder):  # noqa: PTH112 - any text may be a path here
        raise UsageError(f"{folder} is gone, so nothing can be compared", subject=paths.agent)
    return WorkTree.at(context.home.snapshots, Path(folder), context.environ)


def record_before(
    paths: AgentPaths,
    journal: list[AnyEvent],
    *,
    message_id: str | None,
    turn: int | None = None,
    session: bool = False,
) -> WorkTreeRecorded:
    """Return the record of the snapshot before a turn: of the message's turn, of the turn with that number, of the
    session's first turn, or by default the last record. Raises NotFoundError if no snapshot was made."""
    records = [event for event in journal if isinstance(event, WorkTreeRecorded) and event.at == "start"]
    if message_id is not None:
        records = [record for record in records if record.message_id == message_id]
    elif turn is not None:
        records = [record for record in records if record.turn == turn]
    elif session:
        starts = [event.turn or 0 for event in journal if isinstance(event, SessionStarted) and not event.resumed]
        records = [record for record in records if (record.turn or 0) >= max(starts, default=0)][:1]
    if not records:
        when = "in that turn" if turn is not None or message_id is not None else "for this agent"
        raise NotFoundError(f"no snapshot of the work tree was made {when}", _NO_SNAPSHOT_HINT, subject=paths.agent)
    if records[-1].tree is None:
        raise NotFoundError(
            f"no snapshot of the work tree was made then: {records[-1].reason}", "git diff", subject=paths.agent
        )
    return records[-1]
