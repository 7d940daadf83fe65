"""Methods for the rules of agents, which allow or deny calls of their tools in addition to the agents' access."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from beam.api.verbs.opened import OpenedRoot
from beam.model.message import Access, RuleLists

if TYPE_CHECKING:
    from beam.api.rules import RuleLine, RuleTried
    from beam.rules.rule import Behavior


class RuleVerbs(OpenedRoot):
    """List, try, add and remove the rules of agents."""

    def rules(self, agent: str) -> list[RuleLine]:
        """Return the agent's rules in their order of precedence, each with its author."""
        from beam.api import rules

        return rules.list_rules(self.context, agent)

    def try_rules(
        self,
        agent: str,
        call: str,
        *,
        access: Access | None = None,
        via: str | None = None,
        more: RuleLists | None = None,
    ) -> RuleTried:
        """Return which rule decides a call (`Bash(git push)`), who wrote it, and who enforces it.

        `more` are rules that a message would add. Raises UsageError for an invalid call.
        """
        from beam.api import rules

        return rules.try_rules(self.context, agent, call, access=access, via=via, more=more)

    def add_rule(self, agent: str, behavior: Behavior, rule: str) -> Path:
        """Add a rule to the agent's own settings, and return the path of its agent.json. Raises UsageError for an
        invalid rule."""
        self.check_person("changes rules")
        from beam.api import rules

        return rules.add(self.context, agent, behavior, rule, by=self.me)

    def remove_rule(self, agent: str, behavior: Behavior, rule: str) -> Path:
        """Remove a rule from the agent's own settings, and return the path of its agent.json. Raises NotFoundError if
        the rule is not in them."""
        self.check_person("changes rules")
        from beam.api import rules

        return rules.remove(self.context, agent, behavior, rule, by=self.me)
