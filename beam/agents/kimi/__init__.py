"""kimi, in the making."""

from __future__ import annotations

from beam.agents.base import Card, Exec

card = Card(name="kimi", summary="in the making", executable="kimi", faces={})
exec: Exec | None = None
