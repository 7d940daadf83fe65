"""What every agent that speaks the Agent Client Protocol can do: its capabilities, and which rules can be enforced. An
adapter changes what its agent does otherwise. Each resulting capability has a test.

Which rules can be enforced depends on the calls about which an agent asks beam with an access.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from beam.agents.base import Capabilities, Enforced, Face
from beam.model.message import Access
from beam.rules.rule import Rule, ToolCall

ACP_CAPABILITIES = Capabilities(
    resume=True,
    model=True,
    system=True,
    schema=True,
    deltas=True,
    tools=True,
    attach="inline",
    interrupt=True,
    ask=True,
    edits=True,
)


_BEAM = Enforced("beam")
_NEVER_ASKS = Enforced("", "in this mode it asks beam about no call")
_ASKS_OTHER_CALLS = Enforced("", "with this access it does not ask beam about such calls")
_MAY_SKIP_ASKING = Enforced("", "with this access it may do such a call without asking beam")
_FULL_ACCESS = Enforced("", "with access full it does everything without asking beam")


class AskRules(Struct, frozen=True, kw_only=True):
    """The calls about which one agent asks beam. Each field maps an access to tools, by the names that rules have for
    them.

    `always`: the agent asks beam about every call of these tools. `beyond`: the agent asks beam about some calls of
    these tools, and its own settings may allow others. `absent`: the agent is started without these tools.
    """

    always: Mapping[Access, Collection[str]] = {}
    beyond: Mapping[Access, Collection[str]] = {}
    absent: Mapping[Access, Collection[str]] = {}

    def enforced(self, rule: Rule, face: Face, access: Access) -> Enforced:
        """Return who enforces this rule in a turn with this face and access."""
        if face != "dialogue":
            return _NEVER_ASKS
        if rule.tool in self.always.get(access, ()):
            return _BEAM
        if rule.behavior == "deny" and rule.tool in self.absent.get(access, ()):
            return _BEAM  # beam starts the agent without the tool
        if rule.tool in self.beyond.get(access, ()):
            return _BEAM if rule.behavior == "allow" else _MAY_SKIP_ASKING
        return _FULL_ACCESS if access == "full" else _ASKS_OTHER_CALLS

    def call(self, tool: str, arguments: object) -> ToolCall | None:
        """Return None, because the name of a tool says too little. The link maps each request itself
        (`Call.call_for_rules`)."""
        return None
