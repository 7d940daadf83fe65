"""Continue's headless mode: `cn -p --auto -- PROMPT`, one process per turn, prompt in an argument, plain text output.

`--resume` continues the folder's last session, even one that beam did not begin, and the output names no session. So
each turn is a new session. Bash runs in every mode, including the read-only mode, and even if Bash is excluded, so
`full` is the only access. `--format json` would make the model answer in JSON.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.cn.decode import TextDecoder
from beam.agents.oneshot import check_access, prompt_argument

CAPABILITIES = Capabilities(interrupt=True, access=("full",), prompt_in_argv=True)
decoder = TextDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
    check_access(turn, "cn", CAPABILITIES)
    argv = (host.executable or "cn", "-p", "--auto", "--", prompt_argument("cn", turn.text))
    return Launch(argv=argv, prompt_in_argv=(len(argv) - 1,), drops_output=True)
