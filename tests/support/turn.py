"""One message of an agent, as its adapter gets it."""

from __future__ import annotations

from typing import Any

from beam.agents.base import Turn


def turn_of(agent: str, **fields: Any) -> Turn:
    """A turn of that agent, whose text is `hi`, with these fields."""
    return Turn(**{"text": "hi", "message_id": f"{agent}-1", "agent": agent, **fields})
