"""Vibe's dialogue mode: `vibe-acp`, which is installed beside `vibe`, one process for one turn or for many.

Vibe's default mode changes files without asking, so beam sets the mode of each session. With `read`, vibe gets only
tools that read, as in headless mode.
"""

from __future__ import annotations

import json

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.face import ACP_CAPABILITIES
from beam.agents.base import Host, Launch, Turn
from beam.agents.link import Link
from beam.agents.oneshot import check_access
from beam.agents.vibe import exec as headless
from beam.model.message import Access

__all__ = ["launch", "link"]

MODES: dict[Access, str] = {"read": "ask", "ask": "ask", "full": "auto-approve"}
_READ_TOOLS = [word for word in headless.ACCESS["read"] if not word.startswith("-")]
DIALECT = Dialect(
    name="vibe",
    modes=MODES,
    lost=("Session not found:",),
    counts="session",
    denied=("Tool execution denied by approval policy",),
)
CAPABILITIES = structs.replace(
    ACP_CAPABILITIES, model=False, tokens=True, denials=True, whole=True, access=tuple(MODES)
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a process for this turn and others like it. Raises UnsupportedError for an option that it
    can't apply."""
    check_access(turn, "vibe", CAPABILITIES)
    if turn.session_id is not None:
        headless.checked_session(turn.session_id)
    env = dict(headless.ENV)
    if turn.access == "read":
        env["VIBE_ENABLED_TOOLS"] = json.dumps(_READ_TOOLS)
    return Launch(argv=(f"{host.executable or 'vibe'}-acp",), env=env)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.acp.conversation import AcpLink

    return AcpLink(turn, DIALECT)
