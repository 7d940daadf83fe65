"""Who enforces which rule, for a table in the docs and for its test."""

from __future__ import annotations

from beam.agents import registry
from beam.agents.base import HasRules
from beam.agents.options import enforcer_of
from beam.rules.rule import BEHAVIOR_ORDER, parse
from tests.support.made import table

RULES = ("Bash", "Bash(git log *)", "Edit", "Edit(src/**)", "Read(secrets/**)", "WebFetch(domain:a.com)", "mcp__git")
ARGUMENTS = tuple(name for name in registry.ADAPTERS if isinstance(registry.adapter(name), HasRules))
_SHOWN = ("Bash(git log *)", "Edit(src/**)")


def rules() -> str:
    """Who enforces a rule, for each agent, mode and access in which one but an `allow` at full is enforced."""
    head = ("adapter", "mode", "access", *(f"`{word} {text}`" for text in _SHOWN for word in BEHAVIOR_ORDER))
    lines = []
    for name in ARGUMENTS:
        adapter = registry.adapter(name)
        for face, can in adapter.card.faces.items():
            for access in can.access:
                made = [
                    enforcer_of(adapter, parse(text, word), face, access).by
                    for text in _SHOWN
                    for word in BEHAVIOR_ORDER
                ]
                if any(by for at, by in enumerate(made) if access != "full" or BEHAVIOR_ORDER[at % 3] != "allow"):
                    lines.append((f"`{name}`", face, f"`{access}`", *(by or "–" for by in made)))
    return table(head, lines)
