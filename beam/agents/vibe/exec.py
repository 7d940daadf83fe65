"""Vibe's headless mode: `vibe -p --output streaming`, one process per turn, prompt on stdin.

Without a list of tools vibe changes files of the folder without asking, so `read` means a list of tools that only read.
The access map below is the only place with flags that give vibe rights.
"""

from __future__ import annotations

import re

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.oneshot import check_access, checked_session_id
from beam.agents.vibe.decode import LineDecoder
from beam.base.typed_values import replace_surrogates
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Access

RETRY_S = 20  # vibe itself gives up after five minutes of silence; it limits the time, not the number of retries
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
ACCESS: dict[Access, tuple[str, ...]] = {
    "read": ("--enabled-tools", "read_file", "--enabled-tools", "grep"),
    "full": ("--yolo", "--trust"),
}
_TRUST_FLAG = "--trust"
OBEYS = (AutoloadedFile(path=".vibe", at=("full",), ignored=("full",), reach="worktree"),)
ENV = {"VIBE_API_RETRY_MAX_ELAPSED_TIME": str(RETRY_S), "VIBE_ENABLE_UPDATE_CHECKS": "false"}
CAPABILITIES = Capabilities(
    resume=True, tools=True, interrupt=True, whole=True, denials=True, edits=True, access=tuple(ACCESS)
)
decoder = LineDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
    check_access(turn, "vibe", CAPABILITIES)
    argv = [host.executable or "vibe", "-p", "--output", "streaming", *ACCESS[turn.access]]
    if turn.leave_out:
        argv = [word for word in argv if word != _TRUST_FLAG]
    if turn.session_id is not None:
        argv += ("--resume", checked_session(turn.session_id))
    return Launch(argv=tuple(argv), stdin=replace_surrogates(turn.text).encode(), env=ENV)


def checked_session(session_id: str) -> str:
    """Return the id if it has the form of a session id; otherwise raise UnsupportedError."""
    return checked_session_id("vibe", _UUID, session_id)
