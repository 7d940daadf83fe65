"""The dialogue mode of `codex-acp`, one process for one turn or for many.

With access `ask` Codex's own sandbox only lets it read, and Codex asks for everything else. There is no access `read`,
because the person's own rules could let a command leave that sandbox. There is no access `edit`, because its sandbox
would allow writing to the system's temporary folder.
"""

from __future__ import annotations

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.face import ACP_CAPABILITIES
from beam.agents.base import Host, Launch, Turn
from beam.agents.codex import exec as headless
from beam.agents.codex.trouble import END_BY_REASON, INCOMPLETE_PREFIX
from beam.agents.link import Link
from beam.agents.oneshot import check_access
from beam.model.message import Access

__all__ = ["launch", "link"]

MODES: dict[Access, str] = {"ask": "read-only", "full": "agent-full-access"}
DIALECT = Dialect(
    name="codex-acp",
    modes=MODES,
    resume="as it says",
    fork=True,
    counts="turn",
    sets_model=True,
    fails_at=("codex", "threadStatus", "type", "systemError"),
    ends={f"{INCOMPLETE_PREFIX}{reason}": end for reason, end in END_BY_REASON.items()},
    uncounted=("spawnAgent", "resumeAgent", "sendInput", "Start subagent", "Interact with subagent"),
)
CAPABILITIES = structs.replace(
    ACP_CAPABILITIES, fork=True, tokens=True, denials=True, whole=True, access=tuple(MODES), outbox=("full",)
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a process for this turn and later turns with the same options. Raises UnsupportedError for an
    option that the CLI can't apply."""
    check_access(turn, DIALECT.name, CAPABILITIES)
    if turn.session_id is not None:
        headless.checked_session(turn.session_id)
    return Launch(argv=(host.executable or DIALECT.name,), env={"INITIAL_AGENT_MODE": "read-only"})


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.acp.conversation import AcpLink

    return AcpLink(turn, DIALECT)
