"""A vendor's session is driven by one root at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from beam.base.errors import LimitError
from beam.broker.holder import turn as agent_turn
from beam.broker.holder.lease import session_lock
from beam.model import events
from beam.model.outcome import Status
from beam.turns.handle import Stop
from tests.support.context import Root


def take(root: Root, session_id: str) -> None:
    with session_lock(root.context, "claude", session_id):
        pass


def test_a_session_is_had_once_at_a_time(root: Root) -> None:
    with session_lock(root.context, "claude", "s1"):
        with pytest.raises(LimitError, match="claude session s1 is in a turn of another root"):
            take(root, "s1")
        with session_lock(root.context, "claude", "s2"), session_lock(root.context, "codex", "s1"):
            pass
    with session_lock(root.context, "claude", "s1"):
        pass


def test_a_turn_without_a_session_needs_no_lock(root: Root) -> None:
    with session_lock(root.context, "claude", None), session_lock(root.context, "claude", None):
        pass
    assert not (Path(root.environ["HOME"]) / ".local").exists()


@pytest.mark.parametrize("session_id", ["../../etc/passwd", "a b", "x" * 1000, "ä", "\ud800", ""])
def test_any_text_is_a_sessions_id(root: Root, session_id: str) -> None:
    with session_lock(root.context, "claude", session_id), pytest.raises(LimitError):
        take(root, session_id)


def test_sessions_of_other_programs_may_have_the_same_id(root: Root) -> None:
    with session_lock(root.context, "command", "1", scope="/a"), session_lock(root.context, "command", "1", scope="/b"):
        pass


@pytest.mark.slow
def test_a_message_whose_session_is_taken_ends_with_the_limit_and_can_be_retried(root: Root) -> None:
    message = root.put("worker", sender="asker", reply="queue")
    lease = root.hold("worker")
    started = events.TurnStarted(owner=events.Owner(pid=1, start_ticks=1), turn_key="k", adapter="command", via="exec")
    lease.log.record(started, turn=1)
    lease.log.record(events.SessionStarted(session_id="s1"), turn=1)
    lease.log.record(events.TurnClosed(), turn=1)
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None

    async def run() -> tuple[Status, str | None, int | None]:
        outcome = await agent_turn.run(lease, *claimed, Stop())
        return outcome.status, outcome.reason, outcome.turn

    with session_lock(root.context, "command", "s1", scope=str(root.context.home.project)):
        status, reason, turn = asyncio.run(run())
    assert (status, turn) == (Status.LIMIT, None)
    assert "is in a turn of another root" in (reason or "")
    assert root.boxes("worker") == {"dead": [message.id]}
    assert len(root.boxes("asker")["new"]) == 1
    assert lease.turn is None
    lease.close()
