"""The adapter of Continue's CLI: its description (`card`) and its modes."""

from __future__ import annotations

from beam.agents.base import Card
from beam.agents.cn import exec

__all__ = ["card", "exec"]

card = Card(
    name="cn",
    summary="Continue's CLI; headless it can't name the session to resume, so each turn is a new one",
    executable="cn",
    install="npm install -g @continuedev/cli",
    versions=("1.5.47",),
    obeys={"exec": ()},
    faces={"exec": exec.CAPABILITIES},
)
