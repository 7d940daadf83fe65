"""Compares an agent's work tree as it is now with its state before a turn."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from beam.base.errors import NotFoundError, UsageError
from beam.broker.inbox.context import RootContext
from beam.model.events import AnyEvent, SessionStarted, WorkTreeRecorded
from beam.root.paths import AgentPaths
from beam.store.reader import Reader
from beam.turns.snapshot import SnapshotChanges, WorkTree

_NO_SNAPSHOT_HINT = "one is made before a turn with access above `read` of an agent CLI that works in a git work tree"


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
    found = _baseline(Reader(paths.journal, 0).poll(), message_id=message_id, turn=turn, session=session)
    if found is None:
        when = "in that turn" if turn is not None or message_id is not None else "for this agent"
        raise NotFoundError(f"no snapshot of the work tree was made {when}", _NO_SNAPSHOT_HINT, subject=paths.agent)
    if found.tree is None:
        raise NotFoundError(
            f"no snapshot of the work tree was made then: {found.reason}", "git diff", subject=paths.agent
        )
    if not os.path.isdir(found.folder):  # noqa: PTH112 - any text may be a path here
        raise UsageError(f"{found.folder} is gone, so nothing can be compared", subject=paths.agent)
    tree = WorkTree.of(context.home.snapshots, Path(found.folder), context.environ)
    now = await tree.take_with_copied_index(paths.agent)
    changes = await tree.compare(found.tree, now)
    return WorkTreeDiff(agent=paths.agent, folder=found.folder, turn=found.turn, ts=found.ts, changes=changes)


def _baseline(
    journal: list[AnyEvent], *, message_id: str | None, turn: int | None, session: bool
) -> WorkTreeRecorded | None:
    """Return the record of the snapshot to compare with: of the message's turn, of the turn with that number, of the
    session's first turn, or by default the last record. Return None if there is no such record."""
    records = [event for event in journal if isinstance(event, WorkTreeRecorded)]
    if message_id is not None:
        records = [record for record in records if record.message_id == message_id]
    elif turn is not None:
        records = [record for record in records if record.turn == turn]
    elif session:
        starts = [event.turn or 0 for event in journal if isinstance(event, SessionStarted)]
        records = [record for record in records if (record.turn or 0) >= max(starts, default=0)][:1]
    return records[-1] if records else None
