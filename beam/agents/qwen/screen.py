"""Qwen Code's terminal mode: its full screen. The sessions are shared with the headless mode.

The CLI loses a message that arrives while it starts, so beam waits until the CLI is ready.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.oneshot import check_access, checked_argument
from beam.agents.qwen.exec import ACCESS, folder_ignoring_setup, session_flags
from beam.model.screen_profile import Dialog, Profile

CAPABILITIES = Capabilities(
    resume=True, model=True, system=True, interrupt=True, whole=True, edits=True, access=("read", "full")
)
# The notice below an answer that did not end on its own.
_CUT_ROW = r"^\W{0,8}⚠\ufe0f? {1,3}Response truncated due to token limits\.$"
_END_ROW = r"^\W{0,8}⚠\ufe0f? {1,3}Response stopped (?:due to|for|because) "
_HORIZONTAL_LINE = r"^─{20,}"
# The row below the input field once qwen has taken a message: its permission mode. Before 0.24: `? for shortcuts`.
_MODE_ROW = r"^ {1,3}(?:⏸ Ask permissions|plan mode|auto-accept edits|Auto mode|YOLO mode) \(shift \+ tab to cycle\)"
_WORKING_ROW = r"^ {1,3}Enter to steer · Ctrl\+Q to queue"

profile = Profile(
    columns=140,
    rows=120,
    prompt=r"^[>*!](?: {1,3}(.*))?$",
    above=_HORIZONTAL_LINE,
    below=_HORIZONTAL_LINE,
    placeholders=(r"Type your message or @path/to/file",),
    pasted=r"\[PastedContent\d+",
    busy_rows=(r"^\s*[⠁-⣿] ", r"^\s+Press ↑ to edit queued messages", _WORKING_ROW),
    zone=8,
    error_rows=(r"^ {0,2}✕ ", _END_ROW),
    failed=r"(?m)^ {0,2}✕ +(UserPromptSubmit operation blocked by hook:\n* +\S.*)$",
    cut_rows=(_CUT_ROW,),
    ready_rows=(r"^\s+\? for shortcuts", _MODE_ROW),
    resumed_rows=(r"^  > \S", r"^\s*[⠁-⣿] Resuming session"),
    dialogs=(
        Dialog(
            name="login",
            kind="login",
            match=r"^ *│ Connect a Provider\b[\s\S]*^ *│ › |"
            r"(?:Get started|Select Authentication Method|How would you like to authenticate)[\s\S]*1\. ",
        ),
        Dialog(
            name="trust",
            kind="trust",
            match=r"Do you trust (?:the files in )?this folder\?[\s\S]*1\. ",
            allow=("1",),
        ),
        Dialog(
            name="permission",
            match=r"^ *│[^\n]*(?:Allow execution|Apply this change|Do you want to|Allow )[^\n]*\?[\s\S]*1\. Yes",
            allow=("1",),
            deny=("\x1b",),
            first=r"^ *[╭┌]",
            body=r"^ *[│╰└]",
            subject=r"\A[^\n]*\n *│ *\? +(\S+)",
        ),
        Dialog(  # version 0.24; below it are the calls that wait for its answer
            name="permission",
            match=r"^ +[^\n]*\?\n\n *[› ] 1\. Yes, allow once[\s\S]*^ *[⠁-⣿] Waiting for user confirmation\.\.\.\s*\Z",
            allow=("1",),
            deny=("\x1b",),
            first=r"^ {1,3}\? +\S",
            body=r"^(?: |$)",
            subject=r"\A *\? +(\S+)",
        ),
    ),
    echo_rows=r"^  > (.*)$",
    noise_rows=(r"^\s*[⠁-⣿] ", r"^ {0,4}∴\ufe0e? Thought ", r"^\s+\? for shortcuts$", _MODE_ROW, _WORKING_ROW),
    bullet=r"^  (?:✦|◆\ufe0e?) ",
    indent=4,
    scrollbar="│█",
    session=r"^\s*To continue this session, run qwen --resume ([0-9a-f-]{36})\s*$",
    bracketed=True,
    special=r"^!",
    never=r"^\s*[/?]",
    interrupt="\x1b",
    quit=("\x03", "\x03"),
    start_seconds=180.0,
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start Qwen Code on its screen, in the session of this turn.

    Raises UnsupportedError for an option that the terminal mode can't apply.
    """
    check_access(turn, "qwen", CAPABILITIES)
    argv = [host.executable or "qwen", *session_flags(turn), *ACCESS[turn.access]]
    for flag, value in (("--model", turn.model), ("--append-system-prompt", turn.settings.system)):
        if value is not None:
            argv += (flag, checked_argument("qwen", flag, value))
    env, files = folder_ignoring_setup(turn)
    return Launch(argv=tuple(argv), env=env, files=files)
