"""What an agent does now; nothing is created by looking."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from beam.api.agents import agent_details
from beam.api.messages import queue_items
from beam.api.status import status_of
from beam.model import events
from beam.process import tree
from tests.support.context import Root


def test_a_status_counts_and_names_the_oldest(root: Root) -> None:
    root.put("box", "one", timestamp="2026-01-01T00:00:01.000000Z")
    root.put("box", "two", timestamp="2026-01-01T00:00:02.000000Z")
    status = status_of(root.context, root.place("box"))
    assert (status.waiting, status.dead, status.oldest) == (2, 0, "2026-01-01T00:00:01.000000Z")
    assert (status.adapter, status.running, status.last, status.error) == ("mailbox", None, None, None)


def test_a_damaged_journal_is_reported_not_raised(root: Root) -> None:
    root.put("box")
    root.hold("box").close()
    (segment,) = root.place("box").journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n" + segment.read_bytes())
    assert "damaged" in (status_of(root.context, root.place("box")).error or "")


def test_looking_at_an_agent_creates_nothing(root: Root) -> None:
    agent_details(root.context, "worker")
    status_of(root.context, root.context.agent_paths("worker"))
    list(queue_items(root.context, root.context.home.agents()))
    assert not root.context.home.root.exists()


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_kept_terminal_is_told_only_while_its_holder_lives(root: Root, is_alive: bool) -> None:
    owner = tree.this_process() if is_alive else replace(tree.this_process(), start_ticks=1)
    lease = root.hold("worker")
    started = events.TurnStarted(owner=owner, turn_key="k", adapter="command", via="terminal")
    lease.log.record(started, turn=1, message_id="worker-m")
    lease.log.record(events.AgentKept(pid=1), turn=1, message_id="worker-m")
    lease.close()
    assert (status_of(root.context, root.place("worker")).kept is not None) == is_alive


def test_a_dead_letter_counts_for_as_long_as_the_journal_remembers_it(root: Root) -> None:
    message = root.put("worker")
    lease = root.hold("worker")
    lease.log.record(events.MessageQueued(sender="human", digest="d"), message_id=message.id)
    lease.log.record(events.MessageDead(reason="failed"), message_id=message.id, sync=True)
    lease.log.queue.move(lease.log.queue.entries("new")[0], "dead")
    lease.close()
    days = root.context.config.limits.known_ids_days
    root.clock.sleep(days * 86400 - 60)
    assert status_of(root.context, root.place("worker")).dead == 1
    root.clock.sleep(120)
    assert status_of(root.context, root.place("worker")).dead == 0
    (root.place("worker").queue / "dead" / "00000000000000000009-worker-forgotten.json").write_bytes(b"{}")
    assert status_of(root.context, root.place("worker")).dead == 0
    (segment,) = root.place("worker").journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n" + segment.read_bytes())
    assert status_of(root.context, root.place("worker")).dead == 2, "nobody can know which of them were seen"
