"""Limits the rights and budgets of a session to those of its agent."""

from __future__ import annotations

import msgspec

from beam.model.message import RANK
from beam.model.rule_lists import RuleLists
from beam.model.settings import AgentSettings

_BOUNDS = ("budget_usd", "max_turns", "retries")


def limit_to_agent(own: AgentSettings, agent: AgentSettings) -> AgentSettings:
    """Return a session's settings, limited to the access, the allowing rules and the budgets of its agent.

    An agent without a configured access counts as `read`. A budget that the agent does not have is not limited.
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


def without_allowing(lists: RuleLists) -> RuleLists:
    """Return the rules that deny or ask, without the rules that allow."""
    return msgspec.structs.replace(lists, allow=())
