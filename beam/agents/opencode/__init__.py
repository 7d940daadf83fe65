"""The adapter of OpenCode: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.base import Card, Exec, Rules
from beam.agents.opencode import acp, screen
from beam.agents.opencode.rules import TOOL_RULES
from beam.agents.opencode.run import CAPABILITIES, OBEYS, RunExec

__all__ = ["card", "dialogue", "exec", "terminal", "tool_rules"]

terminal = screen

card = Card(
    name="opencode",
    summary="OpenCode, the open source coding agent",
    executable="opencode",
    install="npm install -g opencode-ai",
    versions=("1.18.33",),
    obeys={"exec": OBEYS, "dialogue": OBEYS, "terminal": screen.OBEYS},
    faces={"exec": CAPABILITIES, "dialogue": acp.CAPABILITIES, "terminal": screen.CAPABILITIES},
    makes=dict.fromkeys(
        (
            "XDG_CACHE_HOME/opencode",
            "XDG_CONFIG_HOME/opencode",
            "XDG_DATA_HOME/opencode",
            "XDG_STATE_HOME/opencode",
        )
    ),
    writes=("XDG_CACHE_HOME/opencode", "XDG_DATA_HOME/opencode", "XDG_STATE_HOME/opencode"),
    by_name=("dialogue",),
    figures_in_files=True,
    ends_in_files=("dialogue", "terminal"),
    edits_in_files=("terminal",),
    ends_at_denial=("dialogue", "terminal"),
)
dialogue = acp.AcpDialogue("opencode", "OPENCODE", usual="build")
exec: Exec | None = RunExec("opencode", "OPENCODE")
tool_rules: Rules = TOOL_RULES
