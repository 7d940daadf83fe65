"""Requests to a holder: each carried out once or refused, and answered."""

from __future__ import annotations

import asyncio

import pytest

from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import NotFoundError
from beam.broker import closing, mailbox
from beam.broker.control import answer_requests
from beam.broker.lease import AgentLease
from beam.broker.running import RunningTurn
from beam.model import events
from beam.model.outcome import Status
from beam.model.state import DEAD, QUEUED
from beam.process import tree
from beam.store import control
from beam.store.control import Control
from beam.turns.asks import Ask, Asks, Decision, Takes
from beam.turns.calls import AgentCalls
from beam.turns.handle import TurnHandle
from beam.turns.stop import Stop
from tests.support.context import SECOND_NS, Root


def ask(root: Root, agent: str, verb: str, target: str | None = None, **fields: object) -> Control:
    wish = Control(
        id=f"{agent}-{root.clock.random(4).hex()}",
        verb=verb,  # type: ignore[arg-type]
        timestamp="t",
        expires=rfc3339(root.clock.now_ns() + 60 * SECOND_NS),
        target=target,
        **fields,  # type: ignore[arg-type]
    )
    control.publish(root.place(agent).control, wish)
    return wish


def answers(root: Root, agent: str = "worker") -> list[tuple[bool, str, str]]:
    found = [event for event in root.events(agent) if isinstance(event, events.ControlDone)]
    return [(event.ok, event.code, event.message) for event in found]


def look(root: Root, agent: str = "worker") -> AgentLease:
    lease = root.hold(agent)
    answer_requests(lease)
    lease.close()
    assert control.waiting(root.place(agent).control) == []
    return lease


def dead_letter(root: Root) -> str:
    message = root.put("worker")
    lease = root.hold("worker")
    closing.dead_letter(lease.log, lease.waiting.scan()[0], message, "failed", "why")
    lease.close()
    return message.id


def test_a_waiting_message_is_dropped_and_cancelled(root: Root) -> None:
    message = root.put("worker")
    ask(root, "worker", "drop", message.id, sender="ann")
    lease = look(root)
    assert answers(root) == [(True, "", "dropped")]
    assert root.boxes("worker") == {}
    assert (lease.log.state.known[message.id].phase, lease.log.state.known[message.id].status) == (
        DEAD,
        Status.CANCELLED,
    )


def test_an_agent_is_told_that_its_message_was_dropped_unless_it_did_so_itself(root: Root) -> None:
    for who, told in (("ann", 1), ("asker", 1)):
        message = root.put("worker", sender="asker", reply="queue")
        ask(root, "worker", "drop", message.id, sender=who)
        look(root)
        assert len(root.boxes("asker")["new"]) == told


def test_a_dead_letter_is_dropped_for_good(root: Root) -> None:
    ask(root, "worker", "drop", dead_letter(root))
    look(root)
    assert answers(root) == [(True, "", "removed")]
    assert root.boxes("worker") == {}


def test_a_dead_letter_is_retried_as_the_next_attempt_and_only_once(root: Root) -> None:
    message_id = dead_letter(root)
    ask(root, "worker", "retry", message_id)
    ask(root, "worker", "retry", message_id)
    lease = look(root)
    assert answers(root)[0] == (True, "", "attempt 2")
    assert answers(root)[1][:2] == (False, "usage")
    assert root.boxes("worker") == {"new": [message_id]}
    assert (lease.log.state.known[message_id].phase, lease.log.state.known[message_id].attempt) == (QUEUED, 2)


def test_a_request_that_was_answered_before_its_file_was_removed_is_not_carried_out_again(root: Root) -> None:
    message_id = dead_letter(root)
    wish = ask(root, "worker", "retry", message_id)
    look(root)
    control.publish(root.place("worker").control, wish)
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    message = lease.waiting.read(entry)
    assert message is not None
    closing.dead_letter(lease.log, entry, message, "failed", "again")
    lease.close()
    look(root)
    assert len(answers(root)) == 1
    assert root.boxes("worker") == {"dead": [message_id]}


def test_a_waiting_message_is_edited_and_keeps_its_place(root: Root) -> None:
    first, second = root.put("worker", "one"), root.put("worker", "two")
    ask(root, "worker", "edit", first.id, text="edited")
    look(root)
    assert answers(root) == [(True, "", "revision 1")]
    lease = root.hold("worker")
    waiting = lease.waiting.scan()
    assert [entry.id for entry in waiting] == [first.id, second.id]
    assert lease.log.queue.read(waiting[0]).text == "edited"
    texts = [event.text for event in root.events("worker") if isinstance(event, events.MessageQueued)]
    assert sorted(texts) == ["edited", "one", "two"]
    lease.close()


def test_an_interrupt_ends_exactly_the_turn_that_it_names(root: Root) -> None:
    lease = root.hold("worker")
    waiting = root.put("worker")

    async def interrupt() -> Stop:
        stop = Stop()
        lease.turn = RunningTurn("worker-running", stop)
        ask(root, "worker", "interrupt", "worker-over")
        ask(root, "worker", "interrupt", waiting.id, sender="ann")
        answer_requests(lease)
        assert stop.reason is None
        ask(root, "worker", "interrupt", "worker-running", sender="ann")
        answer_requests(lease)
        return stop

    stop = asyncio.run(interrupt())
    assert (stop.reason, stop.by) == ("cancelled", "ann")
    assert [answer[::2] for answer in answers(root)] == [
        (False, "worker-over is not running"),
        (True, "withdrawn"),
        (True, "asked to stop"),
    ]
    lease.close()


