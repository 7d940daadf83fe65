"""Durations in people's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.base import durations
from beam.base.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(
            ("90s", 90),
            ("1h30m", 5400),
            ("500ms", 0.5),
            ("2.5h", 9000),
            ("45", 45),
            ("1d", 86400),
            ("0", 0),
            ("0.5", 0.5),
        ),
        *((" 10 m ", 600), ("1H", 3600), ("1h 5s", 3605), ("1m500ms", 60.5)),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "abc", "-5s", "5x", "s", "1m1h", "1s1s", "1.2.3s", "1e3", "inf", "nan", "5 5", "٣s", "9" * 400, "400d"],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="30m"):
        durations.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0ms"), (0.85, "850ms"), (0.9996, "1s"), (1, "1s"), (9.54, "9.5s"), (9.96, "10s"), (59.6, "1m00s")),
        *((125, "2m05s"), (3599.7, "1h00m"), (5400, "1h30m"), (90000, "1d01h"), (-2, "-2s")),
    ],
)
def test_a_duration_is_shown_in_two_units(seconds: float, text: str) -> None:
    assert durations.show(seconds) == text


@pytest.mark.slow
@given(st.integers(0, 86399))
def test_what_is_shown_is_read_again_to_the_shown_precision(seconds: int) -> None:
    assert abs(durations.parse(durations.show(seconds)) - seconds) < 60
