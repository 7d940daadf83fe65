"""Requests that only the agent's process can answer: passed on once, answered once, in time."""

from __future__ import annotations

import pytest

from beam.agents.link import Query
from beam.base.errors import UnsupportedError
from beam.turns.asks import AgentCalls, CallAnswer
from tests.support.context import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def calls(clock: FakeClock) -> AgentCalls:
    calls = AgentCalls(clock)
    calls.takes = True
    return calls


def test_a_call_is_passed_on_once_and_answered_once(calls: AgentCalls) -> None:
    answers: list[CallAnswer] = []
    call = Query(id="q", name="context")
    assert calls.add(call, answers.append)
    assert not calls.add(call, answers.append)
    assert (calls.take_unforwarded(), calls.take_unforwarded()) == ([call], [])
    assert calls.are_open
    assert calls.answer_call("q", CallAnswer(message="12 %"))
    assert not calls.answer_call("q", CallAnswer(message="13 %"))
    calls.close("the turn is over")
    assert [answer.message for answer in answers] == ["12 %"]
    assert not calls.are_open


def test_a_call_without_an_answer_in_time_fails_and_a_late_answer_is_nobodys(
    calls: AgentCalls, clock: FakeClock
) -> None:
    answers: list[CallAnswer] = []
    calls.add(Query(id="q", name="context"), answers.append, seconds=5.0)
    clock.sleep(4.9)
    calls.expire()
    assert answers == []
    clock.sleep(0.1)
    calls.expire()
    assert [(answer.ok, answer.code) for answer in answers] == [(False, "unfinished")]
    assert not calls.answer_call("q", CallAnswer())
    assert len(answers) == 1


def test_calls_that_are_open_when_the_turn_ends_are_answered_and_no_more_are_taken(calls: AgentCalls) -> None:
    answers: list[CallAnswer] = []
    calls.add(Query(id="a", name="context"), answers.append)
    calls.add(Query(id="b", name="context"), answers.append)
    calls.close("the turn is over")
    assert [answer.message for answer in answers] == ["the turn is over"] * 2
    with pytest.raises(UnsupportedError):
        calls.add(Query(id="c", name="context"), answers.append)


def test_an_answer_that_can_not_be_written_is_given_no_second_time(calls: AgentCalls) -> None:
    given: list[CallAnswer] = []

    def answer(answer: CallAnswer) -> None:
        given.append(answer)
        raise OSError("no room")

    calls.add(Query(id="q", name="context"), answer)
    with pytest.raises(OSError, match="no room"):
        calls.answer_call("q", CallAnswer())
    calls.close("the turn is over")
    assert len(given) == 1
