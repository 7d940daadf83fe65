"""The policy of failure, as tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.model.message import Spent
from beam.model.outcome import Class, Status
from beam.model.settings import (
    Circuit,
    Policy,
    backoff_pause,
    circuit_after,
    exceeded_budget,
    has_root_budget,
    max_spent,
    retry_delay,
)

FAILED = Status.FAILED


@pytest.mark.parametrize("class_", [Class.RATE_LIMIT, Class.OVERLOADED, Class.NETWORK])
def test_a_passing_failure_is_tried_again_until_the_attempts_are_used_up(class_: Class) -> None:
    policy = Policy(attempts=3, backoff=2, jitter=0)
    assert [retry_delay(policy, FAILED, class_, attempt, 0.5) for attempt in (1, 2, 3)] == [2, 4, None]


@pytest.mark.parametrize(
    ("status", "class_"),
    [
        (FAILED, Class.AUTH),
        (FAILED, Class.BAD_REQUEST),
        (FAILED, None),
        (Status.REFUSED, None),
        (Status.TIMEOUT, None),
        (Status.CANCELLED, None),
        (Status.COMPLETED, None),
    ],
)
def test_what_would_fail_again_is_not_tried_again(status: Status, class_: Class | None) -> None:
    assert retry_delay(Policy(attempts=9), status, class_, 1, 0.0) is None


def test_nothing_is_tried_again_unless_the_policy_says_so() -> None:
    assert retry_delay(Policy(), FAILED, Class.OVERLOADED, 1, 0.0) is None


def test_an_unknown_outcome_is_run_again_only_where_the_policy_allows_it() -> None:
    assert retry_delay(Policy(attempts=9), Status.UNKNOWN, None, 1, 0.0) is None
    assert retry_delay(Policy(retry_unknown=1), Status.UNKNOWN, None, 1, 0.0) == 0.0
    assert retry_delay(Policy(retry_unknown=1), Status.UNKNOWN, None, 2, 0.0) is None


@pytest.mark.slow
@given(attempt=st.integers(1, 50), chance=st.floats(0, 1, exclude_max=True))
def test_the_pause_never_exceeds_its_bound_with_jitter(attempt: int, chance: float) -> None:
    policy = Policy(attempts=51, backoff=2, backoff_max=60, jitter=0.2)
    pause = retry_delay(policy, FAILED, Class.NETWORK, attempt, chance)
    assert pause is not None
    assert 2 <= pause <= 72


@pytest.mark.parametrize("attempt", [1024, 1025, 10**9])
def test_after_any_number_of_attempts_the_pause_is_the_longest_one(attempt: int) -> None:
    policy = Policy(attempts=10**15, backoff_max=60, jitter=0)
    assert retry_delay(policy, FAILED, Class.NETWORK, attempt, 0.5) == 60
    assert backoff_pause(policy, attempt) == 60


def test_five_failures_in_a_minute_open_the_circuit_and_a_success_closes_it() -> None:
    policy, circuit = Policy(), Circuit()
    for second in range(4):
        circuit = circuit_after(policy, circuit, FAILED, Class.CRASHED, float(second))
        assert circuit.state(second) == "closed"
    circuit = circuit_after(policy, circuit, FAILED, Class.CRASHED, 4.0)
    assert (circuit.state(5), circuit.state(33.9), circuit.state(34)) == ("open", "open", "half open")
    assert circuit_after(policy, circuit, FAILED, Class.CRASHED, 40.0).state(41) == "open"
    assert circuit_after(policy, circuit, Status.COMPLETED, None, 40.0) == Circuit()


def test_slow_failures_never_open_the_circuit() -> None:
    circuit = Circuit()
    for second in range(0, 3000, 30):
        circuit = circuit_after(Policy(), circuit, FAILED, Class.NETWORK, float(second))
        assert circuit.state(second) == "closed"


def test_what_the_message_itself_caused_says_nothing_about_the_agent() -> None:
    circuit = Circuit()
    for second in range(20):
        circuit = circuit_after(Policy(), circuit, FAILED, Class.BAD_REQUEST, float(second))
        circuit = circuit_after(Policy(), circuit, Status.CANCELLED, None, float(second))
    assert circuit == Circuit()


def test_a_thread_stops_when_its_budget_is_used_up_and_says_which() -> None:
    policy = Policy(thread_turns=3, thread_cost_usd=0.5)
    assert exceeded_budget(policy, Spent(turns=2, cost_usd=0.4), None) is None
    assert Policy().thread_turns == 1000
    assert exceeded_budget(policy, Spent(turns=3), None) == "thread_turns is 3, and 3 were used"
    assert "thread_cost_usd" in (exceeded_budget(policy, Spent(turns=1, cost_usd=0.5), None) or "")


def test_a_root_is_looked_at_only_where_it_is_bounded() -> None:
    assert not has_root_budget(Policy(thread_turns=3))
    assert has_root_budget(Policy(root_cost_usd=1.0))
    assert exceeded_budget(Policy(root_turns=2), Spent(), Spent(turns=2)) is not None


def test_of_two_counts_of_a_thread_the_larger_one_counts() -> None:
    assert max_spent(Spent(turns=5, cost_usd=0.1), Spent(turns=2, cost_usd=0.3)) == Spent(turns=5, cost_usd=0.3)


def test_spending_adds_a_turn_and_what_it_cost_if_that_is_known() -> None:
    assert Spent().plus(0.25).plus(None) == Spent(turns=2, cost_usd=0.25)
