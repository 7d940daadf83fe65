"""Rules for Codex: how its requests map to rules, and which rules can be enforced.

Codex runs what its sandbox allows without asking, so a rule can only decide about what would leave the sandbox.
"""

from __future__ import annotations

import re
import shlex

from beam.agents.base import Enforced, Face, Turn
from beam.agents.fields import object_of, objects, string
from beam.model.message import Access
from beam.rules.rule import Rule, ToolCall

_BEAM = Enforced("beam")
_SHELL = re.compile(r"(?:/(?:usr/)?bin/)?(?:ba|z|da)?sh\Z")
_READ_ONLY = ("read", "ask")  # with these accesses Codex's sandbox only reads
_NOT_ASKED = Enforced("", "it runs commands in its sandbox without asking, so beam sees only those that would leave it")
_EDITS_UNASKED = Enforced("", "with this access it changes files of the folder without asking")
_HEADLESS = Enforced("", "`codex exec` asks nobody, and takes no rules for one run")
_SCREEN = Enforced("", "what a screen shows of a call may be less than the call")
_NEVER_ASKS = Enforced("", "it does not ask about such calls")


def enforced(rule: Rule, face: Face, access: Access) -> Enforced:
    """Return who enforces this rule in a turn with this face and access."""
    if face != "dialogue":
        return _HEADLESS if face == "exec" else _SCREEN
    is_mcp = rule.tool.startswith("mcp__")
    if rule.behavior == "allow":
        return _BEAM if rule.tool in ("Bash", "Edit") or is_mcp else _NEVER_ASKS
    if rule.tool == "Edit":
        return _BEAM if access in _READ_ONLY else _EDITS_UNASKED
    return _NOT_ASKED if rule.tool == "Bash" else _NEVER_ASKS


def call(tool: str, arguments: object) -> ToolCall | None:
    """Return Codex's request in the terms of rules; None if rules can't decide it."""
    values = object_of(arguments)
    if tool == "shell":
        more = {"kind", "network", "permissions"}.intersection(values)
        return None if more else ToolCall(tool="Bash", command=_shell_script(string(values, "command")))
    if tool == "apply_patch":
        names = ("path", "move_path")
        paths = tuple(path for each in objects(values, "changes") for name in names if (path := string(each, name)))
        return None if "grantRoot" in values else ToolCall(tool="Edit", paths=paths)
    return ToolCall(tool=tool) if tool.startswith("mcp__") else None


def asks_because_of_rules(turn: Turn) -> bool:
    """Return whether Codex asks beam only because the turn has rules; with this access alone, it would not ask."""
    return turn.access in ("read", "edit") and bool(turn.rules.rules)


def _shell_script(command: str) -> str:
    """Return SCRIPT if the command is `bash -lc SCRIPT`, which is how Codex runs commands; else the unchanged
    command."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and _SHELL.match(words[0]) and words[1] in ("-c", "-lc"):
        return words[2]
    return command
