"""Gemini's terminal mode: its full screen. The window's title shows its state, and its chat file has the answer
verbatim.

The sessions are shared with the headless mode. The access `read` is a policy that the person's own rules can't widen.
"""

from __future__ import annotations

import functools

from beam.agents.base import Host, Launch, Turn
from beam.agents.gemini.exec import ACCESS, POLICY_FILE, READ_ONLY_POLICY, SINGLE_PROCESS_ENV, session_flags, trust_env
from beam.agents.oneshot import model_flags
from beam.base.errors import UnsupportedError
from beam.model.screen_profile import Dialog, Profile

_BOX_TOP, _BOX_ROW = r"^ ?╭", r"^ ?[│╰]"
_dialog = functools.partial(Dialog, first=_BOX_TOP, body=_BOX_ROW)

profile = Profile(
    columns=140,
    rows=120,
    prompt=r"^ [>*!](?: {1,3}(.*))?$",
    above=r"^\s*$",
    below=r"^\s*$",
    placeholders=(r"Type your message or @path/to/file",),
    pasted=r"\[PastedText:\d+",
    busy_rows=(r"^\s*[⠁-⣿] .*\(esc to cancel\b", r"^[⠁-⣿] "),
    zone=10,
    error_rows=(r"^✕ ",),
    failed=r"(?m)^[\u2139⚠]\ufe0f? +(Agent execution (?:stopped|blocked): .*)$",
    ready_rows=(r"^ workspace \(/directory\)", r"^ \S*[/~]"),
    resumed_rows=(r"^ > \S", r"^[⠁-⣿] Resuming session"),
    titles_busy=r"^✦ ",
    titles_idle=r"^◇ ",
    titles_asking=r"^✋ ",
    dialogs=(
        _dialog(
            name="trust",
            kind="trust",
            match=r"Do you trust (?:the files in )?this folder\?[\s\S]*1\. (?:Yes|Trust)",
            allow=("1",),
        ),
        _dialog(
            name="login",
            kind="login",
            match=r"^ ?│ +(?:How would you like to authenticate for this project\?|Enter Gemini API Key)",
        ),
        _dialog(
            name="permission",
            match=r"^│ (?:Allow execution|Apply this change|Do you want to|Allow )[^\n]*\?[\s\S]*^│[ ●]*1\. Allow once",
            allow=("1",),
            deny=("\x1b",),
            subject=r"\A[^\n]*\n│ \? {1,2}(\S+)",
            detail=r"\A[^\n]*\n│ \? {1,2}\S+ +([\s\S]*)^│ (?:Allow execution|Apply this change|Do you want to|Allow )",
        ),
    ),
    echo_rows=r"^ > (.*)$",
    noise_rows=(
        r"^\s*[⠁-⣿] .*\(esc to cancel\b",
        r"^─{20,}$",
        r"^▄{20,}$|^▀{20,}$",
        r"^ (?:Shift\+Tab to accept edits|auto-accept edits|YOLO |plan )",
        r"^\s{40,}\? for shortcuts$",
    ),
    bullet=r"^✦ ",
    indent=2,
    bracketed=True,
    special=r"^!",
    never=r"^\s*[/?]",
    interrupt="\x1b",
    quit=("\x03", "\x03"),
    start_seconds=180.0,
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start Gemini on its screen, in the session of this turn.

    Raises UnsupportedError for an option that the terminal mode can't apply.
    """
    if turn.access not in ("read", "ask", "edit", "full"):
        raise UnsupportedError(f"gemini has no access {turn.access!r}", subject=turn.access)
    access = ("--approval-mode", "default") if turn.access == "ask" else ACCESS[turn.access]
    argv = [host.executable or "gemini", *session_flags(turn), *access]
    files = {}
    if turn.access == "read":
        files[POLICY_FILE] = READ_ONLY_POLICY.encode()
        argv += ("--admin-policy", f"{turn.scratch}/{POLICY_FILE}")
    argv += model_flags("gemini", turn)
    env = SINGLE_PROCESS_ENV | trust_env(turn)
    return Launch(argv=tuple(argv), env=env, files=files)
