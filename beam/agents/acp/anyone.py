"""`protocol: acp`: any agent that speaks the Agent Client Protocol, given by its command line.

beam has no tests for such an agent, so it offers only the accesses `ask` and `full`. beam can't control what the agent
does without asking. With `ask` beam sets the session to the mode `ask` or `default`, if there is one, because some
agents begin in a mode that asks less. A session is resumed by the method that the agent announces.
"""

from __future__ import annotations

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.face import ACP_CAPABILITIES, AskRules
from beam.agents.base import Card, Exec, Host, Launch, Rules, Turn
from beam.agents.link import Dialogue, Link
from beam.agents.oneshot import check_access
from beam.base.errors import UsageError

__all__ = ["card", "dialogue", "exec", "tool_rules"]

CAPABILITIES = structs.replace(ACP_CAPABILITIES, access=("ask", "full"), outbox=("full",))
card = Card(
    name="acp",
    summary="any agent that speaks the Agent Client Protocol: `command: [...]`, `protocol: acp`",
    version_argv=(),
    faces={"dialogue": CAPABILITIES},
    runs_code=True,
)
exec: Exec | None = None
tool_rules: Rules = AskRules(beyond={"ask": ("Bash", "Edit", "WebFetch")})
_DIALECT = Dialect(name="acp", prefers={"ask": ("ask", "default")}, resume="as it says", sets_model=True)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start the agent. Raises UnsupportedError for an access other than `ask` and `full`, UsageError if
    there is no command."""
    check_access(turn, turn.agent, CAPABILITIES)
    argv = tuple(word for each in turn.settings.command for word in ((each,) if isinstance(each, str) else each))
    if not argv:
        raise UsageError(f"agent {turn.agent} has no command", "set its program: `command: [...]`")
    return Launch(argv=argv)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.acp.conversation import AcpLink

    link = AcpLink(turn, structs.replace(_DIALECT, name=turn.agent))
    if turn.settings.protocol != "acp-v2":
        return link
    from beam.agents.acp.version2 import Version2

    return Version2(link)


class _Dialogue:
    launch = staticmethod(launch)
    link = staticmethod(link)


dialogue: Dialogue = _Dialogue()
