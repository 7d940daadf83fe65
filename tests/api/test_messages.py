"""A message is shown from its queue to its outcome; a queue is listed."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from beam.api.messages import PendingMessage, QueueItem, find_outcome, queue_items
from beam.base.errors import NotFoundError
from beam.broker.asking import mailbox
from beam.model.outcome import Outcome
from tests.support.context import Root
from tests.support.journals import record, started
from tests.support.refused import refused


@pytest.mark.slow
def test_a_message_is_shown_from_its_queue_to_its_outcome(root: Root) -> None:
    first, second = root.put("box", "one"), root.put("box", "two")
    place = root.place("box")
    waiting = find_outcome(place, second.id)
    assert isinstance(waiting, PendingMessage)
    assert (waiting.status, waiting.position, waiting.text) == ("waiting", 1, "two")
    mailbox.recv(root.context, place, None)
    running = find_outcome(place, first.id)
    assert isinstance(running, PendingMessage)
    assert running.status == "running"
    mailbox.reply(root.context, place, first.id, "done", failed=False)
    over = find_outcome(place, first.id)
    assert isinstance(over, Outcome)
    assert over.reply == "done"


def test_a_dead_letter_that_the_journal_forgot_is_named_as_such(root: Root) -> None:
    message = root.put("box")
    queue = root.queue("box")
    queue.move(queue.entries("new")[0], "dead")
    with pytest.raises(NotFoundError, match=f"{message.id} is a dead letter; .* no longer known"):
        find_outcome(root.place("box"), message.id)


def test_a_queue_lists_what_runs_what_waits_and_what_is_damaged(root: Root) -> None:
    root.put("box", "one")
    second = root.put("box", "two")
    mailbox.recv(root.context, root.place("box"), None)
    (root.place("box").queue / "dead" / "00000000000000000009-box-zzzz.json").write_bytes(b"{")
    items = list(queue_items(root.context, ["box"]))
    assert [(item.box, item.text, item.error is not None) for item in items] == [
        ("running", "one", False),
        ("waiting", "two", False),
        ("dead", "", True),
    ]
    assert items[1].id == second.id


@pytest.mark.slow
def test_a_queue_is_listed_item_by_item(root: Root) -> None:
    first = root.put("box", "one", hops=2, attempt=3, sender="asker")
    damaged = root.put("box", "two")
    mailbox.recv(root.context, root.place("box"), None)
    mailbox.reply(root.context, root.place("box"), first.id, "no", failed=True)
    third = root.put("asker", "three")
    queue = root.queue("box")
    entry = queue.find(damaged.id)
    assert entry is not None
    queue.path(entry).write_bytes(b"{")
    bad, dead, other = queue_items(root.context, ["box", "asker"])
    assert bad.error and structs.replace(bad, error=None) == QueueItem(id=damaged.id, agent="box", box="waiting")
    timestamp = "2026-01-01T00:00:00.000000Z"
    assert dead == QueueItem(
        id=first.id,
        agent="box",
        box="dead",
        sender="asker",
        timestamp=timestamp,
        attempt=3,
        hops=2,
        text="one",
        reason="failed",
    )
    assert other == QueueItem(
        id=third.id, agent="asker", box="waiting", sender="human", timestamp=timestamp, text="three"
    )
    assert msgspec.to_builtins(other)["from"] == "human"


def claimed(root: Root, agent: str = "worker") -> str:
    """A message that was claimed; its holder died."""
    message = root.put(agent, "hi", attempt=2)
    record(root, agent, started(1, message.id))
    (path,) = (root.place(agent).queue / "new").iterdir()
    path.rename(path.parent.parent / "cur" / path.name)
    return message.id


def test_a_message_whose_holder_died_is_said_to_have(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = claimed(root)
    place = root.place("worker")
    running = PendingMessage(
        message_id=message_id, agent="worker", turn=1, status="running", attempt=2, position=0, text="hi"
    )
    assert find_outcome(place, message_id) == running
    assert [item.box for item in queue_items(root.context, ["worker"])] == ["running"]
    monkeypatch.setattr("beam.process.tree.is_alive", lambda owner: False)
    assert find_outcome(place, message_id) == structs.replace(running, status="died")
    assert [item.box for item in queue_items(root.context, ["worker"])] == ["died"]


def test_a_message_that_can_not_be_read_is_shown_without_its_text(root: Root) -> None:
    message = root.put("box", "one")
    (path,) = (root.place("box").queue / "new").iterdir()
    path.write_bytes(b"{")
    shown = find_outcome(root.place("box"), message.id)
    assert shown == PendingMessage(message_id=message.id, agent="box", status="running", attempt=1, position=0, text="")


@pytest.mark.slow
def test_a_retried_message_is_pending_though_it_has_an_outcome(root: Root) -> None:
    message = root.put("box", "one")
    mailbox.recv(root.context, root.place("box"), None)
    mailbox.reply(root.context, root.place("box"), message.id, "no", failed=True)
    dead = find_outcome(root.place("box"), message.id)
    assert isinstance(dead, Outcome) and dead.status == "failed"
    (path,) = (root.place("box").queue / "dead").iterdir()
    path.rename(path.parent.parent / "new" / path.name)
    again = find_outcome(root.place("box"), message.id)
    assert isinstance(again, PendingMessage) and again.status == "waiting"


def test_a_message_that_is_nowhere_is_not_found(root: Root) -> None:
    with refused(NotFoundError, "box-1 is not in the queue and has no outcome", subject="box-1"):
        find_outcome(root.place("box"), "box-1")
    (root.place("box").queue / "dead" / "00000000000000000009-box-1.json").write_bytes(b"{}")
    with pytest.raises(NotFoundError):
        find_outcome(root.place("box"), "box-1")
