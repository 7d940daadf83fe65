"""codex, in the making."""

from __future__ import annotations

from beam.agents.base import Card, Exec

card = Card(name="codex", summary="in the making", executable="codex", faces={})
exec: Exec | None = None
