"""`terminal`: any program with a screen, given as `command: [...]` and driven without knowing it.

What it learns is the prompt that stands before the cursor. Where that does not tell when the program is idle again, the
turn ends as stalled, with its screen: never with a guess.
"""

from __future__ import annotations

import sys

from beam.agents.base import Capabilities, Card, Exec, Host, Launch, Turn
from beam.agents.profile import GENERIC
from beam.errors import UnsupportedError

card = Card(
    name="terminal",
    summary="any program with a screen: its command, typed to and read",
    version_argv=(),
    faces={"terminal": Capabilities(interrupt=True)},
    runs_code=True,
)
exec: Exec | None = None
profile = GENERIC


def launch(turn: Turn, host: Host) -> Launch:
    """The configured command as it stands. Raises UnsupportedError for one with groups, which only `command` agents have."""
    words = turn.settings.command
    if not words or not all(isinstance(word, str) for word in words):
        raise UnsupportedError(
            f"agent {turn.agent} needs `command:`, a plain list of words",
            "e.g. command: [python3, -i]",
            subject=turn.agent,
        )
    return Launch(argv=tuple(str(word) for word in words))


terminal = sys.modules[__name__]
