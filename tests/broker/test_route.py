"""Where replies go: once, to whoever asked, and never in circles for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beam.base.errors import DiskError
from beam.broker.inbox import closing, launch
from beam.model import events
from beam.model.events import TurnFinished
from beam.model.message import SessionContext, decode
from beam.model.outcome import Class, Status
from beam.model.state import Session, State
from beam.store.lock import Lock, try_lock
from tests.support.context import Root

DONE = TurnFinished(turn=3, status=Status.COMPLETED, reply="yes")


@pytest.fixture
def other_is_held(root: Root) -> Iterator[Lock]:
    """Somebody holds `other`, so that no worker is started for what comes."""
    lock = try_lock(root.place("other").lock)
    assert lock is not None
    with lock:
        yield lock


def test_a_waited_for_reply_and_one_that_nobody_wants_go_nowhere(root: Root) -> None:
    for mode, said in (("wait", "waited"), ("none", "none")):
        message = root.message("worker", sender="asker", reply=mode)
        assert closing.route_reply(root.context, message, DONE, State()).reply == said
    assert root.boxes("asker") == {}


def test_a_reply_is_one_message_however_often_it_is_routed(root: Root) -> None:
    context = SessionContext(session_id="s-asker")
    message = root.message("worker", sender="asker", reply="queue", hops=4, session_context=context)
    state = State(session=Session(session_id="s-worker"))
    first = closing.route_reply(root.context, message, DONE, state)
    assert (first.reply, first.to) == ("queued", "asker")
    assert closing.route_reply(root.context, message, DONE, state) == first
    (path,) = (root.place("asker").queue / "new").iterdir()
    answer = decode(path.read_bytes())
    assert (answer.id, answer.sender, answer.to, answer.type, answer.reply_to) == (
        first.reply_id,
        "worker",
        "asker",
        "reply",
        message.id,
    )
    assert (answer.text, answer.hops, answer.thread, answer.reply) == ("yes", 5, "t", "none")
    assert (answer.session_context, answer.for_session) == (
        SessionContext(session_id="s-worker", turn_number=3),
        "s-asker",
    )


def test_a_finished_turn_is_closed_although_no_process_can_be_started_for_its_reply(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DiskError("can't start a process in x")

    monkeypatch.setattr(launch, "start_worker", fail)
    message = root.message("worker", sender="other", reply="queue")
    closed = closing.route_reply(root.context, message, DONE, State())
    assert closed.reply == "queued"
    assert root.boxes("other") == {"new": [closed.reply_id]}


def test_a_reply_that_its_receiver_has_dealt_with_is_not_put_again(root: Root) -> None:
    message = root.message("worker", sender="asker", reply="queue")
    closing.route_reply(root.context, message, DONE, State())
    lease = root.hold("asker")
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    closing.close_message(lease.log, *claimed, lease.log.record(DONE, message_id=entry.id))
    lease.close()
    closing.route_reply(root.context, message, DONE, State())
    assert root.boxes("asker") == {}


@pytest.mark.parametrize(
    ("wanted", "mode", "left"), [(None, "none", 0), (1, "none", 0), (2, "queue", 1), (20, "queue", 19)]
)
def test_an_answer_says_whether_it_is_answered(root: Root, wanted: int | None, mode: str, left: int) -> None:
    message = root.message("worker", sender="asker", reply="queue", replies=wanted)
    answer = closing.reply_message(root.context, message, DONE, State())
    assert answer is not None
    assert (answer.reply, answer.replies) == (mode, left)


def test_another_attempt_has_another_reply(root: Root) -> None:
    for attempt in (1, 2):
        message = root.message("worker", id="worker-1", sender="asker", reply="queue", attempt=attempt)
        closing.route_reply(root.context, message, DONE, State())
    assert len(root.boxes("asker")["new"]) == 2


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN, Status.TIMEOUT, Status.CANCELLED, Status.LIMIT])
def test_a_turn_without_an_answer_is_reported_and_ends_the_exchange(root: Root, status: Status) -> None:
    message = root.message("worker", sender="asker", reply="queue")
    class_ = Class.AUTH if status is Status.FAILED else None
    finished = TurnFinished(status=status, class_=class_, reason="no key")
    assert closing.route_reply(root.context, message, finished, State()).reply == "queued"
    (path,) = (root.place("asker").queue / "new").iterdir()
    answer = decode(path.read_bytes())
    assert answer.text.startswith(f"[beam] worker did not answer {message.id}: {status}")
    assert answer.text.endswith("no key")
    assert answer.reply == "none"


def test_end_is_not_delivered(root: Root) -> None:
    message = root.message("worker", sender="asker", reply="queue")
    closed = closing.route_reply(
        root.context, message, TurnFinished(status=Status.COMPLETED, reply="`END`.\n"), State()
    )
    assert (closed.reply, closed.detail) == ("none", "it said END")
    assert root.boxes("asker") == {}


def test_silence_is_not_delivered(root: Root) -> None:
    message = root.message("worker", sender="asker", reply="queue")
    closed = closing.route_reply(root.context, message, TurnFinished(status=Status.COMPLETED, reply=" \n"), State())
    assert (closed.reply, closed.detail) == ("none", "nothing was said")


@pytest.mark.parametrize("sender", ["nobody", "human", "../etc"])
def test_a_reply_to_who_is_no_agent_is_dead_and_makes_no_files(root: Root, sender: str) -> None:
    message = root.message("worker", sender=sender, reply="queue")
    closed = closing.route_reply(root.context, message, DONE, State())
    assert (closed.reply, closed.detail) == ("dead", f"no agent is called {sender}")
    assert root.context.home.agents() == []


@pytest.mark.slow
def test_a_reply_to_a_removed_agent_is_reported_in_both_journals(root: Root, other_is_held: Lock) -> None:
    message = root.message("worker", sender="other", reply="queue")
    (root.base / "beam.yaml").write_text("agents:\n  worker: {command: [cat]}\n")
    root.reload()
    closed = closing.route_reply(root.context, message, DONE, State())
    assert (closed.reply, closed.detail) == ("dead", "no agent is called other any more")
    assert root.boxes("other") == {"new": [closed.reply_id]}


def test_a_reply_to_a_session_that_was_put_aside_is_said_to_be_dead(root: Root, other_is_held: Lock) -> None:
    other_is_held.release()
    lease = root.hold("other")
    lease.log.record(events.SessionArchived(session_id="s1"))
    message = root.message("worker", sender="other", reply="queue", session_context=SessionContext(session_id="s1"))
    closed = closing.route_reply(root.context, message, DONE, State())
    assert (closed.reply, closed.detail) == ("dead", "it answers session s1, which was archived")
    (entry,) = lease.waiting.scan()
    assert lease.waiting.claim(entry) is None
    assert root.boxes("other") == {"dead": [closed.reply_id]}
    lease.close()


def test_a_reply_of_too_many_hops_is_dead_for_both(root: Root) -> None:
    message = root.message("worker", sender="asker", reply="queue", hops=20)
    closed = closing.route_reply(root.context, message, DONE, State())
    assert (closed.reply, closed.detail) == ("dead", "21 hops in thread t: over the limit of 20")


@pytest.mark.slow
def test_a_full_queue_takes_replies_all_the_same(root: Root) -> None:
    for number in range(root.context.config.limits.waiting):
        root.put("asker", str(number))
    message = root.message("worker", sender="asker", reply="queue")
    assert closing.route_reply(root.context, message, DONE, State()).reply == "queued"
    assert len(root.boxes("asker")["new"]) == root.context.config.limits.waiting + 1


def test_a_receiver_with_a_damaged_journal_stops_its_sender_not(root: Root) -> None:
    root.hold("asker").close()
    segment = next(root.place("asker").journal.iterdir())
    segment.write_bytes(b"#\n")
    closed = closing.route_reply(root.context, root.message("worker", sender="asker", reply="queue"), DONE, State())
    assert closed.reply == "dead"
    assert segment.name in closed.detail


def test_the_sender_of_a_reply_that_got_no_turn_is_told(root: Root) -> None:
    message = root.message("worker", type="reply", sender="asker", reply="queue")
    for finished in (TurnFinished(status=Status.FAILED, reason="its settings are wrong"), DONE):
        assert closing.route_reply(root.context, message, finished, State()).reply == "queued"
    (path, *_) = (root.place("asker").queue / "new").iterdir()
    told = decode(path.read_bytes())
    assert (told.reply_to, told.reply) == (message.id, "none"), "what is told is not answered in turn"


def test_a_reply_to_an_agent_that_is_gone_is_not_answered_by_it(root: Root) -> None:
    message = root.message("removed", type="reply", sender="asker", reply="queue")
    closed = closing.route_reply(root.context, message, TurnFinished(status=Status.FAILED, reason="gone"), State())
    assert (closed.reply, closed.to, closed.reply_id) == ("dead", "asker", None)
    assert closed.detail == "a reply to removed, which is gone, is not answered"
    assert root.boxes("asker") == {}
