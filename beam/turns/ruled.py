"""What the rules of a turn say about a call that its agent asks for, with the links of its paths followed."""

from __future__ import annotations

import os

from beam.rules.call import ToolCall
from beam.rules.match import Place
from beam.rules.ruleset import Ruling
from beam.turns.input import TurnInput


def ruling_on(call: ToolCall | None, input: TurnInput) -> Ruling | None:
    """Return what the turn's rules say about the call; None where they say nothing, or nobody knows what it is."""
    if call is None or not input.turn.rules.rules:
        return None
    return input.turn.rules.decide(call, place_of(input.turn.cwd, input.host.home))


def place_of(folder: str, home: str) -> Place:
    """Return where paths are looked at, as the file system has them now."""
    return Place(folder, home, os.path.realpath)
