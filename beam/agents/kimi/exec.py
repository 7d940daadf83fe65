"""Kimi Code's headless mode: `kimi --prompt=…`, one process per turn, prompt in an argument.

With a prompt the CLI runs every tool without asking, and accepts neither plan mode nor a list of tools, so `full` is
its only access.
"""

from __future__ import annotations

import re

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.kimi.decode import LineDecoder
from beam.agents.oneshot import check_access, checked_session_id, model_flags, prompt_argument

_SESSION_ID = re.compile(r"session_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
NO_UPDATE_ENV = {"KIMI_CODE_NO_AUTO_UPDATE": "1"}
CAPABILITIES = Capabilities(
    resume=True, model=True, tools=True, interrupt=True, whole=True, edits=True, access=("full",), prompt_in_argv=True
)
decoder = LineDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
    check_access(turn, "kimi", CAPABILITIES)
    prompt = prompt_argument("kimi", turn.text)
    argv = [host.executable or "kimi", "--output-format", "stream-json"]
    if turn.session_id is not None:
        argv += ("-S", checked_session(turn.session_id))
    argv += model_flags("kimi", turn, "-m")
    argv.append(f"--prompt={prompt}")
    return Launch(argv=tuple(argv), prompt_in_argv=(len(argv) - 1,), env=NO_UPDATE_ENV, retries=turn.settings.retries)


def checked_session(session_id: str) -> str:
    """Return the id if it has the form of a session id; otherwise raise UnsupportedError."""
    return checked_session_id("kimi", _SESSION_ID, session_id)
