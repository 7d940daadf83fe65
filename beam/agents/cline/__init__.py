"""The adapter of Cline's CLI: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.base import Card
from beam.agents.cline import exec

__all__ = ["card", "exec"]

card = Card(
    name="cline",
    summary="Cline's CLI; headless it resumes no session, so each turn is a new one",
    executable="cline",
    install="npm install -g cline",
    versions=("3.0.65",),
    obeys={"exec": exec.OBEYS},
    faces={"exec": exec.CAPABILITIES},
)
