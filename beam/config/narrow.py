"""Keeps a session's rights and bounds within those of its agent."""

from __future__ import annotations

import msgspec

from beam.model.message import RANK
from beam.model.rule_lists import RuleLists
from beam.model.settings import AgentSettings

_BOUNDS = ("budget_usd", "max_turns", "retries")


def at_most(own: AgentSettings, agent: AgentSettings) -> AgentSettings:
    """Return a session's settings, with no more access and rules than its agent's, and no higher bound of cost.

    An agent without an access of its own has `read`; one without a bound leaves it to the session.
    """
    narrowed: dict[str, object] = {}
    if own.access is not None and RANK[own.access] > RANK[agent.access or "read"]:
        narrowed["access"] = agent.access or "read"
    for name in _BOUNDS:
        bound, own_bound = getattr(agent, name), getattr(own, name)
        if bound is not None and (own_bound is None or own_bound > bound):
            narrowed[name] = bound
    if set(own.rules.allow) > set(agent.rules.allow):
        narrowed["rules"] = msgspec.structs.replace(own.rules, allow=agent.rules.allow)
    return msgspec.structs.replace(own, **narrowed) if narrowed else own


def narrowing(lists: RuleLists) -> RuleLists:
    """Return the rules that only take away."""
    return msgspec.structs.replace(lists, allow=())
