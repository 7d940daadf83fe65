"""The adapter of Qwen Code: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.acp.face import AskRules
from beam.agents.base import Card, Rules
from beam.agents.qwen import dialogue, exec, screen

__all__ = ["card", "dialogue", "exec", "terminal", "tool_rules"]

terminal = screen

card = Card(
    name="qwen",
    summary="Qwen Code, Alibaba's coding agent",
    executable="qwen",
    install="npm install -g @qwen-code/qwen-code",
    versions=("0.24.4",),
    obeys=dict.fromkeys(("exec", "dialogue", "terminal"), exec.OBEYS),
    occupied=exec.OCCUPIED,
    faces={"exec": exec.CAPABILITIES, "dialogue": dialogue.CAPABILITIES, "terminal": screen.CAPABILITIES},
    makes=dict.fromkeys(("HOME/.qwen",)),
    by_name=("dialogue",),
    edits_in_files=("terminal",),
    ends_at_denial=("dialogue", "terminal"),
)
# At `ask` the person's own settings may allow some calls unasked.
tool_rules: Rules = AskRules(beyond={"ask": ("Bash", "Edit", "WebFetch")}, absent={"read": ("Bash", "Edit")})
