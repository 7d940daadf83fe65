"""Named points at which a test may end the process, as a power cut would.

Each point is before or after one durable step of a turn (docs/files.md lists the points in order). Without
`BEAM_CRASH_AT` in the environment a point costs one comparison.
"""

from __future__ import annotations

import os

CRASH_POINTS = (
    "put.written",
    "put.renamed",
    "put.published",
    "claim.before",
    "claim.renamed",
    "claim.recorded",
    "turn.before",
    "turn.started",
    "agent.spawned",
    "agent.started",
    "prompt.before",
    "prompt.sent",
    "agent.running",
    "prompt.written",
    "outbox.put",
    "outbox.taken",
    "outbox.removed",
    "agent.exited",
    "finish.before",
    "finish.recorded",
    "route.before",
    "route.put",
    "route.told",
    "close.before",
    "close.recorded",
    "dead.recorded",
    "dead.moved",
    "remove.before",
    "removed",
    "requeue.recorded",
    "requeue.moved",
    "offer.rewritten",
    "offer.recorded",
    "ask.recorded",
    "ask.shown",
    "decision.recorded",
    "decision.shown",
    "control.published",
    "control.before",
    "control.done",
    "control.removed",
    "retry.published",
    "edit.rewritten",
    "repair.ended",
    "repair.noted",
    "segment.written",
    "segment.renamed",
    "segment.published",
    "archive.before",
    "archive.done",
    "restore.before",
    "restore.done",
    "rename.before",
    "rename.moved",
    "rename.recorded",
    "undo.before",
    "undo.recorded",
    "undo.written",
)

_armed_point = os.environ.get("BEAM_CRASH_AT", "")


def crash_point(point: str) -> None:
    """End the process by SIGKILL if `BEAM_CRASH_AT` names this point."""
    if point == _armed_point:
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
