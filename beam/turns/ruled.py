"""Applies a turn's rules to a tool call of its agent, and resolves links in the call's paths."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from beam.agents.base import HasRules
from beam.model.outcome import Denial
from beam.rules.call import ToolCall
from beam.rules.ruleset import Ruling
from beam.turns.adapter_turn import folder_of
from beam.turns.input import TurnInput
from beam.turns.request import TurnRequest

if TYPE_CHECKING:
    from beam.rules.match import AgentPlace


def ruling_on(call: ToolCall | None, input: TurnInput) -> Ruling | None:
    """Return the decision of the turn's rules on the call; None if no rule decides, or the call is unknown."""
    if call is None or not input.turn.rules.rules:
        return None
    return input.turn.rules.decide(call, place_of(input.turn.cwd, input.host.home))


def is_denied_by_rule(order: TurnRequest, denial: Denial) -> bool:
    """Return whether a rule of the turn denies the call of this denial."""
    if not order.rules.with_behavior("deny") or not isinstance(order.adapter, HasRules):
        return False
    try:
        call = order.adapter.tool_rules.call(denial.tool, msgspec.json.decode(denial.input))
    except (ValueError, RecursionError):
        return False
    place = place_of(str(folder_of(order)), order.environ.get("HOME", ""))
    ruling = order.rules.decide(call, place) if call is not None else None
    return ruling is not None and ruling.behavior == "deny"


def place_of(folder: str, home: str) -> AgentPlace:
    """Return the `AgentPlace` for matching paths, with the current state of the file system."""
    from beam.rules.match import AgentPlace  # few turns have rules

    return AgentPlace(folder, home, os.path.realpath)
