"""Open asks as people see them: whose they are, what names them, and whom a decision reaches."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from beam.api.asks import find_ask, open_asks
from beam.api.status import status_of
from beam.base.errors import NotFoundError, UsageError
from beam.model import events
from beam.process import tree
from tests.support.context import Root


def asking(root: Root, agent: str, *ask_ids: str, decided: str = "", owner: events.Owner | None = None) -> None:
    """The agent is in a turn that waits for these decisions."""
    lease = root.hold(agent)
    started = events.TurnStarted(owner=owner or tree.this_process(), turn_key="k", adapter="command", via="exec")
    lease.log.record(started, turn=1, message_id=f"{agent}-m")
    for ask_id in ask_ids:
        asked = events.PermissionAsked(ask_id=ask_id, tool="Bash", description="ls", expires="2030-01-01T00:00:00Z")
        lease.log.record(asked, turn=1, message_id=f"{agent}-m")
    if decided:
        lease.log.record(events.PermissionDecided(ask_id=decided, decision="deny"), turn=1, message_id=f"{agent}-m")
    lease.close()


@pytest.mark.slow
def test_open_asks_are_listed_oldest_first_with_whose_they_are(root: Root) -> None:
    asking(root, "worker", "worker-bbbb")
    root.clock.sleep(1)
    asking(root, "other", "other-aaaa")
    found = open_asks(root.context)
    assert [(line.id, line.agent, line.message_id, line.turn) for line in found] == [
        ("worker-bbbb", "worker", "worker-m", 1),
        ("other-aaaa", "other", "other-m", 1),
    ]
    assert [line.id for line in open_asks(root.context, ["other"])] == ["other-aaaa"]
    running = status_of(root.context, root.context.agent_paths("worker")).running
    assert running is not None and [ask.id for ask in running.asks] == ["worker-bbbb"]


def test_an_ask_is_named_by_any_unique_end_of_four_characters(root: Root) -> None:
    asking(root, "worker", "worker-0abcdef", "worker-1abcdef", "worker-cdef")
    assert find_ask(root.context, "1abcdef")[1] == "worker-1abcdef"
    assert find_ask(root.context, "worker-cdef")[1] == "worker-cdef"
    with pytest.raises(UsageError, match="matches 3 asks"):
        find_ask(root.context, "cdef")
    with pytest.raises(UsageError, match="too short"):
        find_ask(root.context, "def")
    with pytest.raises(NotFoundError, match="no ask none is open"):
        find_ask(root.context, "none")


def test_what_was_decided_or_belongs_to_a_dead_holder_is_open_no_more(root: Root) -> None:
    asking(root, "worker", "worker-aaaa", "worker-bbbb", decided="worker-aaaa")
    assert [line.id for line in open_asks(root.context)] == ["worker-bbbb"]
    asking(root, "other", "other-aaaa", owner=replace(tree.this_process(), start_ticks=1))
    assert [line.id for line in open_asks(root.context)] == ["worker-bbbb"]


def test_asks_of_an_agent_whose_journal_is_damaged_keep_no_other_from_being_decided(root: Root) -> None:
    asking(root, "other", "other-aaaa")
    asking(root, "worker", "worker-bbbb")
    (segment,) = root.place("other").journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n")
    assert [line.id for line in open_asks(root.context)] == ["worker-bbbb"]
