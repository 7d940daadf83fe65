"""Rules for Gemini: which rules its policy engine can enforce in a headless turn, and the policy for them.

The policy engine splits a command as a shell would. In a mode in which it can ask nobody (`--approval-mode default`),
it runs no command with a redirection or a substitution; in the other modes it runs a command with a redirection. It
ignores variables that are set before a command, so a rule that denies also matches its words anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from beam.agents.base import Enforced, Face
from beam.model.message import Access
from beam.rules.call import ToolCall
from beam.rules.rule import Rule

_TOOLS = {
    "Bash": ("run_shell_command",),
    "Edit": ("write_file", "replace"),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("google_web_search",),
}
_DENY, _ALLOW = 990, 960  # over all that beam says of an access, and a person's own settings
_AGENT = Enforced("agent")
_SCREEN = Enforced("", "what a screen shows of a call may be less than the call")
_UNTRIED = Enforced("", "over its own protocol no rule has been tried with it")
_PLAIN = Enforced("", "its policy knows tools, and how a command begins, and no more of a call")
_WIDE = Enforced("", "with access edit its policy lets an allowed command write anywhere")


def enforced(rule: Rule, face: Face, access: Access) -> Enforced:
    """Return who enforces this rule."""
    if face != "exec":
        return _SCREEN if face == "terminal" else _UNTRIED
    words = _words(rule)
    if rule.tool not in _TOOLS or words is None:
        return _PLAIN
    if rule.behavior != "allow":
        return _AGENT
    if rule.tool != "Bash" or not words or not rule.argument.endswith(" *"):
        return _PLAIN
    return _AGENT if access == "read" else _WIDE


def call(tool: str, arguments: object) -> ToolCall | None:
    """Return None, because Gemini never asks beam about a call."""
    return None


def policy(rules: Sequence[Rule]) -> str:
    """Return the policy that enforces these rules."""
    return "".join(_entries(rule) for rule in rules)


def _entries(rule: Rule) -> str:
    tools, words = json.dumps(_TOOLS[rule.tool]), _words(rule)
    if rule.behavior == "allow":
        return _entry(tools, "allow", _ALLOW, f"commandPrefix = {json.dumps(' '.join(words or ()))}")
    if not words:
        return _entry(tools, "deny", _DENY, "")
    inner = r"\s+".join(re.sub(r"([^\w -])", r"\\\1", word) for word in words)
    anywhere = rf"(^|[^\w.-]){inner}($|[^\w-])"
    return "".join(
        _entry(tools, "deny", _DENY, text)
        for text in (f"commandPrefix = {json.dumps(' '.join(words))}", f"argsPattern = {json.dumps(anywhere)}")
    )


def _entry(tools: str, decision: str, priority: int, more: str) -> str:
    return f'\n[[rule]]\ntoolName = {tools}\ndecision = "{decision}"\npriority = {priority}\n{more}\n'


def _words(rule: Rule) -> tuple[str, ...] | None:
    """Return the first words of the command that the rule matches, empty for every command; None if the policy can't
    express the rule."""
    if not rule.argument:
        return ()
    words = tuple(rule.argument.removesuffix(" *").split())
    return words if rule.tool == "Bash" and "*" not in "".join(words) else None
