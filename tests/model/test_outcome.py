"""Statuses and the one function from them to an exit code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.model.outcome import Class, Status, Usage, exit_code

figures = st.none() | st.integers(0, 1000)
usages = st.builds(Usage, input_tokens=figures, output_tokens=figures, cached_tokens=figures, reasoning_tokens=figures)


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("class_", [None, *Class])
def test_only_a_completed_turn_exits_with_0(status: Status, class_: Class | None) -> None:
    assert (exit_code(status, class_) == 0) is (status is Status.COMPLETED)


def test_each_status_has_its_own_code() -> None:
    codes = "completed=0 failed=1 timeout=3 denied=5 refused=6 limit=7 unknown=8 cancelled=9 truncated=11"
    assert {f"{status.value}={int(exit_code(status, None))}" for status in Status} == set(codes.split())


def test_what_an_agent_can_not_do_and_what_is_missing_have_codes_of_their_own() -> None:
    assert exit_code(Status.FAILED, Class.UNSUPPORTED) == 10
    assert exit_code(Status.FAILED, Class.NOT_INSTALLED) == 4
    assert exit_code(Status.FAILED, Class.AUTH) == 1


@pytest.mark.slow
@given(usages, usages)
def test_a_sum_of_tokens_is_unknown_only_if_both_are(left: Usage, right: Usage) -> None:
    total = left.plus(right)
    assert total == right.plus(left)
    for name in Usage.__struct_fields__:
        known = [figure for figure in (getattr(left, name), getattr(right, name)) if figure is not None]
        assert getattr(total, name) == (sum(known) if known else None)
