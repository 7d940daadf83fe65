"""GitHub Copilot CLI's dialogue mode: `copilot --acp`, one process for one turn or for many.

The CLI runs in its default mode, which asks. The flag and the session option that allow everything are used with `full`
only. With `edit`, beam itself allows changes in the folder, because the CLI's own setting would allow changes
everywhere.
"""

from __future__ import annotations

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.face import ACP_CAPABILITIES
from beam.agents.base import Host, Launch, Turn
from beam.agents.copilot import exec as headless
from beam.agents.link import Link
from beam.agents.oneshot import check_access, model_flags
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Access

__all__ = ["launch", "link"]

_AGENT_MODE = "https://agentclientprotocol.com/protocol/session-modes#agent"
# Over its protocol the CLI loads these hooks in every folder, and no switch keeps it from that. Headless it loads them
# only in a folder that it trusts.
OBEYS = (AutoloadedFile(path=".github/hooks", reach="worktree"),)
ACCESS: dict[Access, tuple[str, ...]] = {
    "read": headless.ACCESS["read"],
    "ask": ("--disallow-temp-dir",),
    "edit": ("--deny-tool=shell", "--disallow-temp-dir"),
    "full": headless.ACCESS["full"],
}
DIALECT = Dialect(
    name="copilot",
    modes=dict.fromkeys(ACCESS, _AGENT_MODE),
    never={"allow_all": "on"},
    lost=("Resource not found: Session",),
    counts="process",
    failed="Error: ",
    aside="Info: ",
    describes=True,
    files_as_text=True,  # the CLI gives its model only the path of a resource
    denied=("Permission to run this tool was denied",),
)
CAPABILITIES = structs.replace(
    ACP_CAPABILITIES, tokens=True, denials=True, whole=True, access=tuple(ACCESS), outbox=("full",)
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a process for this turn and later turns with the same options. Raises UnsupportedError for
    an option that the dialogue mode can't apply."""
    check_access(turn, "copilot", CAPABILITIES)
    if turn.session_id is not None:
        headless.session_flags(turn)
    argv = [host.executable or "copilot", "--acp", "--no-ask-user", "--no-auto-update", "--no-color"]
    argv += ACCESS[turn.access]
    argv += model_flags("copilot", turn)
    return Launch(argv=tuple(argv), env=headless.TRUST_NO_FOLDER_ENV)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.acp.conversation import AcpLink

    return AcpLink(turn, DIALECT)
