"""The rules of the agent profiles that beam gives OpenCode and Kilo, one profile per access, and the tools that a
profile leaves out.

If a person has rules about a tool, the profile makes the program ask before it uses the tool, so that beam decides.
This needs the dialogue mode.
"""

from __future__ import annotations

from beam.agents.acp.tool_rules import AskRules
from beam.model.message import Access
from beam.rules.ruleset import Ruleset

_LOOK = {"*": "deny", "read": "allow", "glob": "allow", "grep": "allow", "list": "allow", "todowrite": "allow"}
RULES: dict[str, dict[str, str]] = {  # `task` stays out: a subagent has rights of its own
    "read": {**_LOOK, "external_directory": "deny"},
    "edit": {**_LOOK, "edit": "allow", "external_directory": "deny"},
    "ask": {**_LOOK, "edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"},
}
_BY_KIND = {  # the tools that a kind of rule is about, where they have another name
    "edit": ("edit", "write", "multiedit", "patch", "apply_patch"),
}
_KINDS = ("edit", "bash", "webfetch", "websearch", "codesearch", "task")


_ASKED = {"Bash": "bash", "Edit": "edit", "WebFetch": "webfetch"}  # tools of rules, and their kind
ENFORCED = AskRules(always=dict.fromkeys(("read", "ask", "edit"), tuple(_ASKED)))


def profile(access: Access, rules: Ruleset) -> dict[str, str]:
    """Return the rules of the profile for this access, in which a person's rules are included."""
    given = dict(RULES[access])
    for rule in rules.rules:
        kind = _ASKED.get(rule.tool, "")
        is_denied = given.get(kind, given["*"]) == "deny"
        if kind and not (is_denied and rule.behavior == "deny"):
            given[kind] = "ask"
    return given


def left_out(access: Access, rules: Ruleset) -> frozenset[str]:
    """Return the names of the tools that the profile of this access denies completely.

    The model is not offered these tools, and a call of one fails with an error.
    """
    if access not in RULES:
        return frozenset()
    given = profile(access, rules)
    denied = [kind for kind in _KINDS if given.get(kind, given["*"]) == "deny"]
    return frozenset(name for kind in denied for name in _BY_KIND.get(kind, (kind,)))
