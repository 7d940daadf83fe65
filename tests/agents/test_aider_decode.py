"""The end of an answer of aider's that a failure broke off."""

from __future__ import annotations

import re
from typing import SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.agents.aider.decode import _failure_lines

LINES = st.lists(st.sampled_from(["", "text", "litellm.APIError: no", "a litellm.Timeout: x", "litellm.other: y", " "]))


class Watched(list[str]):
    """Lines that remember the first one that was asked for."""

    first = 1 << 30

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, SupportsIndex):
            self.first = min(self.first, int(index))
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (["An answer."], []),
        (
            ["Half an", "litellm.APIConnectionError: gone", "for good", "", ""],
            ["litellm.APIConnectionError: gone", "for good"],
        ),
        (["Half litellm.Timeout: after 10 s"], ["litellm.Timeout: after 10 s"]),
        (["litellm.APIError: quoted", "", "and more"], []),
        (["litellm.APIError: quoted", *"abcde"], []),
        ([], []),
    ],
)
def test_what_broke_an_answer_off_stands_in_its_last_lines(answer: list[str], expected: list[str]) -> None:
    assert _failure_lines(answer) == expected


def test_however_long_an_answer_is_only_its_last_lines_are_looked_at() -> None:
    answer = Watched(["litellm.APIError: x"] * 10_000)
    assert len(_failure_lines(answer)) == 5
    assert answer.first >= len(answer) - 6


@pytest.mark.slow
@given(LINES)
def test_it_is_the_longest_end_of_five_lines_that_begins_with_a_failure(answer: list[str]) -> None:
    whole = re.compile(r"litellm\.\w*(?:Error|Exception|Timeout): [^\n]*(?:\n[^\n]+){0,4}\n*\Z")
    found = whole.search("\n".join(answer))
    assert "\n".join(_failure_lines(answer)) == ("" if found is None else found[0].rstrip("\n"))
