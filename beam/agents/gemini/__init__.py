"""gemini, in the making."""

from __future__ import annotations

from beam.agents.base import Card, Exec

card = Card(name="gemini", summary="in the making", executable="gemini", faces={})
exec: Exec | None = None
