"""The dialogue mode of `claude-agent-acp`, one process for one turn or for many.

In the default mode of `claude-agent-acp` a model decides what is safe, so beam sets the mode of each session. Options
of the session give Claude Code the same rights for each access as `claude`'s own protocol does.
"""

from __future__ import annotations

import json

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.face import ACP_CAPABILITIES
from beam.agents.base import Host, Launch, Turn
from beam.agents.claude import exec as headless
from beam.agents.claude.dialogue import rights
from beam.agents.claude_agent_acp.result import RAW_MESSAGES, ResultReader
from beam.agents.fields import Object
from beam.agents.link import Link
from beam.agents.oneshot import check_access
from beam.model.message import Access

__all__ = ["launch", "link"]

MODES: dict[Access, str] = {"read": "default", "ask": "default", "edit": "acceptEdits", "full": "bypassPermissions"}
DIALECT = Dialect(
    name="claude-agent-acp",
    modes=MODES,
    resume="as it says",
    fork=True,
    counts="turn",
    sets_model=True,
    notices=True,
    uncounted=("Agent", "Task"),
    end_reader=ResultReader,
)
CAPABILITIES = structs.replace(
    ACP_CAPABILITIES, fork=True, tokens=True, denials=True, whole=True, access=tuple(MODES), outbox=("full",)
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start a process for this turn and later turns with the same options. Raises UnsupportedError for an
    option that the CLI can't apply."""
    check_access(turn, DIALECT.name, CAPABILITIES)
    if turn.session_id is not None:
        headless.uuid_of(turn.session_id)
    retries = headless.RETRIES if turn.settings.retries is None else turn.settings.retries
    env = {"CLAUDE_CODE_MAX_RETRIES": str(retries), "CLAUDE_AGENT_ACP_PROTOCOL": "v1"}
    if headless.leaves_folder_out(turn):
        env |= headless.CLAUDE_MD_ENV
    return Launch(argv=(host.executable or DIALECT.name,), env=env)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.acp.conversation import AcpLink

    return AcpLink(turn, structs.replace(DIALECT, meta=_meta(turn)))


def _meta(turn: Turn) -> Object:
    return {"claudeCode": {"options": session_options(turn), "emitRawSDKMessages": RAW_MESSAGES}}


def session_options(turn: Turn) -> Object:
    """Return the options of a session with the turn's access, as Claude Code's SDK names them."""
    withheld = rights.disallowed_tools_flag(turn.access)[1].split(",")
    given: Object = {"promptSuggestions": False, "disallowedTools": withheld, "includeHookEvents": True}
    if turn.access != "full":
        given["allowDangerouslySkipPermissions"] = False
    if headless.leaves_folder_out(turn):
        given["settingSources"] = ["user"]
        given["additionalDirectories"] = [turn.cwd]
    if turn.access == "read":
        words = headless.ACCESS["read"]
        given["tools"] = words[words.index("--tools") + 1].split(",")
        given["settings"] = json.loads(words[words.index("--settings") + 1])
    return given
