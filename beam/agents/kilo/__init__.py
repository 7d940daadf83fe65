"""Kilo Code's CLI, which is OpenCode with other names: what people see of it, and its faces."""

from __future__ import annotations

from beam.agents.base import Card, Exec
from beam.agents.opencode.run import FACE, Run

__all__ = ["card", "exec"]

card = Card(
    name="kilo",
    summary="Kilo Code's CLI",
    executable="kilo",
    install="npm install -g @kilocode/cli",
    versions=("7.7.7",),
    faces={"exec": FACE},
)
exec: Exec | None = Run("kilo", "KILO", usual="code")
