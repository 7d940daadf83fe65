"""The status of a made-up agent."""

from __future__ import annotations

from typing import Any

from beam.api.status import AgentStatus
from beam.model.state import Totals


def agent_status(name: str, **fields: Any) -> AgentStatus:
    """An idle agent that never ran a turn, except for these fields."""
    given: dict[str, Any] = {"agent": name, "adapter": "command", "state": "idle", "waiting": 0, "dead": 0, "turn": 0}
    nothing = dict.fromkeys(("oldest", "running", "session_id", "last"))
    return AgentStatus(**{**given, **nothing, "totals": Totals(), **fields})
