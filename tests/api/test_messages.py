"""A message is shown from its queue to its outcome; a queue is listed."""

from __future__ import annotations

from beam.api.messages import Pending, find_outcome, queue_items
from beam.broker import mailbox
from beam.model.outcome import Outcome
from tests.support.context import Root


def test_a_message_is_shown_from_its_queue_to_its_outcome(root: Root) -> None:
    first, second = root.put("box", "one"), root.put("box", "two")
    place = root.place("box")
    waiting = find_outcome(place, second.id)
    assert isinstance(waiting, Pending)
    assert (waiting.status, waiting.position, waiting.text) == ("waiting", 1, "two")
    mailbox.recv(root.context, place, None)
    running = find_outcome(place, first.id)
    assert isinstance(running, Pending)
    assert running.status == "running"
    mailbox.reply(root.context, place, first.id, "done", failed=False)
    over = find_outcome(place, first.id)
    assert isinstance(over, Outcome)
    assert over.reply == "done"


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
