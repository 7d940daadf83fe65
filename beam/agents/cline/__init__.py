"""cline, in the making."""

from __future__ import annotations

from beam.agents.base import Card, Exec

card = Card(name="cline", summary="in the making", executable="cline", faces={})
exec: Exec | None = None
