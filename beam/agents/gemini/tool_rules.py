"""Rules for Gemini: which rules its policy engine can enforce, the policy for these rules, and which rules beam
enforces.

In dialogue mode Gemini names the files of a call, but the text that it gives for a command is not always the command.
So no rule of beam allows a command there.

The policy engine splits a command as a shell would. In a mode in which it can ask nobody (`--approval-mode default`),
it runs no command with a redirection or a substitution; in the other modes it runs a command with a redirection. It
ignores variables that are set before a command, so the policy for a rule that denies also matches the rule's words
anywhere in a command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from beam.agents.base import Enforced, Face
from beam.model.message import Access
from beam.rules.rule import Rule, ToolCall

_TOOLS = {
    "Bash": ("run_shell_command",),
    "Edit": ("write_file", "replace"),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("google_web_search",),
}
_DENY_PRIORITY, _ALLOW_PRIORITY = 990, 960  # above beam's rules for an access, and above a person's own settings
_AGENT = Enforced("agent")
_SCREEN = Enforced("", "what a screen shows of a call may be less than the call")
_BEAM = Enforced("beam")
_UNNAMED_COMMAND = Enforced("", "over its own protocol it does not name the command that it asks about")
_MAY_SKIP_ASKING = Enforced("", "with this access it may do such a call without asking beam")
_POLICY_CANNOT_SAY = Enforced("", "its policy knows tools, and how a command begins, and no more of a call")
_WRITES_ANYWHERE = Enforced("", "with access edit its policy lets an allowed command write anywhere")


def enforced(rule: Rule, face: Face, access: Access) -> Enforced:
    """Return who enforces this rule."""
    if face != "exec":
        return _SCREEN if face == "terminal" else _enforced_in_dialogue(rule, access)
    words = _command_words(rule)
    if rule.tool not in _TOOLS or words is None:
        return _POLICY_CANNOT_SAY
    if rule.behavior != "allow":
        return _AGENT
    if rule.tool != "Bash" or not words or not rule.argument.endswith(" *"):
        return _POLICY_CANNOT_SAY
    return _AGENT if access == "read" else _WRITES_ANYWHERE


def _enforced_in_dialogue(rule: Rule, access: Access) -> Enforced:
    if rule.tool == "Edit" and access == "read":
        return _BEAM  # at `read` gemini asks about each change
    if rule.behavior == "allow":
        return (
            _UNNAMED_COMMAND
            if rule.tool == "Bash"
            else _BEAM
            if rule.tool == "Edit" and access == "ask"
            else _MAY_SKIP_ASKING
        )
    if rule.tool not in _TOOLS or _command_words(rule) is None:
        return _POLICY_CANNOT_SAY if rule.tool != "Edit" else _MAY_SKIP_ASKING
    if rule.behavior == "ask" and access != "ask":
        return _MAY_SKIP_ASKING
    return _AGENT


def call(tool: str, arguments: object) -> ToolCall | None:
    """Return None, because the link itself maps each request to the terms of rules (`Call.call_for_rules`)."""
    return None


def policy(rules: Sequence[Rule], *, asks: bool = False) -> str:
    """Return the policy that enforces these rules. With `asks`, the policy asks for a call that a rule asks about;
    otherwise it denies such a call."""
    return "".join(_rule_entries(rule, asks=asks) for rule in rules)


def dialogue_policy(rules: Sequence[Rule], access: Access) -> str:
    """Return the policy for the rules that gemini itself enforces in dialogue mode."""
    return policy([rule for rule in rules if _enforced_in_dialogue(rule, access) == _AGENT], asks=True)


def _rule_entries(rule: Rule, *, asks: bool) -> str:
    tools, words = json.dumps(_TOOLS[rule.tool]), _command_words(rule)
    if rule.behavior == "allow":
        return _policy_entry(tools, "allow", _ALLOW_PRIORITY, f"commandPrefix = {json.dumps(' '.join(words or ()))}")
    decision = "ask_user" if asks and rule.behavior == "ask" else "deny"
    if not words:
        return _policy_entry(tools, decision, _DENY_PRIORITY, "")
    inner = r"\s+".join(re.sub(r"([^\w -])", r"\\\1", word) for word in words)
    anywhere = rf"(^|[^\w.-]){inner}($|[^\w-])"
    return "".join(
        _policy_entry(tools, decision, _DENY_PRIORITY, text)
        for text in (f"commandPrefix = {json.dumps(' '.join(words))}", f"argsPattern = {json.dumps(anywhere)}")
    )


def _policy_entry(tools: str, decision: str, priority: int, more: str) -> str:
    return f'\n[[rule]]\ntoolName = {tools}\ndecision = "{decision}"\npriority = {priority}\n{more}\n'


def _command_words(rule: Rule) -> tuple[str, ...] | None:
    """Return the first words of the command that the rule matches, empty for every command; None if the policy can't
    express the rule."""
    if not rule.argument:
        return ()
    words = tuple(rule.argument.removesuffix(" *").split())
    return words if rule.tool == "Bash" and "*" not in "".join(words) else None
