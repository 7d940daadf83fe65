"""OpenCode: what people see of it, and its faces."""

from __future__ import annotations

from beam.agents.base import Card, Exec
from beam.agents.opencode import screen
from beam.agents.opencode.run import FACE, Run

__all__ = ["card", "exec", "terminal"]

terminal = screen

card = Card(
    name="opencode",
    summary="OpenCode, the open source coding agent",
    executable="opencode",
    install="npm install -g opencode-ai",
    versions=("1.18.33",),
    faces={"exec": FACE, "terminal": screen.FACE},
)
exec: Exec | None = Run("opencode", "OPENCODE")
