"""The rules of the agent profiles that beam gives OpenCode and Kilo, one profile per access, and the tools that a
profile leaves out.

If a person has rules about a tool, the profile makes the program ask before it uses the tool, so that beam decides.
This needs the dialogue mode.
"""

from __future__ import annotations

from beam.agents.acp.face import AskRules
from beam.model.message import Access
from beam.rules.ruleset import Ruleset

_READ_ONLY = {"*": "deny", "read": "allow", "glob": "allow", "grep": "allow", "list": "allow", "todowrite": "allow"}
PROFILES: dict[str, dict[str, str]] = {  # without `task`, because a subagent has rights of its own
    "read": {**_READ_ONLY, "external_directory": "deny"},
    "edit": {**_READ_ONLY, "edit": "allow", "external_directory": "deny"},
    "ask": {**_READ_ONLY, "edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"},
}
_TOOLS_BY_KIND = {  # the tools of a kind of rule, if they have other names than the kind
    "edit": ("edit", "write", "multiedit", "patch", "apply_patch"),
}
_TOOL_KINDS = ("edit", "bash", "webfetch", "websearch", "codesearch", "task")


_KIND_BY_TOOL = {"Bash": "bash", "Edit": "edit", "WebFetch": "webfetch"}  # the kind of each tool that rules name
TOOL_RULES = AskRules(always=dict.fromkeys(("read", "ask", "edit"), tuple(_KIND_BY_TOOL)))


def profile_rules(access: Access, rules: Ruleset) -> dict[str, str]:
    """Return the rules of the profile for this access, in which a person's rules are included."""
    given = dict(PROFILES[access])
    for rule in rules.rules:
        kind = _KIND_BY_TOOL.get(rule.tool, "")
        is_denied = given.get(kind, given["*"]) == "deny"
        if kind and not (is_denied and rule.behavior == "deny"):
            given[kind] = "ask"
    return given


def left_out_tools(access: Access, rules: Ruleset) -> frozenset[str]:
    """Return the names of the tools that the profile of this access denies completely.

    The model is not offered these tools, and a call of one fails with an error.
    """
    if access not in PROFILES:
        return frozenset()
    given = profile_rules(access, rules)
    denied = [kind for kind in _TOOL_KINDS if given.get(kind, given["*"]) == "deny"]
    return frozenset(name for kind in denied for name in _TOOLS_BY_KIND.get(kind, (kind,)))
