"""Mailboxes: taken for the time of a lease, answered once, offered again."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from beam.api.messages import find_outcome
from beam.base.clock import rfc3339
from beam.base.errors import NotFoundError, UnfinishedError, UnsupportedError, UsageError
from beam.broker.asking import mailbox
from beam.broker.asking.follow import follow, outcome_in
from beam.broker.holder.duty import ensure_running
from beam.model import events
from beam.model.message import SessionContext
from beam.model.outcome import Class, Status
from beam.model.settings import LEASE_S
from beam.store.journal import read_state
from beam.store.lock import try_lock
from tests.support.context import FakeClock, Root
from tests.support.counted import operations


def recv(root: Root, lease: float | None = None) -> str | None:
    message = mailbox.recv(root.context, root.place("box"), lease)
    return message.id if message is not None else None


def reply(root: Root, message_id: str, text: str = "yes", *, failed: bool = False) -> tuple[Status, int]:
    outcome = mailbox.reply(root.context, root.place("box"), message_id, text, failed=failed)
    return outcome.status, outcome.exit_code


@pytest.mark.slow
def test_messages_are_taken_in_order_one_at_a_time_and_answered(root: Root) -> None:
    first, second = root.put("box", "1", sender="asker", reply="queue"), root.put("box", "2")
    assert recv(root) == first.id
    with pytest.raises(UnfinishedError, match=f"{first.id} was taken"):
        recv(root)
    root.clock.sleep(2)
    outcome = mailbox.reply(root.context, root.place("box"), first.id, "yes", failed=False)
    assert (outcome.status, outcome.reply, outcome.duration_s, outcome.via) == (Status.COMPLETED, "yes", 2.0, "mailbox")
    assert [event.text for event in root.events("box") if isinstance(event, events.Text)] == ["yes"]
    assert len(root.boxes("asker")["new"]) == 1
    assert recv(root) == second.id
    assert reply(root, second.id) == (Status.COMPLETED, 0)
    assert recv(root) is None
    assert root.boxes("box") == {}


def cost(folder: Path, waiting: int, *, is_waited_for: bool) -> list[Counter[str]]:
    """What each step does with a mailbox in which so many messages wait; with `is_waited_for` somebody who sent the
    last of them looks whether it is answered."""
    folder.mkdir()
    root = Root(folder, limits="{waiting: 1000}")
    place = root.place("box")
    messages = [root.message("box", f"text {number}") for number in range(waiting)]
    root.queue("box").put_all(messages, root.clock, root.context.config.limits)
    last = messages[-1].id
    if is_waited_for:
        ensure_running(root.context, place, last)
    found = [
        operations(lambda: root.put("box", "one more")),
        operations(lambda: recv(root)),
        operations(lambda: reply(root, messages[0].id)),
        operations(lambda: ensure_running(root.context, place, last)),
        operations(lambda: next(follow(root.context, place, last, seen=_nobody))),
        operations(lambda: find_outcome(place, last)),
    ]
    assert recv(root) == messages[1].id
    return found


@pytest.mark.slow
@pytest.mark.parametrize("is_waited_for", [False, True])
def test_a_mailbox_costs_the_same_however_many_messages_wait_in_it(tmp_path: Path, is_waited_for: bool) -> None:
    cost(tmp_path / "first", 10, is_waited_for=is_waited_for)  # imports what the others have then
    few = cost(tmp_path / "few", 10, is_waited_for=is_waited_for)
    many = cost(tmp_path / "many", 400, is_waited_for=is_waited_for)
    assert all(step["open"] and step["listdir"] for step in few)
    assert few == many


@pytest.mark.slow
def test_who_waits_for_one_message_does_not_list_those_that_wait_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    place = root.place("box")
    messages = [root.message("box", f"text {number}") for number in range(50)]
    root.queue("box").put_all(messages, root.clock, root.context.config.limits)
    last = messages[-1].id
    ensure_running(root.context, place, last)  # the first look notes its place in the journal
    listed: list[str] = []
    names = os.listdir

    def counted(path: Path) -> list[str]:
        found = names(path)
        listed.extend(name for name in found if name.endswith(".json") and path == place.queue / "new")
        return found

    monkeypatch.setattr(os, "listdir", counted)
    ensure_running(root.context, place, last)
    next(follow(root.context, place, last, seen=_nobody))
    assert listed == []
    assert recv(root) == messages[0].id  # the recovery that comes first looks for what is open by its name
    assert len(listed) == 50


def test_a_message_whose_file_has_another_position_by_hand_is_not_gone(root: Root) -> None:
    message = root.put("box")
    place = root.place("box")
    ensure_running(root.context, place, message.id)
    (file,) = (place.queue / "new").iterdir()
    position, _, rest = file.name.partition("-")
    file.rename(file.with_name(f"{int(position) + 1:020d}-{rest}"))
    ensure_running(root.context, place, message.id)
    assert root.boxes("box") == {"new": [message.id]}
    next((place.queue / "new").iterdir()).unlink()
    ensure_running(root.context, place, message.id)
    assert outcome_in(place, read_state(place.journal), message.id) is not None


def _nobody(event: object) -> None:
    """Ignore the event."""


@pytest.mark.slow
def test_of_messages_that_wait_behind_another_only_the_one_that_somebody_waits_for_ends_at_its_deadline(
    root: Root,
) -> None:
    deadline = rfc3339(root.clock.now_ns() + 10**9)
    first, second, third = (root.put("box", text, deadline=deadline) for text in "123")
    root.clock.sleep(2)
    ensure_running(root.context, root.place("box"), second.id)
    assert sorted(root.boxes("box")["new"]) == sorted([first.id, third.id])
    assert outcome_in(root.place("box"), read_state(root.place("box").journal), second.id) is not None
    assert recv(root) is None  # it does not take what is too late
    assert "new" not in root.boxes("box")


@pytest.mark.slow
def test_an_answer_comes_once(root: Root) -> None:
    message = root.put("box")
    with pytest.raises(NotFoundError):
        reply(root, message.id)
    recv(root)
    reply(root, message.id)
    with pytest.raises(NotFoundError, match="not waiting for an answer"):
        reply(root, message.id)


@pytest.mark.slow
def test_a_failure_needs_a_reason_and_becomes_a_dead_letter(root: Root) -> None:
    message = root.put("box")
    recv(root)
    with pytest.raises(UsageError, match="needs a reason"):
        reply(root, message.id, " ", failed=True)
    assert reply(root, message.id, "no time", failed=True) == (Status.FAILED, 1)
    finished = [event for event in root.events("box") if isinstance(event, events.TurnFinished)]
    assert [(event.class_, event.reason, event.reply) for event in finished] == [(Class.UNKNOWN, "no time", None)]
    assert root.boxes("box") == {"dead": [message.id]}


@pytest.mark.slow
@pytest.mark.parametrize("lease", [None, 5.0])
def test_an_unanswered_message_is_offered_again_when_its_lease_is_over(root: Root, lease: float | None) -> None:
    message = root.put("box")
    assert recv(root, lease) == message.id
    root.clock.sleep((lease or LEASE_S) - 1)
    with pytest.raises(UnfinishedError):
        recv(root)
    root.clock.sleep(1)
    again = mailbox.recv(root.context, root.place("box"), None)
    assert again is not None
    assert (again.id, again.attempt) == (message.id, 2)
    assert reply(root, message.id) == (Status.COMPLETED, 0)


def test_an_answer_after_the_lease_is_refused_and_the_message_waits_again(root: Root) -> None:
    message = root.put("box")
    recv(root, 1.0)
    root.clock.sleep(1)
    with pytest.raises(NotFoundError, match="its lease ran out"):
        reply(root, message.id)
    assert root.boxes("box") == {"new": [message.id]}


@pytest.mark.slow
def test_an_answer_that_was_recorded_is_routed_by_the_next_holder_though_the_lease_goes_on(root: Root) -> None:
    message = root.put("box", sender="asker", reply="queue")
    recv(root)
    lease = root.hold("box")
    finished = events.TurnFinished(status=Status.COMPLETED, reply="yes")
    lease.log.record(finished, turn=1, message_id=message.id, sync=True)
    lease.close()
    assert recv(root) is None
    assert root.boxes("box") == {}
    assert len(root.boxes("asker")["new"]) == 1


def test_a_message_whose_taker_died_before_it_was_sent_out_is_offered_at_once(root: Root) -> None:
    message = root.put("box")
    lease = root.hold("box")
    (entry,) = lease.waiting.scan()
    assert lease.waiting.claim(entry) is not None
    started = events.TurnStarted(
        owner=events.Owner(pid=1, start_ticks=1, host="another.host"),
        turn_key="k",
        adapter="mailbox",
        via="mailbox",
        lease_until="2999-01-01T00:00:00Z",
    )
    lease.log.record(started, turn=1, message_id=message.id, sync=True)
    lease.close()
    again = mailbox.recv(root.context, root.place("box"), None)
    assert again is not None
    assert (again.id, again.attempt) == (message.id, 1)


def test_only_mailboxes_are_received_from(root: Root) -> None:
    with pytest.raises(UnsupportedError, match="worker is not a mailbox"):
        mailbox.recv(root.context, root.place("worker"), None)


def test_a_mailbox_that_somebody_else_holds_is_waited_for_a_while(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = try_lock(root.place("box").lock)
    assert lock is not None
    monkeypatch.setattr(FakeClock, "monotonic", _tick)
    with lock, pytest.raises(UnfinishedError, match="held by another process"):
        recv(root)


def _tick(clock: FakeClock) -> float:
    clock.elapsed += 4
    return clock.elapsed


@pytest.mark.slow
def test_a_journal_of_a_busy_mailbox_begins_new_segments(tmp_path: Path) -> None:
    root = Root(tmp_path, limits="{segment_bytes: 1}")
    for _ in range(8):
        message = root.put("box", "x" * 500)
        recv(root)
        reply(root, message.id)
    assert len(list(root.place("box").journal.iterdir())) > 1


def test_a_paused_mailbox_gives_nothing_out(root: Root) -> None:
    message = root.put("box")
    lease = root.hold("box")
    lease.log.record(events.QueuePaused(by="ann"), sync=True)
    lease.close()
    assert recv(root) is None
    assert root.boxes("box") == {"new": [message.id]}


def test_a_message_that_was_written_in_no_turn_is_shown_with_the_mailboxes_own(root: Root) -> None:
    root.put("box", "by a person")
    root.put("box", "by an agent", session_context=SessionContext(turn_number=7))
    found = []
    for _ in range(2):
        message = mailbox.recv(root.context, root.place("box"), None)
        assert message is not None
        mailbox.reply(root.context, root.place("box"), message.id, "ok", failed=False)
        found.append(message.session_context.turn_number)
    assert found == [1, 7]
