"""Claude Code's dialogue mode: `claude -p` with JSON lines in both directions, for one turn or for many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from beam.agents.base import Host, Launch, Turn
from beam.agents.claude import exec as headless

if TYPE_CHECKING:
    from beam.agents.link import Link

__all__ = ["launch", "link"]

_DUPLEX_FLAGS = ("--input-format", "stream-json", "--replay-user-messages", "--permission-prompt-tool", "stdio")


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a process for this turn and later turns with the same options. Raises UnsupportedError for
    an option that the dialogue mode can't apply."""
    from beam.agents.claude.dialogue import rights

    one = headless.launch(turn, host, {turn.access: rights.flags(turn)})
    env = {**one.env, "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"} if turn.access != "read" else {**one.env}
    env = {**env, "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}  # without it, no line says that a turn is over
    argv = (*one.argv, *_DUPLEX_FLAGS, *rights.disallowed_tools_flag(turn.access))
    return structs.replace(one, argv=argv, stdin=None, env=env, drops_output=False)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process of Claude Code."""
    from beam.agents.claude.dialogue.conversation import ClaudeLink

    return ClaudeLink(turn)
