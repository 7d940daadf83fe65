"""Kimi Code's dialogue mode: `kimi acp`, one process for one turn or for many.

In a git repository the CLI changes files of the folder without asking, in every mode. So it is not started with an
access below `edit`. With `edit`, beam denies every other call that the CLI asks about.
"""

from __future__ import annotations

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.face import ACP_CAPABILITIES
from beam.agents.base import Host, Launch, Turn
from beam.agents.kimi import exec as headless
from beam.agents.link import Link
from beam.agents.oneshot import check_access

__all__ = ["launch", "link"]

DIALECT = Dialect(
    name="kimi",
    modes={"edit": "default", "full": "yolo"},
    resume="session/resume",
    lost=("Unknown sessionId:",),
    fork=True,
    sets_model=True,
)
CAPABILITIES = structs.replace(
    ACP_CAPABILITIES, ask=False, fork=True, denials=True, whole=True, access=("edit", "full")
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a process for this turn and others like it. Raises UnsupportedError for an option that it
    can't apply."""
    check_access(turn, "kimi", CAPABILITIES)
    if turn.session_id is not None:
        headless.checked_session(turn.session_id)
    return Launch(argv=(host.executable or "kimi", "acp"), env=headless.NO_UPDATE_ENV)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.acp.conversation import AcpLink

    return AcpLink(turn, DIALECT)
