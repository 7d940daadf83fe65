"""The adapter of Kimi Code: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.acp.face import AskRules
from beam.agents.base import Card, Rules
from beam.agents.kimi import dialogue, exec

__all__ = ["card", "dialogue", "exec", "tool_rules"]

card = Card(
    name="kimi",
    summary="Kimi Code CLI; headless it asks nobody and runs every tool",
    executable="kimi",
    install="npm install -g @moonshot-ai/kimi-code (it needs Node.js 22.19 or newer)",
    versions=("2.1.0",),
    obeys={"exec": (), "dialogue": ()},
    faces={"exec": exec.CAPABILITIES, "dialogue": dialogue.CAPABILITIES},
    makes={"HOME/.kimi-code": None},
    writes=("HOME/.kimi-code",),
    by_name=("dialogue",),
    ends_in_files=("exec", "dialogue"),
)
tool_rules: Rules = AskRules(beyond={"edit": ("Bash",)})
