"""What people look at: messages by any ending of their id, queues, agents; nothing is created by looking."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from beam.api import look
from beam.base.errors import NotFoundError, UsageError
from beam.broker import mailbox
from beam.model import events
from beam.model.outcome import Outcome
from beam.process import tree
from tests.support.context import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_a_message_is_found_by_its_whole_id_or_a_unique_ending(root: Root) -> None:
    message = root.put("box")
    place = root.place("box")
    assert look.find_place(root.context, message.id) == (place, message.id)
    assert look.find_place(root.context, message.id[-4:]) == (place, message.id)


def test_a_short_an_unknown_and_an_ambiguous_ending_are_refused(root: Root) -> None:
    for ident in ("box-1aaaabbbb", "box-2aaaabbbb"):
        root.put("box", id=ident)
    with pytest.raises(UsageError, match="too short"):
        look.find_place(root.context, "bbb")
    with pytest.raises(NotFoundError, match="no message"):
        look.find_place(root.context, "zzzz")
    with pytest.raises(UsageError, match="names 2 messages"):
        look.find_place(root.context, "bbbb")


def test_a_message_is_shown_from_its_queue_to_its_outcome(root: Root) -> None:
    first, second = root.put("box", "one"), root.put("box", "two")
    place = root.place("box")
    waiting = look.shown(place, second.id)
    assert isinstance(waiting, look.Pending)
    assert (waiting.status, waiting.position, waiting.text) == ("waiting", 1, "two")
    mailbox.recv(root.context, place, None)
    running = look.shown(place, first.id)
    assert isinstance(running, look.Pending)
    assert running.status == "running"
    mailbox.reply(root.context, place, first.id, "done", failed=False)
    over = look.shown(place, first.id)
    assert isinstance(over, Outcome)
    assert over.reply == "done"


def test_a_queue_lists_what_runs_what_waits_and_what_is_damaged(root: Root) -> None:
    root.put("box", "one")
    second = root.put("box", "two")
    mailbox.recv(root.context, root.place("box"), None)
    (root.place("box").queue / "dead" / "00000000000000000009-box-zzzz.json").write_bytes(b"{")
    items = list(look.queue_items(root.context, ["box"]))
    assert [(item.box, item.text, item.error is not None) for item in items] == [
        ("running", "one", False),
        ("waiting", "two", False),
        ("dead", "", True),
    ]
    assert items[1].id == second.id


def test_a_status_counts_and_names_the_oldest(root: Root) -> None:
    root.put("box", "one", timestamp="2026-01-01T00:00:01.000000Z")
    root.put("box", "two", timestamp="2026-01-01T00:00:02.000000Z")
    status = look.status_of(root.context, root.place("box"))
    assert (status.waiting, status.dead, status.oldest) == (2, 0, "2026-01-01T00:00:01.000000Z")
    assert (status.adapter, status.running, status.last, status.error) == ("mailbox", None, None, None)


def test_a_damaged_journal_is_said_not_raised(root: Root) -> None:
    root.put("box")
    root.hold("box").close()
    (segment,) = root.place("box").journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n" + segment.read_bytes())
    assert "damaged" in (look.status_of(root.context, root.place("box")).error or "")


def test_an_agent_line_says_what_is_missing(root: Root) -> None:
    assert look.agent_line(root.context, "worker").installed == ""
    assert look.agent_line(root.context, "claude").installed is None
    assert "nobody" in (look.agent_line(root.context, "nobody").error or "")


def test_looking_at_an_agent_creates_nothing(root: Root) -> None:
    look.agent_shown(root.context, "worker")
    look.status_of(root.context, root.context.place("worker"))
    list(look.queue_items(root.context, root.context.home.agents()))
    assert not root.context.home.root.exists()


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_kept_terminal_is_told_only_while_its_holder_lives(root: Root, is_alive: bool) -> None:
    owner = tree.this_process() if is_alive else replace(tree.this_process(), start_ticks=1)
    lease = root.hold("worker")
    started = events.TurnStarted(owner=owner, turn_key="k", adapter="command", via="terminal")
    lease.log.record(started, turn=1, message_id="worker-m")
    lease.log.record(events.AgentKept(pid=1), turn=1, message_id="worker-m")
    lease.close()
    assert (look.status_of(root.context, root.place("worker")).kept is not None) == is_alive
