"""The options and rules of a turn, checked against what the agent can do. If its CLI and beam can't enforce a rule, the
turn does not begin.

A turn checks its options here, once. An adapter refuses only what its card can't express, such as a value that can't be
an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from beam.agents.base import Adapter, Capabilities, Enforced, Face, HasRules
from beam.base.errors import UnsupportedError
from beam.model.message import Access
from beam.rules.rule import Rule

OPTIONS = {
    "schema": "--schema",
    "max_turns": "--max-turns",
    "budget": "--budget",
    "model": "--model",
    "attach": "--attach",
    "system": "a system prompt (`system`)",
    "resume": "an earlier session",
    "commands": "a slash command (--slash)",
    "whole": "--require whole: it does not report that an answer was cut off",
}
"""A field of `Capabilities` -> the words for this option in the error message."""


def check_options(
    name: str, can: Capabilities, asked: Collection[str], faces: Mapping[Face, Capabilities] | None = None
) -> None:
    """Check that the face supports all requested options. `asked` are keys of `OPTIONS`. `faces` are the faces that
    could run the turn instead; the error suggests one of them. Raises UnsupportedError that names every unsupported
    option."""
    lacking = [words for option, words in OPTIONS.items() if option in asked and not getattr(can, option)]
    if not lacking:
        return
    others = (face for face, other in (faces or {}).items() if all(getattr(other, option) for option in asked))
    other = next(others, None)
    hint = f"--via {other} can" if other is not None else "leave it out, or send to another agent"
    where = " in this mode" if other is not None else ""
    raise UnsupportedError(f"{name} has no way to do {', '.join(lacking)}{where}", hint)


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
