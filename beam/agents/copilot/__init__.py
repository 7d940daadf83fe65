"""copilot, in the making."""

from __future__ import annotations

from beam.agents.base import Card, Exec

card = Card(name="copilot", summary="in the making", executable="copilot", faces={})
exec: Exec | None = None
