"""The adapter of GitHub Copilot CLI: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.acp.face import AskRules
from beam.agents.base import Card, Rules
from beam.agents.copilot import dialogue, exec, screen

__all__ = ["card", "dialogue", "exec", "terminal", "tool_rules"]

terminal = screen

card = Card(
    name="copilot",
    summary="GitHub Copilot CLI",
    executable="copilot",
    install="npm install -g @github/copilot",
    versions=("1.0.102",),
    obeys={"exec": (), "dialogue": dialogue.OBEYS, "terminal": screen.OBEYS},
    faces={"exec": exec.CAPABILITIES, "dialogue": dialogue.CAPABILITIES, "terminal": screen.CAPABILITIES},
    makes=dict.fromkeys(
        (
            "HOME/.copilot",
            "XDG_CACHE_HOME/copilot",
            "XDG_CACHE_HOME/Microsoft",
        )
    ),
    by_name=("dialogue",),
    ends_in_files=("exec", "dialogue", "terminal"),
    edits_in_files=("terminal",),
)
# Copilot does not ask again about a call that a person allowed permanently in a folder.
tool_rules: Rules = AskRules(
    beyond={"ask": ("Bash", "Edit"), "edit": ("Edit",)}, absent={"read": ("Bash", "Edit"), "edit": ("Bash",)}
)
