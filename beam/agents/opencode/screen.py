"""OpenCode's terminal mode: its full screen.

The screen has no scrollback, so an answer that is longer than the screen is not read completely. The sessions are
shared with the headless mode, and OpenCode prints the session's id when it quits. An agent profile made by beam limits
its rights, as in headless mode.
"""

from __future__ import annotations

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.oneshot import checked_argument
from beam.agents.opencode.run import OBEYS as OBEYED_HEADLESS
from beam.agents.opencode.run import access_profile, checked_session
from beam.base.errors import UnsupportedError
from beam.model.autoloaded import AutoloadedFile
from beam.model.screen_profile import Dialog, Profile

OBEYS = (
    *OBEYED_HEADLESS,
    *(
        AutoloadedFile(path=path, at=("full",), reach="upward", says=("plugin", "\\u"))  # plugins of the screen itself
        for name in ("tui.json", "tui.jsonc")
        for path in (name, f".opencode/{name}")
    ),
)
CAPABILITIES = Capabilities(
    resume=True, model=True, interrupt=True, whole=True, edits=True, ask=True, access=("read", "ask", "edit", "full")
)

profile = Profile(
    columns=118,  # a wider screen shows a bar beside the conversation
    rows=150,
    prompt=r"^(?:  | {10,})┃(?:  (.*))?$",  # before the first message, the prompt is in the middle
    above=r"^(?!\s*┃)",
    below=r"^\s*╹▀{20,}",
    frame=r"\n *┃  [^\n]* · [^\n]*\s*\Z|^ *┃ {0,2}",
    placeholders=(r'Ask anything… ".*"',),
    pasted=r"\[Pasted~?\d+lines",
    busy_rows=(r"^   [⬝■]{4,}\s+esc ", r"\besc (?:again to )?interrupt\b"),
    zone=1,
    done_rows=(r"^     ▣  \S.* · (?:\d+[hm] )*\d[\d.]*m?s\b",),
    failed=(r"^ *┃\n *┃  (\S[^\n]*)\n(?: *┃  [^\n]*\n)* *┃\n\n? +▣ +[^·\n]* · [^·\n]*$"),
    dialogs=(
        Dialog(
            name="permission",
            match=r"^ *┃ +Allow once +Allow always +Reject[^\n]*(?:\n *┃)?\s*\Z",
            allow=("\r",),
            deny=("\x1b",),
            first=r"^ *┃ {1,2}△ Permission required",
            body=r"^ *┃",
            subject=r"\A[^\n]*\n *┃ +(?:# )?(\S[^\n]*)",
            detail=r"\A[^\n]*\n(?: *┃ +#[^\n]*\n)?([\s\S]*)^ *┃ +Allow once +Allow always",
        ),
        Dialog(
            name="provider",
            kind="login",
            match=r"^ *┃? *Connect a provider\b",
        ),
    ),
    echo_rows=r"^  ┃ {2,}(\S.*)$",
    noise_rows=(r"^  ┃", r"^     ▣  \S+ · ", r"^   [⬝■]{4,}", r"^ {5}\+ Thought: \d"),
    indent=5,
    session=r"^\s*Continue\s+opencode -s (ses_[A-Za-z0-9]+)",
    bracketed=True,
    special=r"^[!/]",
    never=r"^\s*(?:exit|quit|:q)\s*$",
    interrupt="\x1b",
    quit=("\x03",),  # a second Ctrl-C would end it before it prints its session's id
    start_seconds=300.0,
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start OpenCode on its screen, in the session of this turn.

    Raises UnsupportedError for an option that the terminal mode can't apply.
    """
    if turn.access not in ("read", "ask", "edit", "full"):
        raise UnsupportedError(f"opencode has no access {turn.access!r}", subject=turn.access)
    argv = [host.executable or "opencode"]
    if turn.session_id is not None:
        argv += ("--session", checked_session(turn.session_id, "opencode"))
    if turn.model is not None:
        if "/" not in turn.model:
            raise UnsupportedError(f"opencode names models PROVIDER/MODEL, not {turn.model!r}", subject=turn.model)
        argv += ("--model", checked_argument("opencode", "model", turn.model))
    if turn.access == "full":
        return Launch(argv=(*argv, "--auto"))
    name, env, files = access_profile(turn, "OPENCODE")
    return Launch(argv=(*argv, "--pure", "--agent", name), env=env, files=files)
