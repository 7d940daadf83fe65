"""The capabilities of every agent that speaks the Agent Client Protocol. An adapter's own `CAPABILITIES` changes the
capabilities in which its agent differs. Each resulting capability has a test."""

from __future__ import annotations

from beam.agents.base import Capabilities

ACP_CAPABILITIES = Capabilities(
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
