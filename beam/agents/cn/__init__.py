"""cn, in the making."""

from __future__ import annotations

from beam.agents.base import Card, Exec

card = Card(name="cn", summary="in the making", executable="cn", faces={})
exec: Exec | None = None
