"""Qwen Code's dialogue mode: `qwen --acp`, one process for one turn or for many.

The CLI's default mode lets a model decide which calls are safe, so beam sets the mode of each session. For an unknown
id the CLI silently begins an empty session, so beam lists the existing sessions first.
"""

from __future__ import annotations

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.face import ANY
from beam.agents.base import Host, Launch, Turn
from beam.agents.link import Link
from beam.agents.oneshot import argument, check_access
from beam.agents.qwen import exec as headless
from beam.model.message import Access

__all__ = ["launch", "link"]

# At `read` its own settings could allow a call unasked, so it does not get these tools. Worktree tools ask nobody.
_WRITERS = ("run_shell_command", "write_file", "edit", "notebook_edit", "enter_worktree", "exit_worktree")
ACCESS: dict[Access, tuple[str, ...]] = {
    "read": tuple(
        ",".join(_WRITERS) if word.startswith("enter_worktree") else word for word in headless.ACCESS["read"]
    ),
    "ask": ("--approval-mode", "default"),
    "full": headless.ACCESS["full"],
}
DIALECT = Dialect(
    name="qwen",
    modes={"read": "default", "ask": "default", "full": "yolo"},
    lists=True,
    counts="calls",
    left_out={"read": _WRITERS},
    plan="plan",
    starts_with_system=True,
)
FACE = structs.replace(ANY, tokens=True, denials=True, access=tuple(ACCESS))


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a process for this turn and others like it. Raises UnsupportedError for an option that it
    can't apply."""
    check_access(turn, "qwen", FACE)
    if turn.session_id is not None:
        headless.session_flags(turn)
    argv = [host.executable or "qwen", "--acp", *ACCESS[turn.access]]
    if turn.model is not None:
        argv += ("--model", argument("qwen", "model", turn.model))
    if turn.settings.system:
        argv += ("--append-system-prompt", argument("qwen", "system prompt", turn.settings.system))
    env, files = headless.without_the_folder(turn)
    return Launch(argv=tuple(argv), env=env, files=files)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.acp.conversation import AcpLink

    return AcpLink(turn, DIALECT)
