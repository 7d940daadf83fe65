"""The adapter of OpenCode: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.base import Card, Exec, Rules
from beam.agents.opencode import acp, screen
from beam.agents.opencode.rules import ENFORCED
from beam.agents.opencode.run import FACE, OBEYS, Run

__all__ = ["card", "dialogue", "exec", "terminal", "tool_rules"]

terminal = screen

card = Card(
    name="opencode",
    summary="OpenCode, the open source coding agent",
    executable="opencode",
    install="npm install -g opencode-ai",
    versions=("1.18.33",),
    obeys=OBEYS,
    faces={"exec": FACE, "dialogue": acp.FACE, "terminal": screen.FACE},
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
)
dialogue = acp.Talk("opencode", "OPENCODE", usual="build")
exec: Exec | None = Run("opencode", "OPENCODE")
tool_rules: Rules = ENFORCED
