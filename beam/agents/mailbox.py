"""`mailbox`: an agent that is no program. `beam recv` claims a message, `beam reply` answers it.

Must not know: queues and leases; the holder's verbs do all of it.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Card, Exec

card = Card(
    name="mailbox",
    summary="no program: `beam recv` takes a message and `beam reply` answers it, so a shell script is an agent",
    version_argv=(),
    faces={"mailbox": Capabilities()},
)
exec: Exec | None = None
