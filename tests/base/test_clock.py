"""Times as beam writes and reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.base.clock import ASLEEP_S, Awake, SystemClock, parse_rfc3339, recorded_ns, rfc3339
from beam.base.errors import CorruptError

moments = st.integers(0, 4_000_000_000_000_000_000)


@pytest.mark.slow
@given(moments)
def test_a_written_time_is_read_as_itself_to_the_microsecond(now_ns: int) -> None:
    assert parse_rfc3339(rfc3339(now_ns)) == now_ns // 1000 * 1000


@pytest.mark.slow
@given(moments, moments)
def test_written_times_sort_as_the_times_do(left: int, right: int) -> None:
    assert (rfc3339(left) < rfc3339(right)) is (left // 1000 < right // 1000)


def test_other_spellings_of_a_time_are_read_too() -> None:
    noon = 1_700_000_000_000_000_000
    assert parse_rfc3339("2023-11-14T22:13:20Z") == noon
    assert parse_rfc3339("2023-11-14T23:13:20+01:00") == noon
    assert parse_rfc3339("2023-11-14T22:13:20") == noon
    assert parse_rfc3339("1969-12-31T23:59:59.5Z") == -500_000_000


@pytest.mark.parametrize("text", ["", "soon", "2023-13-01T00:00:00Z", "1700000000"])
def test_what_is_no_time_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_rfc3339(text)


def test_the_systems_clock_goes_on_and_draws_as_many_bytes_as_asked() -> None:
    clock = SystemClock()
    assert clock.now_ns() > 1_700_000_000_000_000_000
    assert clock.monotonic() <= clock.monotonic()
    assert len(clock.random(16)) == 16
    assert clock.random(16) != clock.random(16)


class Hands(SystemClock):
    """A clock whose hands the test moves."""

    at = 50.0

    def monotonic(self) -> float:
        return self.at


@pytest.mark.slow
@given(st.lists(st.integers(0, 640).map(lambda number: number / 64)))  # sums of them are exact
def test_a_clock_that_knows_that_it_slept_counts_the_time_awake_only(steps: list[float]) -> None:
    hands = Hands()
    clock = Awake(hands)
    began, awake = clock.monotonic(), 0.0
    for step in steps:
        hands.at += step
        awake += step if step <= ASLEEP_S else 0.0
        assert clock.monotonic() - began == pytest.approx(awake, abs=1e-6)


@pytest.mark.slow
@given(st.integers(), st.integers())
def test_any_number_is_a_time_that_can_be_written_read_and_sorted(left: int, right: int) -> None:
    assert parse_rfc3339(rfc3339(left)) <= max(left, parse_rfc3339("0001-01-01"))
    assert len(rfc3339(left)) == len(rfc3339(right)) == 27
    if left <= right:
        assert rfc3339(left) <= rfc3339(right)


def test_times_outside_the_calendar_are_its_first_and_its_last() -> None:
    assert rfc3339(-(10**30)) == "0001-01-01T00:00:00.000000Z"
    assert rfc3339(10**30) == "9999-12-31T23:59:59.999999Z"


def test_a_recorded_time_that_is_none_is_a_damaged_file() -> None:
    assert recorded_ns("1969-12-31T23:59:59.5Z") == -500_000_000
    with pytest.raises(CorruptError, match="'soon' is not a time that beam wrote"):
        recorded_ns("soon")
