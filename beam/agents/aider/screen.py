"""aider's terminal mode: its line editor.

aider switches bracketed paste on when it reads a line, and its chat history file has the answer verbatim. The sessions
are shared with the headless mode. aider is started without colours and rendered Markdown, so the screen shows the text
as aider wrote it.
"""

from __future__ import annotations

from beam.agents.aider.exec import ACCESS, QUIET_FLAGS, history_file, history_flags
from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.oneshot import check_access, model_flags
from beam.model.screen_profile import Dialog, Profile

CAPABILITIES = Capabilities(
    resume=True, model=True, interrupt=True, whole=True, edits=True, ask=True, access=("read", "ask", "full")
)

profile = Profile(
    columns=140,
    rows=60,
    prompt=r"^(?:[a-z]+(?:-[a-z]+)*)?(?: multi)?> ?(.*)$",
    at_cursor=True,
    bracketed=True,
    dialogs=(
        Dialog(
            name="login",
            kind="login",
            match=r"^Login to OpenRouter or create a free account\? \(Y\)es/\(N\)o[^\n]*\]: *\Z",
        ),
        Dialog(
            name="git",
            kind="setup",
            match=r"^No git repo found[^\n]*\(Y\)es/\(N\)o[^\n]*\]: *\Z",
            allow=("n", "\r"),
        ),
        Dialog(
            name="permission",
            match=r"^([^\n]*)\? \(Y\)es/\(N\)o[^\n]*\[(?:Yes|No)\]: *\Z",
            allow=("y", "\r"),
            deny=("n", "\r"),
            subject=r"^([^\n]*)\? \(Y\)es/\(N\)o[^\n]*\]: *\Z",
        ),
    ),
    error_rows=(r"^litellm\.[A-Z]\w*(?:Error|Exception)\b",),
    special=r"^[/!]",
    interrupt="\x03",
    quit=("\x04",),
    start_seconds=120.0,
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start aider at its prompt, in the session of this turn.

    Raises UnsupportedError for an option that the terminal mode can't apply.
    """
    check_access(turn, "aider", CAPABILITIES)
    access = {"ask": (), "full": ("--yes-always",)}.get(turn.access, ACCESS["read"])
    argv = [host.executable or "aider", *QUIET_FLAGS, *access, *history_flags(turn)]
    argv.append(f"--input-history-file={turn.scratch}/input")
    argv += model_flags("aider", turn)
    session_file = None if turn.session_id is None else history_file(turn, turn.session_id)
    return Launch(argv=tuple(argv), session_file=session_file)
