"""Requests that the agent's process answers: passed on once to the turn that runs, answered when it has answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from beam.agents.link import Act, Query, Set, Steer
from beam.base.errors import UsageError
from beam.broker.holder.calls import RunningTurn, _call_of
from beam.broker.holder.control import answer_requests
from beam.broker.holder.lease import AgentLease
from beam.model import events
from beam.model.state import OpenTurn
from beam.process import tree
from beam.store import control
from beam.store.control import ControlRequest
from beam.turns.asks import AgentCalls, Asks, CallAnswer
from beam.turns.handle import Stop, TurnHandle
from tests.broker.test_broker_control import answers, ask
from tests.support.context import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def in_turn(root: Root, *, via: str = "dialogue", takes: bool = True) -> tuple[AgentLease, AgentCalls]:
    """A lease with a turn of the message `worker-1`, and the calls of that turn."""
    lease = root.hold("worker")
    asks = Asks("worker", lease.log.record, root.clock, 60.0)
    calls = AgentCalls(root.clock)
    calls.takes = takes
    lease.turn = RunningTurn("worker-1", Stop())
    lease.turn.handle = TurnHandle(stop=lease.turn.stop, asks=asks, calls=calls)
    lease.log.state.open_turn = OpenTurn(
        turn=1, message_id="worker-1", attempt=1, owner=tree.this_process(), turn_key="k", adapter="x", via=via,
        started_at="",
    )  # fmt: skip
    return lease, calls


def ended(lease: AgentLease) -> None:
    lease.turn = None
    lease.log.state.open_turn = None
    lease.close()


@pytest.mark.parametrize(
    ("verb", "target", "text", "call"),
    [
        ("steer", "worker-1", "go left", Steer(id="", text="go left")),
        ("set", None, "model=a=b", Set(id="", name="model", value="a=b")),
        ("query", None, "context", Query(id="", name="context")),
    ],
)
def test_it_is_passed_on_once_and_its_file_stays_until_the_process_has_answered(
    root: Root, verb: str, target: str | None, text: str, call: Any
) -> None:
    lease, calls = in_turn(root)
    wish = ask(root, "worker", verb, target, text=text)
    for _ in range(3):
        answer_requests(lease)
    (passed,) = calls.take_unforwarded()
    assert type(passed) is type(call)
    assert {field: getattr(passed, field) for field in passed.__struct_fields__ if field != "id"} == {
        field: getattr(call, field) for field in call.__struct_fields__ if field != "id"
    }
    assert control.waiting_names(root.place("worker").control) == [f"{wish.id}.json"] and answers(root) == []
    calls.answer_call(passed.id, CallAnswer(message="done"))
    answer_requests(lease)
    assert answers(root) == [(True, "", "done")] and control.waiting_names(root.place("worker").control) == []
    ended(lease)


def test_one_that_comes_while_the_process_begins_waits_for_it(root: Root) -> None:
    lease, calls = in_turn(root, takes=False)
    ask(root, "worker", "query", text="context")
    answer_requests(lease)
    assert calls.take_unforwarded() == [] and answers(root) == []
    calls.takes = True
    answer_requests(lease)
    assert len(calls.take_unforwarded()) == 1
    calls.close("the turn is over")
    answer_requests(lease)
    assert answers(root) == [(False, "unfinished", "the turn is over")]
    ended(lease)


def test_one_that_comes_when_the_turn_takes_none_any_more_is_refused(root: Root) -> None:
    lease, calls = in_turn(root)
    calls.close("the turn is over")
    ask(root, "worker", "query", text="context")
    answer_requests(lease)
    assert [(ok, code) for ok, code, _ in answers(root)] == [(False, "unsupported")]
    ended(lease)


@pytest.mark.parametrize(
    ("target", "via", "code"), [("worker-2", "dialogue", "not_found"), ("worker-1", "exec", "unsupported")]
)
def test_a_text_for_another_turn_or_one_that_takes_none_is_refused(
    root: Root, target: str, via: str, code: str
) -> None:
    lease, calls = in_turn(root, via=via)
    ask(root, "worker", "steer", target, text="go left")
    answer_requests(lease)
    assert [(ok, said) for ok, said, _ in answers(root)] == [(False, code)] and calls.take_unforwarded() == []
    ended(lease)


@pytest.mark.parametrize("verb", ["steer", "set", "query"])
def test_without_a_process_there_is_nobody_to_answer(root: Root, verb: str) -> None:
    lease = root.hold("worker")
    ask(root, "worker", verb, "worker-1", text="model=x")
    answer_requests(lease)
    assert [(ok, code) for ok, code, _ in answers(root)] == [(False, "not_found")]
    lease.close()


def test_one_that_is_too_old_is_not_passed_on(root: Root) -> None:
    lease, calls = in_turn(root)
    ask(root, "worker", "query", text="context")
    root.clock.sleep(61)
    answer_requests(lease)
    assert [(ok, code) for ok, code, _ in answers(root)] == [(False, "usage")] and calls.take_unforwarded() == []
    ended(lease)


@pytest.mark.parametrize(
    ("verb", "target", "passes_s", "waits"),
    [
        ("query", None, 29, True),
        ("query", None, 31, False),
        ("steer", "worker-1", 599, True),
        ("steer", "worker-1", 601, False),
    ],
)
def test_an_agent_has_longer_for_a_text_that_it_reads_after_its_tool_than_for_a_question(
    root: Root, verb: str, target: str | None, passes_s: float, waits: bool
) -> None:
    lease, calls = in_turn(root)
    ask(root, "worker", verb, target, text="context")
    answer_requests(lease)
    root.clock.sleep(passes_s)
    calls.expire()
    answer_requests(lease)
    assert answers(root) == ([] if waits else [(False, "unfinished", "the agent did not answer in time")])
    ended(lease)


def test_the_next_holder_answers_what_one_that_died_had_passed_on(root: Root) -> None:
    lease, calls = in_turn(root)
    ask(root, "worker", "steer", "worker-1", text="go left")
    answer_requests(lease)
    assert len(calls.take_unforwarded()) == 1
    ended(lease)  # as a process that died leaves it: the request's file is there
    again = root.hold("worker")
    answer_requests(again)
    assert [(ok, code) for ok, code, _ in answers(root)] == [(False, "not_found")]
    again.close()


def test_close_with_nothing_kept_says_so_and_in_a_turn_is_refused(root: Root) -> None:
    lease = root.hold("worker")
    ask(root, "worker", "close")
    answer_requests(lease)
    lease.close()
    lease, _ = in_turn(root)
    ask(root, "worker", "close")
    answer_requests(lease)
    ended(lease)
    assert answers(root) == [
        (True, "", "no process of worker is kept"),
        (False, "unfinished", "worker is in a turn"),
    ]


def test_a_request_wakes_the_turn(root: Root) -> None:
    lease, _ = in_turn(root)
    assert lease.turn is not None
    lease.wake_turn()  # nobody listens yet
    lease.turn.news = asyncio.Event()
    lease.wake_turn()
    assert lease.turn.news.is_set()
    ended(lease)


def test_the_journal_has_what_was_told(root: Root) -> None:
    lease, calls = in_turn(root)
    ask(root, "worker", "query", text="models")
    answer_requests(lease)
    (call,) = calls.take_unforwarded()
    calls.answer_call(call.id, CallAnswer(result=Raw(b'["a","b"]')))
    answer_requests(lease)
    (done,) = [event for event in root.events("worker") if isinstance(event, events.ControlDone)]
    assert bytes(done.result) == b'["a","b"]'
    ended(lease)


@pytest.mark.parametrize(
    ("verb", "text", "call"),
    [
        ("steer", "go left", Steer(id="c", text="go left")),
        ("steer", None, Steer(id="c", text="")),
        ("query", "context", Query(id="c", name="context")),
        ("set", "model=a=b", Set(id="c", name="model", value="a=b")),
        ("act", '{"name": "compact", "given": {"a": "b"}}', Act(id="c", name="compact", given=Raw(b'{"a": "b"}'))),
        ("act", '{"name": "compact"}', Act(id="c", name="compact")),
    ],
)
def test_a_request_is_the_call_of_its_verb(verb: str, text: str | None, call: Any) -> None:
    wish = ControlRequest(id="c", verb=verb, timestamp="t", expires="t", text=text)  # type: ignore[arg-type]
    assert _call_of(wish) == call


@pytest.mark.parametrize("text", [None, "{", "[1]"])
def test_what_names_nothing_that_could_be_done_is_refused(text: str | None) -> None:
    with pytest.raises(UsageError, match="the request names nothing that could be done"):
        _call_of(ControlRequest(id="c", verb="act", timestamp="t", expires="t", text=text))
