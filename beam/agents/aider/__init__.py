"""aider, in the making."""

from __future__ import annotations

from beam.agents.base import Card, Exec

card = Card(name="aider", summary="in the making", executable="aider", faces={})
exec: Exec | None = None
