"""The dialogue mode of OpenCode and of Kilo: `opencode acp`, one process for one turn or for many.

As in headless mode, beam defines an agent profile per access; the session's mode is the profile's name.
"""

from __future__ import annotations

from msgspec import structs

from beam.agents.acp.dialect import Dialect
from beam.agents.acp.face import ACP_CAPABILITIES
from beam.agents.base import Host, Launch, Turn
from beam.agents.link import Link
from beam.agents.oneshot import check_access, checked_argument
from beam.agents.opencode.decode import DENIED_TEXTS, SUBAGENT, file_changes
from beam.agents.opencode.rules import left_out_tools
from beam.agents.opencode.run import access_profile, checked_session
from beam.base.errors import UnsupportedError
from beam.model.message import Access

_BELOW_FULL: tuple[Access, ...] = ("read", "ask", "edit")
CAPABILITIES = structs.replace(
    ACP_CAPABILITIES,
    fork=True,
    tokens=True,
    cost=True,
    calls=True,
    denials=True,
    whole=True,
    access=("read", "ask", "edit", "full"),
    outbox=("edit", "full"),
)


class AcpDialogue:
    """The dialogue mode of one of the two programs. `prefix` begins the names of the program's variables; `usual` is
    the program's default agent profile."""

    def __init__(self, program: str, prefix: str, *, usual: str) -> None:
        self._program = program
        self._prefix = prefix
        self._dialect = Dialect(
            name=program,
            modes={"read": "beam-read", "ask": "beam-ask", "edit": "beam-edit", "full": usual},
            resume="session/resume",
            fork=True,
            lists=True,
            sets_model=True,
            denied=DENIED_TEXTS,
            uncounted=(SUBAGENT,),
            file_changes=file_changes,
        )

    def launch(self, turn: Turn, host: Host) -> Launch:
        """Return how to start a process for this turn and others like it. Raises UnsupportedError for an option that it
        can't apply."""
        name = self._program
        check_access(turn, name, CAPABILITIES)
        if turn.session_id is not None:
            checked_session(turn.session_id, name)
        if turn.model is not None and "/" not in checked_argument(name, "model", turn.model):
            raise UnsupportedError(f"{name} names models PROVIDER/MODEL, not {turn.model!r}", subject=turn.model)
        argv = (host.executable or name, "acp")
        if turn.access == "full":
            return Launch(argv=argv)
        _, env, files = access_profile(turn, self._prefix)
        return Launch(argv=(*argv, "--pure"), env=env, files=files)

    def link(self, turn: Turn, host: Host) -> Link:
        """Return a new conversation with one process."""
        from beam.agents.acp.conversation import AcpLink

        missing = {access: left_out_tools(access, turn.rules) for access in _BELOW_FULL}
        return AcpLink(turn, structs.replace(self._dialect, left_out=missing))
