"""What any agent can do over the protocol. An adapter's own table says in what its agent differs; each cell of the
result has a test."""

from __future__ import annotations

from beam.agents.base import Capabilities

ANY = Capabilities(
    resume=True,
    model=True,
    system=True,
    schema=True,
    deltas=True,
    tools=True,
    attach="inline",
    interrupt=True,
    ask=True,
)
