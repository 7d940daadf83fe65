"""Applies a turn's rules to a call that its agent requests, and resolves links in the call's paths."""

from __future__ import annotations

import os

from beam.rules.call import ToolCall
from beam.rules.match import Place
from beam.rules.ruleset import Ruling
from beam.turns.input import TurnInput


def ruling_on(call: ToolCall | None, input: TurnInput) -> Ruling | None:
    """Return the decision of the turn's rules on the call; None if no rule decides, or the call is unknown."""
    if call is None or not input.turn.rules.rules:
        return None
    return input.turn.rules.decide(call, place_of(input.turn.cwd, input.host.home))


def place_of(folder: str, home: str) -> Place:
    """Return the `Place` for matching paths, with the current state of the file system."""
    return Place(folder, home, os.path.realpath)
