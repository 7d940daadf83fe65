"""GitHub Copilot CLI's terminal mode: its full screen.

The screen has no scrollback, so an answer that is longer than the screen is not read completely. The sessions are
shared with the headless mode.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.copilot.exec import ACCESS, TRUST_NO_FOLDER_ENV, session_flags
from beam.agents.oneshot import check_access, model_flags
from beam.model.autoloaded import AutoloadedFile
from beam.model.screen_profile import Dialog, Profile

# The CLI runs programs by these in a folder that it trusts. It asks for that on its screen, and beam answers it.
OBEYS = tuple(
    AutoloadedFile(path=path, reach="worktree")
    for path in (
        *(".github/hooks", ".github/copilot", ".github/mcp.json", ".github/lsp.json", ".github/extensions"),
        *(".mcp.json", ".claude/settings.json", ".claude/settings.local.json"),
    )
)
CAPABILITIES = Capabilities(
    resume=True, model=True, interrupt=True, whole=True, edits=True, access=("read", "edit", "full")
)
_RULE = r"^─{20,}"
_TOP, _BOX = r"^╭", r"^[│╰]"

profile = Profile(
    columns=120,
    rows=150,
    prompt=r"^[❯!](?: (.*))?$",
    above=_RULE,
    below=_RULE,
    pasted=r"\[Paste",
    busy_rows=(r"^ \S Working\b", r"\besc esc (?:interrupt|edit prompt)"),
    error_rows=(r"^ ✗ (?!(?:Shell|Create|Edit) |.* Permission to run this tool was denied\b)",),  # no failed tool
    ready_rows=(r" / commands\b",),
    resumed_rows=(r"^ ❯ \S",),
    dialogs=(
        Dialog(
            name="trust",
            kind="trust",
            match=r"^│ Do you trust the files in this folder\?[\s\S]*^│ [ ❯] 1\. Yes",
            allow=("1",),
            first=_TOP,
            body=_BOX,
        ),
        Dialog(
            name="login",
            kind="login",
            match=r"Please use /login to sign in|What account do you want to log into\?",
        ),
        Dialog(
            name="permission",
            match=r"^│ Do you want to [^\n]*\?[\s\S]*^│ [ ❯] 1\. Yes",
            allow=("1",),
            deny=("\x1b",),
            first=_TOP,
            body=_BOX,
            subject=r"\A[^\n]*\n│ (\S[^\n]*?) *│",
        ),
    ),
    echo_rows=r"^ ❯ (.*?)(?: {2,}\d\d:\d\d)?$",
    noise_rows=(r"^ [/~]", r"^─{20,}$", r"^ ● MCP Servers reloaded: ", r"^ [●❯] Thought for \d+\w?$"),
    bullet=r"^ ● ",
    indent=3,
    scrollbar="┃",
    session=r"^\s*\S*.*Resume +copilot --resume=([0-9a-f-]{36})\s*$",
    bracketed=True,
    never=r"^\s*[!/?]",
    interrupt="\x1b",
    quit=("\x03", "\x03"),
    start_seconds=180.0,
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start Copilot on its screen, in the session of this turn.

    Raises UnsupportedError for an option that the terminal mode can't apply.
    """
    check_access(turn, "copilot", CAPABILITIES)
    argv = [host.executable or "copilot", "--no-auto-update", *session_flags(turn), *ACCESS[turn.access]]
    argv += model_flags("copilot", turn)
    return Launch(argv=tuple(argv), env=TRUST_NO_FOLDER_ENV)