def test_a_message_that_somebody_took_from_a_mailbox_can_be_taken_back(root: Root) -> None:
    message = root.put("box", sender="asker", reply="queue")
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    ask(root, "box", "interrupt", message.id, sender="ann")
    lease = look(root, "box")
    assert lease.log.state.known[message.id].status is Status.CANCELLED
    assert (lease.log.state.open_turn, root.boxes("box")) == (None, {})
    assert len(root.boxes("asker")["new"]) == 1
    with pytest.raises(NotFoundError, match="not waiting for an answer"):
        mailbox.reply(root.context, root.place("box"), message.id, "late", failed=False)


def test_what_is_too_late_unknown_or_in_the_wrong_box_is_refused(root: Root) -> None:
    message_id = dead_letter(root)
    ask(root, "worker", "drop", "worker-none")
    ask(root, "worker", "edit", message_id, text="x")
    late = ask(root, "worker", "drop", message_id)
    files.replace(
        root.place("worker").control / "new" / f"{late.id}.json",
        control.msgspec.json.encode(control.msgspec.structs.replace(late, expires="2001-01-01T00:00:00Z")),
    )
    look(root)
    assert [answer[:2] for answer in answers(root)] == [(False, "not_found"), (False, "usage"), (False, "usage")]
    assert root.boxes("worker") == {"dead": [message_id]}


def test_a_reset_of_a_fork_that_has_not_begun_lets_it_begin_with_an_empty_session(root: Root) -> None:
    lease = root.hold("worker")
    lease.log.record(events.SessionForked(session_id="s1", of="other", adapter="command"))
    lease.close()
    ask(root, "worker", "reset")
    look(root)
    assert answers(root) == [(True, "", "s1")]
    assert root.hold("worker").log.state.fork is None


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff"])
def test_a_damaged_request_is_said_and_removed_and_the_rest_is_carried_out(root: Root, data: bytes) -> None:
    message = root.put("worker")
    (root.place("worker").control / "new" / "0.json").write_bytes(data)
    ask(root, "worker", "drop", message.id)
    look(root)
    assert answers(root) == [(True, "", "dropped")]
    assert [event.code for event in root.events("worker") if isinstance(event, events.Notice)] == ["bad_request"]


def asking(root: Root, lease: AgentLease) -> tuple[Asks, Ask]:
    """A turn of the worker that waits for a decision."""

    def record(body: events.Event, *, sync: bool = False) -> events.Event:
        return lease.log.record(body, turn=1, message_id="worker-m", sync=sync)

    started = events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter="command", via="exec")
    record(started)
    lease.turn = turn = RunningTurn("worker-m", Stop())
    asks = Asks("worker", record, root.clock, 600.0)
    turn.handle = TurnHandle(stop=turn.stop, asks=asks, calls=AgentCalls(root.clock))
    return asks, asks.ask("Bash", takes=Takes(message=True))


def test_an_ask_is_decided_once_by_the_first_request_that_names_it(root: Root) -> None:
    lease = root.hold("worker")
    asks, open_ask = asking(root, lease)
    file = root.place("worker").asks / f"{open_ask.id}.json"
    assert file.exists() and lease.log.state.word == "waiting"
    ask(root, "worker", "deny", open_ask.id, sender="ann", text="no")
    ask(root, "worker", "approve", open_ask.id, sender="bob")
    answer_requests(lease)
    assert open_ask.decision == Decision(decision="deny", by="ann", message="no")
    assert [answer[:2] for answer in answers(root)] == [(True, ""), (False, "not_found")]
    assert not file.exists() and lease.log.state.word == "running" and [denial.by for denial in asks.denials] == ["ann"]
    done = [event for event in root.events("worker") if isinstance(event, events.ControlDone)]
    assert {event.message_id for event in done} == {"worker-m"}
    lease.close()


def test_a_decision_on_another_turns_ask_is_refused(root: Root) -> None:
    ask(root, "worker", "approve", "worker-over")
    look(root)
    assert [answer[:2] for answer in answers(root)] == [(False, "not_found")]
    lease = root.hold("worker")
    _, open_ask = asking(root, lease)
    ask(root, "worker", "approve", "worker-over")
    ask(root, "worker", "approve", open_ask.id, always=True)
    answer_requests(lease)
    assert [answer[1] for answer in answers(root)[1:]] == ["not_found", "unsupported"] and not open_ask.is_settled
    lease.close()


def test_a_reset_puts_the_session_aside_and_refuses_during_a_turn(root: Root) -> None:
    lease = root.hold("worker")
    lease.log.record(events.SessionStarted(session_id="s1"))
    lease.close()
    ask(root, "worker", "reset")
    ask(root, "worker", "reset")
    lease = look(root)
    assert answers(root) == [(True, "", "s1"), (True, "", "no session")]
    assert (lease.log.state.session, lease.log.state.archived) == (None, ["s1"])
