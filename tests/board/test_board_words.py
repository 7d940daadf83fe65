"""Words of others on the board."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.board.words import cell, count, elapsed, money, safe_line, wrap
from beam.cli.render.text import display_width
from tests.board.made import HOSTILE

pytestmark = pytest.mark.slow

_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


@given(st.text(max_size=60))
def test_no_text_has_a_character_that_a_terminal_or_the_eye_obeys(text: str) -> None:
    assert not _OBEYED.search(safe_line(text)) and "\n" not in safe_line(text)
    assert not any(_OBEYED.search(line) for line in wrap(text, 20))


def test_hostile_words_are_shown_by_name_and_markup_stays_text() -> None:
    shown = safe_line(HOSTILE)
    assert "␛[2J" in shown and "[red]x[/red]" in shown and "[@click=app.quit]" in shown and "<U+202E>evil" in shown
    assert shown.count("\u0301") <= 2


@given(st.text(max_size=40), st.integers(0, 30))
def test_a_cell_has_exactly_its_width_where_it_can(text: str, width: int) -> None:
    shown = cell(safe_line(text), width)
    assert display_width(shown) == width or (width == 0 and shown == "")


@given(st.text(st.characters(exclude_categories=["C", "M"], exclude_characters="\u2028\u2029"), max_size=60))
def test_wrapping_leaves_nothing_out(text: str) -> None:
    lines = wrap(text, 7)
    assert all(display_width(line) <= 7 for line in lines)
    assert "".join(lines) == "".join(wrap(text, 10_000))


def test_a_very_long_text_is_cut_before_anyone_looks_at_all_of_it() -> None:
    assert len(safe_line("é" * 10_000_000)) == 4_000


@pytest.mark.parametrize(("seconds", "shown"), [(-3, "0s"), (59, "59s"), (61, "1m"), (7300, "2h"), (200_000, "2d")])
def test_a_length_of_time_has_one_unit(seconds: float, shown: str) -> None:
    assert elapsed(seconds) == shown


def test_amounts_are_short_and_an_estimate_is_marked() -> None:
    assert [money(None), money(0.0412), money(12.345, is_estimate=True)] == ["", "$0.0412", "~$12.35"]
    assert [count(None), count(940), count(12_300), count(4_500_000)] == ["", "940", "12.3k", "4.5M"]
