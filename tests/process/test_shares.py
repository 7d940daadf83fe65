"""How the time to end a tree of processes is divided."""

from __future__ import annotations

from beam.process.tree import GUARD_SHARE


def test_a_guard_leaves_some_of_the_time_to_end_what_it_left() -> None:
    assert 0.5 <= GUARD_SHARE < 1
