"""The adapter of pi: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.base import Card
from beam.agents.pi import exec

__all__ = ["card", "exec"]

card = Card(
    name="pi",
    summary="pi, a small coding agent that asks nobody: with `full` it runs every tool",
    executable="pi",
    install="npm install -g @earendil-works/pi-coding-agent",
    versions=("1.6.0",),
    obeys={"exec": exec.OBEYS},
    faces={"exec": exec.CAPABILITIES},
    makes=dict.fromkeys(("HOME/.pi",)),
)
