"""Requests to a holder: each carried out once or refused, and answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beam.base import files
from beam.base.clock import rfc3339
from beam.base.errors import CorruptError, DiskError, NotFoundError
from beam.broker.asking import mailbox
from beam.broker.holder.calls import RunningTurn
from beam.broker.holder.control import _Requests, answer_requests
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import closing
from beam.model import events
from beam.model.message import Payload, encode
from beam.model.outcome import Status
from beam.model.state import DEAD, QUEUED
from beam.process import tree
from beam.store import control
from beam.store.control import ControlRequest
from beam.store.segment import read_state
from beam.turns.asks import AcceptedAnswers, AgentCalls, Ask, Asks, Decision
from beam.turns.handle import Stop, TurnHandle
from tests.support.context import SECOND_NS, Root


def ask(root: Root, agent: str, verb: str, target: str | None = None, **fields: object) -> ControlRequest:
    wish = ControlRequest(
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
    assert control.waiting_names(root.place(agent).control) == []
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_dead_letter_is_retried_as_the_next_attempt_and_only_once(root: Root) -> None:
    message_id = dead_letter(root)
    ask(root, "worker", "retry", message_id)
    ask(root, "worker", "retry", message_id)
    lease = look(root)
    assert answers(root)[0] == (True, "", "attempt 2")
    assert answers(root)[1][:2] == (False, "usage")
    assert root.boxes("worker") == {"new": [message_id]}
    assert (lease.log.state.known[message_id].phase, lease.log.state.known[message_id].attempt) == (QUEUED, 2)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
def test_a_damaged_request_is_reported_and_removed_and_the_rest_is_carried_out(root: Root, data: bytes) -> None:
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
    return asks, asks.ask("Bash", takes=AcceptedAnswers(message=True))


def test_an_ask_is_decided_once_by_the_first_request_that_names_it(root: Root) -> None:
    lease = root.hold("worker")
    asks, open_ask = asking(root, lease)
    file = root.place("worker").asks / f"{open_ask.id}.json"
    assert file.exists() and lease.log.state.activity == "waiting"
    ask(root, "worker", "deny", open_ask.id, sender="ann", text="no")
    ask(root, "worker", "approve", open_ask.id, sender="bob")
    answer_requests(lease)
    assert open_ask.decision == Decision(decision="deny", by="ann", message="no")
    assert [answer[:2] for answer in answers(root)] == [(True, ""), (False, "not_found")]
    assert (
        not file.exists()
        and lease.log.state.activity == "running"
        and [denial.by for denial in asks.denials] == ["ann"]
    )
    done = [event for event in root.events("worker") if isinstance(event, events.ControlDone)]
    assert {event.message_id for event in done} == {"worker-m"}
    lease.close()


@pytest.mark.slow
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


def refusals(root: Root, agent: str = "worker") -> list[tuple[str, str]]:
    return [(code, message) for _, code, message in answers(root, agent)]


def told(root: Root, kind: type[events.Event], agent: str = "worker") -> list[Any]:
    return [event for event in root.events(agent) if isinstance(event, kind)]


@contextlib.contextmanager
def in_session(root: Root, session_id: str = "s-1", *, is_in_turn: bool = False) -> Iterator[AgentLease]:
    """The lease of an agent that is in this session."""
    lease = root.hold("worker")
    lease.log.record(events.SessionStarted(session_id=session_id))
    if is_in_turn:
        lease.turn = RunningTurn("worker-m", Stop())
    yield lease
    lease.turn = None
    lease.keeper.process = None
    lease.close()


def test_a_queue_is_paused_once_and_resumed_once(root: Root) -> None:
    for verb in ("pause", "pause", "resume", "resume"):
        ask(root, "worker", verb, sender="ann")
    lease = look(root)
    assert [message for _, _, message in answers(root)] == ["paused", "paused already", "resumed", "not paused"]
    assert [event.by for event in (*told(root, events.QueuePaused), *told(root, events.QueueResumed))] == ["ann", "ann"]
    assert lease.log.state.paused is False


def test_an_answer_names_its_request_and_the_message_that_it_is_about(root: Root) -> None:
    message = root.put("worker")
    wishes = [ask(root, "worker", "drop", message.id), ask(root, "worker", "pause"), ask(root, "worker", "select", "s")]
    look(root)
    done = sorted(told(root, events.ControlDone), key=lambda event: [w.id for w in wishes].index(event.control_id))
    assert [(event.verb, event.ok, event.message, event.message_id) for event in done] == [
        ("drop", True, "dropped", message.id),
        ("pause", True, "paused", None),
        ("select", True, "s", None),
    ]


def test_a_session_is_chosen_in_the_place_of_the_one_that_is_there(root: Root) -> None:
    with in_session(root) as lease:
        ask(root, "worker", "select", "s-2", text="claude", sender="ann")
        answer_requests(lease)
        assert answers(root) == [(True, "", "s-2")]
        ask(root, "worker", "select", "s-2", text="claude")
        answer_requests(lease)
        assert lease.keeper.unwanted == "reset"
    (archived,) = told(root, events.SessionArchived)
    assert (archived.session_id, archived.reason, archived.by) == ("s-1", "session s-2 was chosen", "ann")
    (selected,) = told(root, events.SessionSelected)
    assert (selected.session_id, selected.adapter, selected.by) == ("s-2", "claude", "ann")
    assert len(answers(root)) == 2


@pytest.mark.parametrize("verb", ["select", "rewind"])
@pytest.mark.parametrize("session_id", ["", "a b", None])
def test_what_is_no_id_of_a_session_is_refused(root: Root, verb: str, session_id: str | None) -> None:
    ask(root, "worker", verb, session_id)
    look(root)
    assert [code for code, _ in refusals(root)] == ["usage"]


def test_a_session_goes_back_to_an_earlier_turn_in_a_new_process(root: Root) -> None:
    with in_session(root) as lease:
        ask(root, "worker", "rewind", "s-1", text='{"upto": "m-4", "to": 4}', sender="ann")
        answer_requests(lease)
        assert lease.keeper.unwanted == "its session goes back to an earlier turn"
    assert answers(root) == [(True, "", "s-1")]
    (back,) = told(root, events.SessionRewound)
    assert (back.session_id, back.upto, back.to, back.by) == ("s-1", "m-4", 4, "ann")


@pytest.mark.parametrize(
    ("session_id", "text", "is_in_turn", "refusal"),
    [
        ("s-1", "{", False, ("usage", "the request names no place in the session")),
        ("s-1", None, False, ("usage", "the request names no place in the session")),
        ("s-1", '{"upto": "m"}', True, ("unfinished", "worker is in a turn")),
        ("s-0", '{"upto": "m"}', False, ("unfinished", "worker is in another session by now")),
    ],
)
def test_a_session_that_is_in_use_or_another_one_does_not_go_back(
    root: Root, session_id: str, text: str | None, is_in_turn: bool, refusal: tuple[str, str]
) -> None:
    with in_session(root, is_in_turn=is_in_turn) as lease:
        ask(root, "worker", "rewind", session_id, text=text)
        answer_requests(lease)
        assert (refusals(root), lease.keeper.unwanted) == ([refusal], "")
    assert told(root, events.SessionRewound) == []


def test_an_agent_that_has_no_session_has_none_to_go_back_in(root: Root) -> None:
    ask(root, "worker", "rewind", "s-1", text='{"upto": "m"}')
    look(root)
    assert refusals(root) == [("unfinished", "worker is in another session by now")]


def test_a_reset_waits_for_the_end_of_a_turn(root: Root) -> None:
    with in_session(root, is_in_turn=True) as lease:
        ask(root, "worker", "reset")
        answer_requests(lease)
        assert refusals(root) == [("unfinished", "worker is in a turn")]
        lease.turn = None
        ask(root, "worker", "reset", sender="ann")
        answer_requests(lease)
    (archived,) = told(root, events.SessionArchived)
    assert (archived.session_id, archived.reason, archived.by) == ("s-1", "reset", "ann")


@pytest.mark.slow
def test_a_kept_process_is_closed_and_the_answer_comes_once_it_is_gone(root: Root) -> None:
    with in_session(root) as lease:
        lease.keeper.process = cast(Any, SimpleNamespace(child=SimpleNamespace(pid=77), drop=lambda: None))
        wish = ask(root, "worker", "close", sender="ann")
        answer_requests(lease)
        assert (answers(root), lease.keeper.unwanted) == ([], "ann released it")
        assert control.waiting_names(root.place("worker").control) == [f"{wish.id}.json"]
        lease.keeper.process = None
        answer_requests(lease)
        assert answers(root) == [(True, "", "closed process 77 of session s-1")]
        ask(root, "worker", "close")
        answer_requests(lease)
        assert answers(root)[1] == (True, "", "no process of worker is kept")


def test_a_kept_process_without_a_session_is_closed_as_well_and_none_during_a_turn(root: Root) -> None:
    lease = root.hold("worker")
    lease.keeper.process = cast(Any, SimpleNamespace(child=SimpleNamespace(pid=77), drop=lambda: None))
    ask(root, "worker", "close")
    answer_requests(lease)
    lease.keeper.process = None
    answer_requests(lease)
    assert answers(root) == [(True, "", "closed process 77")]
    lease.turn = RunningTurn("worker-m", Stop())
    ask(root, "worker", "close")
    answer_requests(lease)
    assert refusals(root)[1] == ("unfinished", "worker is in a turn")
    lease.close()


def test_settings_that_were_changed_are_noted_and_what_is_none_is_refused(root: Root) -> None:
    ask(root, "worker", "settings", text='{"model": "m", "access": null}', sender="ann")
    ask(root, "worker", "settings", text="[1]")
    ask(root, "worker", "settings")
    look(root)
    assert answers(root) == [
        (True, "", "recorded"),
        (False, "usage", "the request names no settings"),
        (False, "usage", "the request names no settings"),
    ]
    (changed,) = told(root, events.SettingsChanged)
    assert (changed.changes, changed.by) == ({"model": "m", "access": None}, "ann")


def test_an_agent_is_released_for_a_command_unless_it_has_something_open(root: Root) -> None:
    lease = root.hold("worker")
    ask(root, "worker", "release")
    answer_requests(lease)
    assert (answers(root), lease.is_wanted) == ([(True, "", "released")], True)
    lease.is_wanted = False
    lease.turn = RunningTurn("worker-m", Stop())
    ask(root, "worker", "release")
    answer_requests(lease)
    lease.turn = None
    root.put("worker")
    lease.waiting.scan()
    ask(root, "worker", "release")
    answer_requests(lease)
    assert refusals(root)[1:] == [("unfinished", "worker has an unfinished turn")] * 2
    assert lease.is_wanted is False
    started = events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter="command", via="dialogue")
    lease.log.record(started, turn=1)
    lease.log.record(events.AgentKept(pid=7), turn=1)
    ask(root, "worker", "release")
    answer_requests(lease)
    assert refusals(root)[3] == ("unfinished", "worker had a kept process, which is ending")
    assert lease.keeper.unwanted == "somebody else wants the agent"
    lease.close()


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("[1]", "the input is no JSON object; nothing was decided"),
        (None, "the input is not JSON: Input data was truncated; nothing was decided"),
        ("[" * 5000, None),
    ],
)
def test_an_amendment_that_is_no_object_decides_nothing(root: Root, text: str | None, refusal: str | None) -> None:
    lease = root.hold("worker")
    _, open_ask = asking(root, lease)
    ask(root, "worker", "amend", open_ask.id, text=text)
    answer_requests(lease)
    ((code, said),) = refusals(root)
    assert (code, said.startswith("the input is not JSON: ") if refusal is None else said == refusal) == ("usage", True)
    assert not open_ask.is_settled
    lease.turn = None
    lease.close()


def test_an_amendment_allows_a_call_with_another_input(root: Root) -> None:
    lease = root.hold("worker")
    asks, _ = asking(root, lease)
    open_ask = asks.ask("Bash", takes=AcceptedAnswers(changes=True))
    ask(root, "worker", "amend", open_ask.id, text='{"command": "ls"}', sender="ann")
    answer_requests(lease)
    assert answers(root) == [(True, "", "allowed with the changed input")]
    decision = open_ask.decision
    assert decision is not None
    assert (decision.decision, decision.by, decision.message) == ("allow", "ann", "")
    assert bytes(decision.input or b"") == b'{"command":"ls"}'
    lease.turn = None
    lease.close()


def test_a_decision_says_what_was_decided_and_may_end_the_turn(root: Root) -> None:
    lease = root.hold("worker")
    asks, _ = asking(root, lease)
    allowed = asks.ask("Bash", takes=AcceptedAnswers(message=True))
    stopped = asks.ask("Bash", takes=AcceptedAnswers(message=True))
    ask(root, "worker", "approve", allowed.id, text="not shown", sender="ann")
    ask(root, "worker", "deny", stopped.id, stop=True, sender="bob")
    answer_requests(lease)
    assert sorted(message for _, _, message in answers(root)) == ["allowed", "denied"]
    assert allowed.decision == Decision(decision="allow", by="ann", message="")
    assert stopped.decision == Decision(decision="deny", by="bob", message="", stop=True)
    lease.turn = None
    lease.close()


def test_a_running_message_is_not_dropped_and_one_that_is_gone_is_not_found(root: Root) -> None:
    message = root.put("worker")
    lease = root.hold("worker")
    assert lease.waiting.claim(lease.waiting.scan()[0]) is not None
    for verb in ("drop", "edit", "retry"):
        ask(root, "worker", verb, message.id, text="x")
    ask(root, "worker", "drop", "worker-none")
    answer_requests(lease)
    assert sorted(refusals(root)) == [
        ("not_found", "no message worker-none is in the queue of worker"),
        ("unfinished", f"{message.id} is running"),
        ("usage", f"{message.id} is not a dead letter; it is in cur/"),
        ("usage", f"{message.id} is not waiting any more; it is in cur/"),
    ]
    lease.close()


def test_a_message_without_a_new_text_is_not_edited(root: Root) -> None:
    message = root.put("worker")
    ask(root, "worker", "edit", message.id)
    look(root)
    assert refusals(root) == [("corrupt", f"{message.id} can't be read")]


def test_an_edit_keeps_what_is_attached_and_counts_revisions(root: Root) -> None:
    message = root.put("worker", "one", payload=Payload(text="one", attach=("/a",)))
    ask(root, "worker", "edit", message.id, text="two")
    ask(root, "worker", "edit", message.id, text="three")
    look(root)
    assert [said for _, _, said in answers(root)] == ["revision 1", "revision 2"]
    edited = root.queue("worker").read(root.queue("worker").entries("new")[0])
    assert (edited.payload, edited.revision) == (Payload(text=edited.text, attach=("/a",)), 2)


def test_a_retry_that_a_dead_process_published_already_is_only_answered(root: Root) -> None:
    message_id = dead_letter(root)
    lease = root.hold("worker")
    (entry,) = lease.log.queue.entries("dead")
    older = lease.log.queue.read(entry)
    retried = msgspec.structs.replace(older, attempt=2)
    lease.log.queue.put(retried, root.clock, root.context.config.limits)
    lease.close()
    ask(root, "worker", "retry", message_id)
    look(root)
    assert answers(root) == [(True, "", "attempt 2")]
    assert root.boxes("worker") == {"new": [message_id]}


@pytest.mark.parametrize("data", [b"junk", None])
def test_the_outcome_of_a_dead_letter_that_can_not_be_retried_stays(root: Root, data: bytes | None) -> None:
    message_id = dead_letter(root)
    queue = root.queue("worker")
    (entry,) = queue.entries("dead")
    strange = root.message("other", "of somebody else", id=message_id)
    queue.path(entry).write_bytes(encode(strange) if data is None else data)
    outcome_seq = read_state(root.place("worker").journal).known[message_id].outcome_seq
    ask(root, "worker", "retry", message_id)
    lease = look(root)
    assert answers(root) == [(False, "corrupt", f"{message_id} can't be read")]
    assert [event.reason for event in told(root, events.MessageDead)] == ["failed"]
    assert lease.log.state.known[message_id].outcome_seq == outcome_seq
    assert root.boxes("worker") == {"dead": [message_id]}


def test_a_retry_has_no_deadline_and_may_be_run_by_anybody(root: Root) -> None:
    message = root.put("worker", deadline="2023-11-14T22:13:21Z", only_by="beam run 1 1 - - elsewhere")
    lease = root.hold("worker")
    closing.dead_letter(lease.log, lease.waiting.scan()[0], message, "failed", "why")
    lease.close()
    ask(root, "worker", "retry", message.id)
    look(root)
    queue = root.queue("worker")
    again = queue.read(queue.entries("new")[0])
    assert (again.deadline, again.attempt, again.only_by) == (None, 2, "")


def test_a_dropped_message_says_who_dropped_it(root: Root) -> None:
    message, withdrawn = root.put("worker"), root.put("worker")
    ask(root, "worker", "drop", message.id, sender="ann")
    ask(root, "worker", "interrupt", withdrawn.id, sender="bob")
    look(root)
    dead = {event.message_id: event for event in told(root, events.MessageDead)}
    assert [(dead[m.id].reason, dead[m.id].detail, dead[m.id].tell) for m in (message, withdrawn)] == [
        ("dropped", "dropped by ann", True),
        ("dropped", "withdrawn by bob", True),
    ]


def test_a_disk_error_ends_the_answering_and_the_request_stays(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = ask(root, "worker", "pause")

    def fails(*_: object) -> None:
        raise DiskError("can't read") from OSError(5, "Input/output error")

    monkeypatch.setattr(control, "read", fails)
    lease = root.hold("worker")
    with pytest.raises(DiskError, match="can't read"):
        answer_requests(lease)
    lease.close()
    assert control.waiting_names(root.place("worker").control) == [f"{wish.id}.json"]


@pytest.mark.parametrize(("verb", "text"), [("edit", None), ("retry", None)])
def test_a_refusal_of_what_can_not_be_read_names_the_message(root: Root, verb: str, text: str | None) -> None:
    message_id = root.put("worker").id if verb == "edit" else dead_letter(root)
    lease = root.hold("worker")
    (entry,) = lease.log.queue.entries("new" if verb == "edit" else "dead")
    requests = _Requests(lease)
    lease.waiting.read = lambda entry: None  # type: ignore[method-assign]
    wish = ControlRequest(id="c", verb=verb, timestamp="t", expires="t", target=message_id, text=text)  # type: ignore[arg-type]
    with pytest.raises(CorruptError) as error:
        (requests._edit if verb == "edit" else requests._retry)(entry, wish)
    assert (error.value.message, error.value.subject) == (f"{message_id} can't be read", message_id)
    lease.close()
