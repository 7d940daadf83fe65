"""`python3 -i` as an agent that has only a terminal mode: the smallest program that beam drives in this mode.

Python marks its prompt with the escape sequence OSC 133, as shells do, so that no output is taken for the prompt.
"""

from __future__ import annotations

import sys

from beam.agents.base import Capabilities, Card, Exec, Host, Launch, Turn
from beam.model.screen_profile import Profile

card = Card(
    name="python",
    summary="an interactive Python; each message is typed into a new one",
    executable="python3",
    install="install Python 3",
    faces={"terminal": Capabilities(interrupt=True)},
    runs_code=True,
    runs_text=True,
    asks_model=False,
)
exec: Exec | None = None
_STARTUP = """\
import sys
sys.ps1 = "\\x01\\x1b]133;A\\x07\\x02>>> "
"""

profile = Profile(
    rows=50,
    prompt=r"^>>> ?(.*)$",
    more=r"^\.\.\. ?$",
    at_cursor=True,
    signals=(133,),
    by_line=True,
    start_seconds=20.0,
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start the interpreter in the turn's folder, without its start message."""
    env = {"PYTHONSTARTUP": f"{turn.scratch}/startup.py", "PYTHON_BASIC_REPL": "1", "PYTHON_COLORS": "0"}
    return Launch(argv=(host.executable or "python3", "-q", "-i"), env=env, files={"startup.py": _STARTUP.encode()})


terminal = sys.modules[__name__]
