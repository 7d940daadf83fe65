"""The adapter of aider: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.aider import exec, history, screen
from beam.agents.base import Card

__all__ = ["card", "exec", "terminal", "transcripts"]

terminal, transcripts = screen, history

card = Card(
    name="aider",
    summary="aider; its session is a history file in the agent's folder",
    executable="aider",
    install="pipx install aider-chat",
    versions=("0.86.2",),
    obeys=dict.fromkeys(("exec", "terminal"), exec.OBEYS),
    faces={"exec": exec.CAPABILITIES, "terminal": screen.CAPABILITIES},
    makes=dict.fromkeys(("HOME/.aider",)),
    keeps=r"(?:.*/)?\.aider\.(?:chat\.history(?:\.[0-9a-f-]+)?\.md|input\.history|tags\.cache\.v\d+/.*)",
)
