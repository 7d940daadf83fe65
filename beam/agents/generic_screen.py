"""The terminal mode of `command` agents: any program with a screen, driven without knowledge of the program.

beam learns the program's prompt: the text before the cursor. If that prompt is not there when the program is idle
again, the turn ends as stalled and its outcome shows the screen. beam never guesses.
"""

from __future__ import annotations

from beam.agents.base import Host, Launch, Turn
from beam.base.errors import UnsupportedError
from beam.model.screen_profile import GENERIC_PROFILE

profile = GENERIC_PROFILE


def launch(turn: Turn, host: Host) -> Launch:
    """Return the configured command unchanged. Raises UnsupportedError for a command with groups (nested lists)."""
    words = [word for word in turn.settings.command if isinstance(word, str)]
    if len(words) != len(turn.settings.command):
        raise UnsupportedError(
            f"the command of {turn.agent} has groups; on a terminal it must be plain words",
            "give the program an agent of its own",
            subject=turn.agent,
        )
    return Launch(argv=tuple(words))
