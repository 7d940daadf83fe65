"""The fold of a journal's events, for tests; beam applies one event after the other."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from beam.model.events import AnyEvent
from beam.model.state import State, apply


def fold(state: State, later: Iterable[AnyEvent]) -> State:
    """The state after all the events; the one given stays as it is."""
    after = copy.deepcopy(state)
    for event in later:
        apply(after, event)
    return after
