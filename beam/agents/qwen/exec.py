"""Qwen Code's headless face: `qwen -o stream-json`, one process a turn, prompt on stdin.

It adds two newlines to what it reads there. The access map below is the only place with flags that give it rights. A
failing API it tries for up to an hour, in silence: the log of its OpenAI library is switched on, which tells of it.
"""

from __future__ import annotations

import re

from beam.agents.base import Capabilities, Decoder, Host, Launch, Turn
from beam.agents.oneshot import argument, check, scrubbed
from beam.agents.qwen.decode import Lines
from beam.errors import UnsupportedError
from beam.message import Access

RETRIES = 3
LOGS = {"OPENAI_LOG": "info"}
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
ACCESS: dict[Access, tuple[str, ...]] = {
    # Without a person to ask, `default` has no tool that changes anything. Extensions and the servers of MCP settings
    # would run code of their own.
    "read": ("--approval-mode", "default", "--extensions", "none", "--allowed-mcp-server-names", "none"),
    "full": ("--approval-mode", "yolo"),
}
FACE = Capabilities(
    resume=True,
    model=True,
    max_turns=True,
    deltas=True,
    tools=True,
    interrupt=True,
    tokens=True,
    access=tuple(ACCESS),
    rewrites=True,
)


def launch(turn: Turn, host: Host) -> Launch:
    """How to run this turn. Raises UnsupportedError for what `qwen` can't do headless."""
    check(turn, "qwen", FACE, system=True)
    argv = [host.executable or "qwen", "-o", "stream-json", "--include-partial-messages", *session_flags(turn)]
    argv += ACCESS[turn.access]
    for flag, value in (
        ("--model", turn.model),
        ("--max-session-turns", turn.max_turns),
        ("--append-system-prompt", turn.settings.system),
    ):
        if value is not None:
            argv += (flag, argument("qwen", flag, str(value)))
    # A prompt that begins with `/` would be a command of the CLI's own.
    text = f" {turn.text}" if turn.text.startswith("/") else turn.text
    retries = RETRIES if turn.settings.retries is None else turn.settings.retries
    stdin = scrubbed(text).encode()
    return Launch(argv=tuple(argv), stdin=stdin, env=dict(LOGS), retries=retries, drops_output=True)


def session_flags(turn: Turn) -> tuple[str, ...]:
    """The flags that name the session."""
    if turn.session_id is None:
        return ("--session-id", turn.fresh_session_id) if turn.fresh_session_id else ()
    if not _UUID.match(turn.session_id):
        raise UnsupportedError(f"{turn.session_id[:80]!r} is no session id of qwen's", subject=turn.session_id[:80])
    return ("--resume", turn.session_id)


def decoder(turn: Turn) -> Decoder:
    """A new decoder for one process of this turn."""
    return Lines(turn)
