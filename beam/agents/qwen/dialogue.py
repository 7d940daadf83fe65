"""Qwen Code's dialogue mode: `qwen --acp`, one process for one turn or for many.

The CLI's default mode lets a model decide which calls are safe, so beam sets the mode of each session. For an unknown
id the CLI silently begins an empty session, so beam lists the existing sessions first.
"""

from __future__ import annotations

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.face import ACP_CAPABILITIES
from beam.agents.base import Host, Launch, Turn
from beam.agents.link import Link
from beam.agents.oneshot import check_access, checked_argument, model_flags
from beam.agents.qwen import exec as headless
from beam.model.message import Access

__all__ = ["launch", "link"]

# Left out at `read`, because qwen's own settings could allow a call unasked. The tools for worktrees never ask.
_WRITE_TOOLS = ("run_shell_command", "write_file", "edit", "notebook_edit", "enter_worktree", "exit_worktree")
ACCESS: dict[Access, tuple[str, ...]] = {
    "read": tuple(
        ",".join(_WRITE_TOOLS) if word.startswith("enter_worktree") else word for word in headless.ACCESS["read"]
    ),
    "ask": ("--approval-mode", "default"),
    "full": headless.ACCESS["full"],
}
DIALECT = Dialect(
    name="qwen",
    modes={"read": "default", "ask": "default", "full": "yolo"},
    lists=True,
    counts="calls",
    left_out={"read": _WRITE_TOOLS},
    plan="plan",
    uncounted=("agent",),
    stopped="✗ **UserPromptSubmit blocked**: ",
    starts_with_system=True,
)
CAPABILITIES = structs.replace(ACP_CAPABILITIES, tokens=True, denials=True, access=tuple(ACCESS))


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a process for this turn and others like it. Raises UnsupportedError for an option that it
    can't apply."""
    check_access(turn, "qwen", CAPABILITIES)
    if turn.session_id is not None:
        headless.session_flags(turn)
    argv = [host.executable or "qwen", "--acp", *ACCESS[turn.access]]
    argv += model_flags("qwen", turn)
    if turn.settings.system:
        argv += ("--append-system-prompt", checked_argument("qwen", "system prompt", turn.settings.system))
    env, files = headless.folder_ignoring_setup(turn)
    return Launch(argv=tuple(argv), env=env, files=files)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.acp.conversation import AcpLink

    return AcpLink(turn, DIALECT)
