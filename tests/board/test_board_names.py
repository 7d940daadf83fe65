"""The names of everyone in the panes: no two are the same, however narrow the column is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam.board.names import Names, distinct, labels
from beam.board.rows import rows_of
from beam.cli.render.text import display_width
from tests.board.made import PROJECT, agent, snapshot

NORTH, SOUTH = PROJECT / "north/api/app", PROJECT / "south/api/app"


def test_an_agent_of_another_folder_has_its_folder_and_a_member_its_team() -> None:
    places = [(PROJECT, [agent("claude")]), (NORTH, [agent("claude")]), (SOUTH, [agent("claude")])]
    found = labels(rows_of(snapshot(agents=places)), PROJECT)
    assert found == {
        f"{PROJECT}/claude": "claude",
        f"{NORTH}/claude": "north/…/app/claude",
        f"{SOUTH}/claude": "south/…/app/claude",
        "codex~0198aaaa-0000-4000-8000-00000000c0de": "site/codex~c0de",
        "alice@docs": "alice@docs",
        "bob@docs": "bob@docs",
    }


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    names = Names()
    names.learn({"n": "north/…/app/claude", "s": "south/…/app/claude"})
    assert (names.short("n", 16), names.short("s", 16)) == ("north/…pp/claude", "south/…pp/claude")
    assert (names.short("n", 40), names.whole("n"), names.short("x", 9)) == ("north/…/app/claude",) * 2 + ("x",)
    names.learn({"n": "app/claude"})
    assert (names.short("n", 16), "n" in names, "x" in names) == ("app/claude", True, False)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=3), st.text("ab日~2", max_size=12), max_size=8), st.integers(5, 12))
def test_no_two_short_texts_are_the_same_and_none_is_too_wide(texts: dict[str, str], width: int) -> None:
    found = distinct(texts, width)
    assert found.keys() == texts.keys() and len(set(found.values())) == len(texts)
    assert all(display_width(text) <= width for text in found.values())
