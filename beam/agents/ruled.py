"""Checks that each rule of a turn is enforced, by the agent's CLI or by beam. If a rule is not enforced, the turn does
not begin."""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import Adapter, Enforced, Face, HasRules
from beam.base.errors import UnsupportedError
from beam.model.message import Access
from beam.rules.rule import Rule

ALREADY_ALLOWED = Enforced("agent", "with access full it is allowed already")
NOT_ENFORCED = Enforced("", "no way to hold it to a rule is known")


def enforcer_of(adapter: Adapter, rule: Rule, face: Face, access: Access) -> Enforced:
    """Return who enforces the rule in a turn of this agent with this face and access."""
    if rule.behavior == "allow" and access == "full":
        return ALREADY_ALLOWED
    return adapter.tool_rules.enforced(rule, face, access) if isinstance(adapter, HasRules) else NOT_ENFORCED


def check_rules(adapter: Adapter, face: Face, access: Access, rules: Sequence[Rule]) -> None:
    """Check that each rule is enforced. Raises UnsupportedError that names the first rule that is not enforced, who
    wrote it, and why it is not enforced."""
    for rule in rules:
        found = enforcer_of(adapter, rule, face, access)
        if not found.by:
            other = _other_face(adapter, rule, face, access)
            where = f"(mode {face}, access {access})"
            raise UnsupportedError(
                f"{adapter.card.name} can't be held to the rule `{rule}` of {rule.whose} {where}: {found.why}",
                f"--via {other}" if other else "take the rule out, or send to another agent",
                subject=rule.text,
            )


def _other_face(adapter: Adapter, rule: Rule, face: Face, access: Access) -> Face | None:
    """Return another face of the agent that enforces the rule; None if there is none."""
    others = (other for other, can in adapter.card.faces.items() if other != face and access in can.access)
    return next((other for other in others if enforcer_of(adapter, rule, other, access).by), None)
