"""The adapter of Kilo Code's CLI, which is OpenCode under another name: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.base import Card, Exec, Rules
from beam.agents.opencode import acp
from beam.agents.opencode.rules import TOOL_RULES
from beam.agents.opencode.run import CAPABILITIES, RunExec
from beam.model.autoloaded import AutoloadedFile

__all__ = ["card", "dialogue", "exec", "tool_rules"]

_CONFIG_FILES = ("kilo.json", "kilo.jsonc", "opencode.json", "opencode.jsonc")
_NAMES_IN_FOLDERS = (*_CONFIG_FILES, "config.json", "package.json", "plugin", "plugins", "tool", "tools")
_OBEYED_PATHS = (
    *_CONFIG_FILES,
    *(f"{folder}/{name}" for folder in (".kilo", ".kilocode", ".opencode") for name in _NAMES_IN_FOLDERS),
)
_OBEYS = (
    # Kilo starts these servers even where it is told to read no configuration of the folder.
    *(AutoloadedFile(path=f"{folder}/mcp.json", reach="worktree") for folder in (".kilo", ".kilocode")),
    *(AutoloadedFile(path=path, at=("full",), reach="upward") for path in _OBEYED_PATHS),
)

card = Card(
    name="kilo",
    summary="Kilo Code's CLI",
    executable="kilo",
    install="npm install -g @kilocode/cli",
    versions=("7.7.7",),
    obeys=dict.fromkeys(("exec", "dialogue"), _OBEYS),
    faces={"exec": CAPABILITIES, "dialogue": acp.CAPABILITIES},
    makes=dict.fromkeys(
        (
            "XDG_CACHE_HOME/kilo",
            "XDG_CONFIG_HOME/kilo",
            "XDG_DATA_HOME/kilo",
            "XDG_STATE_HOME/kilo",
            "XDG_STATE_HOME/kilo-sandbox-policy",
        )
    ),
    writes=("XDG_CACHE_HOME/kilo", "XDG_DATA_HOME/kilo", "XDG_STATE_HOME/kilo", "XDG_STATE_HOME/kilo-sandbox-policy"),
    by_name=("dialogue",),
    figures_in_files=True,
    ends_in_files=("dialogue",),
    ends_at_denial=("dialogue",),
)
dialogue = acp.AcpDialogue("kilo", "KILO", usual="code")
exec: Exec | None = RunExec("kilo", "KILO", usual="code")
tool_rules: Rules = TOOL_RULES
