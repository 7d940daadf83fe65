"""Bars and sparklines."""

from __future__ import annotations

import pytest

from beam.cli.render import charts
from beam.cli.render.charts import bar, sparkline


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "_is_ascii", lambda: False)


def test_a_bar_has_its_share_of_the_columns_and_shows_whatever_is_there() -> None:
    assert bar(10, 10, width=4) == "████"
    assert bar(5, 10, width=4) == "██  "
    assert bar(0.0001, 10, width=4) == "▏   "
    assert bar(0, 10, width=4) == bar(0, 0, width=4) == "    "


def test_a_sparkline_has_a_character_a_value() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▂▅█"
    assert sparkline([0, 0]) == sparkline([]) == ""


def test_where_only_ascii_can_be_shown_they_are_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "_is_ascii", lambda: True)
    assert (bar(5, 10, width=4) + sparkline([1, 2])).isascii()
