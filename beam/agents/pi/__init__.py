"""pi, in the making."""

from __future__ import annotations

from beam.agents.base import Card, Exec

card = Card(name="pi", summary="in the making", executable="pi", faces={})
exec: Exec | None = None
