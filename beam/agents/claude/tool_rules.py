"""Rules for Claude Code: how its tool calls map to rules, and which rules the CLI can enforce itself.

Rules that deny or ask are always put into the settings of the process. They count in every mode, and win over the
person's own rules. Rules that allow are put there only in a headless turn; in dialogue mode the process asks beam.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from beam.agents.base import Enforced, Face, Turn
from beam.agents.fields import Object, object_of, string
from beam.model.message import Access
from beam.rules.rule import BEHAVIOR_ORDER, Behavior, Rule, ToolCall, host_of

_AGENT, _BEAM = Enforced("agent"), Enforced("beam")
_TOOLS_ALIKE = {  # a rule without an argument is about all of these tools
    "Read": ("Read", "Grep", "Glob"),
    "Edit": ("Edit", "Write", "MultiEdit", "NotebookEdit"),
    "Agent": ("Agent", "Task"),
}
_KINDS = {name: kind for kind, names in _TOOLS_ALIKE.items() for name in names}
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path")
_CHANGING_TOOLS = ("Bash", "Edit")
_NOT_WITH_READ = Enforced(
    "", "its own rules can't allow one such call with access read and keep what your settings allow from the others"
)
_NOT_ON_SCREEN = Enforced("", "what a screen shows of a call may be less than the call")


def enforced(rule: Rule, face: Face, access: Access) -> Enforced:
    """Return who enforces this rule."""
    if rule.behavior != "allow":
        return _AGENT
    if face == "dialogue":
        return _BEAM
    if face == "terminal":
        return _NOT_ON_SCREEN
    changes = rule.tool in _CHANGING_TOOLS or rule.tool.startswith("mcp__")
    return _NOT_WITH_READ if access == "read" and changes else _AGENT


def call(tool: str, arguments: object) -> ToolCall | None:
    """Return the call in the terms of rules; None if rules can't describe it."""
    values, kind = object_of(arguments), _KINDS.get(tool, tool)
    match kind:
        case "Bash":
            is_free = values.get("dangerouslyDisableSandbox") is True
            return ToolCall(tool=kind, command=string(values, "command"), by_person=is_free)
        case "Read" | "Edit":
            paths = tuple(path for name in _PATH_ARGUMENTS if (path := string(values, name)))
            return ToolCall(tool=kind, paths=paths or ((".",) if tool in ("Grep", "Glob") else ()))
        case "WebFetch":
            return ToolCall(tool=kind, host=host_of(string(values, "url")))
        case "WebSearch" | "Agent":
            return ToolCall(tool=kind)
    return ToolCall(tool=tool) if tool.startswith("mcp__") else None


def asks_beam(turn: Turn) -> bool:
    """Return whether the access is `read` and a rule may allow a call that `read` denies, or ask a person about it."""
    return turn.access == "read" and any(rule.behavior != "deny" for rule in turn.rules.rules)


def flags(words: Sequence[str], turn: Turn, behaviors: Sequence[Behavior] = BEHAVIOR_ORDER) -> tuple[str, ...]:
    """Return an access's flags, with the turn's rules of these behaviours added to their `--settings`."""
    rules = [rule for rule in turn.rules.rules if rule.behavior in behaviors]
    if not rules:
        return tuple(words)
    found = list(words)
    settings: Object = {}
    if "--settings" in found:
        at = found.index("--settings")
        settings = json.loads(found[at + 1])
        del found[at : at + 2]
    permissions = object_of(settings.get("permissions"))
    for rule in rules:
        before = permissions.get(rule.behavior)
        permissions[rule.behavior] = [*(before if isinstance(before, list) else []), *_rule_texts(rule)]
    text = json.dumps({**settings, "permissions": permissions}, separators=(",", ":"))
    return (*found, "--settings", text)


def _rule_texts(rule: Rule) -> tuple[str, ...]:
    if not rule.argument:
        return _TOOLS_ALIKE.get(rule.tool, (rule.tool,))
    bare = rule.argument.removesuffix(" *") if rule.tool == "Bash" else rule.argument
    return (rule.text, f"{rule.tool}({bare})") if bare != rule.argument else (rule.text,)
