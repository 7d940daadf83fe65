"""Qwen Code's terminal mode: its full screen. The sessions are shared with the headless mode.

The CLI loses a message that arrives while it starts, so beam waits until the CLI is ready.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.oneshot import argument
from beam.agents.qwen.exec import ACCESS, session_flags, without_the_folder
from beam.base.errors import UnsupportedError
from beam.model.screen_profile import Dialog, Profile

FACE = Capabilities(resume=True, model=True, system=True, interrupt=True, access=("read", "full"))
_RULE = r"^─{20,}"
# Below the composer, once a message is taken: how it asks for permissions. It was `? for shortcuts` before 0.24.
_MODE = r"^ {1,3}(?:⏸ Ask permissions|plan mode|auto-accept edits|Auto mode|YOLO mode) \(shift \+ tab to cycle\)"
_WORKS = r"^ {1,3}Enter to steer · Ctrl\+Q to queue"

profile = Profile(
    name="qwen",
    columns=140,
    rows=120,
    prompt=r"^[>*!](?: {1,3}(.*))?$",
    above=_RULE,
    below=_RULE,
    placeholders=(r"Type your message or @path/to/file",),
    pasted=r"\[PastedContent\d+",
    busy_rows=(r"^\s*[⠁-⣿] ", r"^\s+Press ↑ to edit queued messages", _WORKS),
    zone=8,
    error_rows=(r"^ {0,2}✕ ",),
    ready_rows=(r"^\s+\? for shortcuts", _MODE),
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
        Dialog(  # of 0.24; the calls that wait until it is answered follow it
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
    noise_rows=(r"^\s*[⠁-⣿] ", r"^\s+\? for shortcuts$", _MODE, _WORKS),
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
    if turn.access not in FACE.access:
        raise UnsupportedError(
            f"qwen can't enforce access {turn.access!r}", f"use one of: {', '.join(FACE.access)}", subject=turn.access
        )
    argv = [host.executable or "qwen", *session_flags(turn), *ACCESS[turn.access]]
    for flag, value in (("--model", turn.model), ("--append-system-prompt", turn.settings.system)):
        if value is not None:
            argv += (flag, argument("qwen", flag, value))
    env, files = without_the_folder(turn)
    return Launch(argv=tuple(argv), env=env, files=files)
