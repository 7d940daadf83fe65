"""`bash` in terminal mode: each message is typed into a new shell. The shell marks its prompt with the escape sequence
OSC 133."""

from __future__ import annotations

import sys

from beam.agents.base import Capabilities, Card, Exec, Host, Launch, Turn
from beam.model.screen_profile import Profile

card = Card(
    name="bash",
    summary="an interactive bash; each message is typed into a new one",
    executable="bash",
    install="install bash",
    faces={"terminal": Capabilities(interrupt=True)},
    runs_code=True,
    runs_text=True,
    asks_model=False,
)
exec: Exec | None = None
_RC = r"""unset PROMPT_COMMAND HISTFILE
PS1='\[\e]133;A\a\]\$ '
PS2='> '
PS0='\e]133;C\a'
"""

profile = Profile(
    rows=50,
    prompt=r"^[$#] ?(.*)$",
    more=r"^> ?$",
    at_cursor=True,
    signals=(133,),
    start_seconds=20.0,
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start the shell in the turn's folder, without the person's own start-up files."""
    argv = (host.executable or "bash", "--noprofile", "--rcfile", f"{turn.scratch}/rc", "-i")
    return Launch(argv=argv, files={"rc": _RC.encode()})


terminal = sys.modules[__name__]
