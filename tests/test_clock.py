"""Times as beam writes and reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.clock import SystemClock, parse_rfc3339, rfc3339

moments = st.integers(0, 4_000_000_000_000_000_000)


@given(moments)
def test_a_written_time_is_read_as_itself_to_the_microsecond(now_ns: int) -> None:
    assert parse_rfc3339(rfc3339(now_ns)) == now_ns // 1000 * 1000


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
