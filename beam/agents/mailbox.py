"""`mailbox`: an agent that is not a program. `beam recv` claims a message, `beam reply` answers it.

Does not depend on queues and leases: the broker handles them.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Card, Exec

card = Card(
    name="mailbox",
    summary="no program: `beam recv` takes a message and `beam reply` answers it, so a shell script is an agent",
    version_argv=(),
    faces={"mailbox": Capabilities()},
    asks_model=False,
)
exec: Exec | None = None
