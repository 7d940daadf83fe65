"""The adapter of Mistral Vibe: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.acp.face import AskRules
from beam.agents.base import Card, Rules
from beam.agents.vibe import dialogue, exec

__all__ = ["card", "dialogue", "exec", "tool_rules"]

card = Card(
    name="vibe",
    summary="Vibe, Mistral's coding agent",
    executable="vibe",
    install="pipx install mistral-vibe (it needs Python 3.12)",
    versions=("3.0.2",),
    obeys={"exec": exec.OBEYS, "dialogue": ()},
    faces={"exec": exec.CAPABILITIES, "dialogue": dialogue.CAPABILITIES},
    makes=dict.fromkeys(("HOME/.vibe",)),
    by_name=("dialogue",),
    ends_in_files=("exec", "dialogue"),
)
# At `ask` vibe runs some commands that only read, and what its own settings allow, without asking.
tool_rules: Rules = AskRules(beyond={"ask": ("Bash", "Edit")}, absent={"read": ("Bash", "Edit")})
