"""The scripted agent's headless mode: one process per turn, prompt on stdin."""

from __future__ import annotations

from beam.agents.base import Host, Launch, Turn
from beam.agents.scripted.frames import decoder

__all__ = ["decoder", "launch"]

PROGRAM = "beam.testing.scripted"
DEFAULT_SCRIPT = "demo"


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run the program with its script; the prompt is passed on stdin.

    `-P` keeps the agent's working folder out of the import path, so that no file there is imported.
    """
    argv = [host.python, "-P", "-m", PROGRAM, turn.settings.script or DEFAULT_SCRIPT]
    if turn.session_id:
        argv += ["--resume", turn.session_id]
    elif turn.fresh_session_id:
        argv += ["--session-id", turn.fresh_session_id]
    options = {"--model": turn.model, "--agent": turn.agent, "--from": turn.sender}
    for name, given in options.items():
        if given:
            argv += [name, given]
    if turn.once:
        argv.append("--once")
    return Launch(argv=tuple(argv), stdin=turn.text.encode("utf-8", "replace"))
