"""Codex's terminal mode: its full screen.

Codex reports its state to the terminal (OSC 7501), and this report decides when a turn ends. A thread's rollout file
has the answer verbatim. Threads are shared with the headless mode. Codex runs without the alternate screen, so that a
long answer stays in the scrollback. A background server that Codex starts is ended together with Codex.
"""

from __future__ import annotations

import functools

from beam.agents.base import Host, Launch, Turn
from beam.agents.codex.exec import ACCESS, checked_session, folder_flags, system_flags, temp_dir_env
from beam.agents.oneshot import model_flags
from beam.base.errors import UnsupportedError
from beam.model.screen_profile import Dialog, Profile

_DIALOG_BODY = r"^(?:  |$|› \d\. )"  # Codex's other rows begin further left, except the selected answer
_CONFIRM_ROWS = r"(?:[^\n]+\n)+\n  Press enter to [^\n]*\s*\Z"
_DIALOG_DETAIL = r"\A[^\n]*\n([\s\S]*)^[› ] 1\. Yes"
_dialog = functools.partial(Dialog, body=_DIALOG_BODY)

profile = Profile(
    columns=140,
    rows=100,
    prompt="^\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}(?: (.*))?$",
    placeholders=(r"Ask Codex to do anything", r"Explain this codebase"),
    pasted=r"\[PastedContent\d+",
    busy_rows=(r"^\s*[•◦] .*\besc to interrupt\)", r"^\s*Waiting for startup"),
    zone=6,
    done_rows=(r"^\s*Worked for <?\d",),
    error_rows=(r"^■ ",),
    ready_rows=(r"^\s+\S.* · [~/]",),
    warning=r"^WARNING: proceeding, even though we could not [^\n]+(?:\n[^\n]+){0,4}",  # it continues over several rows
    signals=(7501,),
    titles_busy=r"^[⠁-⣿] ",
    dialogs=(
        _dialog(
            name="trust",
            kind="trust",
            match=rf"^[› ] 1\. Yes[^\n]*\n{_CONFIRM_ROWS}",
            allow=("1", "\r"),
            first=r"^(?:> |  )\S[^\n]*\b(?:[Tt]rust the (?:contents|files) of|trust this (?:directory|folder))\b",
        ),
        _dialog(  # in a git repository that Codex's configuration does not trust; a digit does not answer it
            name="trust",
            kind="trust",
            match=r"^› 1\. Trust and continue\n[^\n]*\n\n[^\n]*\besc back\s*\Z",
            allow=("\r",),
            first=r"^  Folder access$",
        ),
        _dialog(  # in a folder that `folder_flags` tell Codex not to trust
            name="restricted",
            kind="setup",
            match=r"^› 1\. Open restricted\n[^\n]*\n\s*[^\n]*\besc back\s*\Z",
            allow=("\r",),
            first=r"^  Folder access$",
        ),
        _dialog(
            name="login",
            kind="login",
            match=r"^[>›] 1\. Sign in with ChatGPT\n[\s\S]*^  Press enter to continue\s*\Z",
            first=r"^  Choose how you want to use Codex\.$",
            body=r"^(?:  |$|[>›] \d\. )",
        ),
        _dialog(
            name="new model",
            kind="setup",
            match=r"^[› ] 1\. Try new model\n[› ] 2\. Use existing model\n\n[^\n]*\s*\Z",
            allow=("\x1b[B", "\r"),
        ),
        _dialog(
            name="permission",
            match=rf"^[› ] 1\. Yes[^\n]*\(y\)\n{_CONFIRM_ROWS}",
            allow=("y",),
            deny=("\x1b",),
            first=r"^  Would you like to (?!make the following edits)[^\n]*\?$",
            subject=r"^  \$ ([^\n]*)",
            detail=_DIALOG_DETAIL,
            always=("p",),
            always_row=r"^[› ] 2\. (Yes, and don't ask again (?:[^\n]|\n {5,}(?=\S))*\(p\)$)",
        ),
        _dialog(
            name="network",
            match=rf"^[› ] 1\. Yes[^\n]*\(y\)\n{_CONFIRM_ROWS}",
            allow=("y",),
            deny=("\x1b",),
            first=r'^  Do you want to approve network access to "',
            subject=r'\A  Do you want to approve network access to "([^"\n]+)"',
            detail=r"\A([\s\S]*)^[› ] 1\. Yes",
        ),
        _dialog(
            name="edit",
            match=rf"^[› ] 1\. Yes[^\n]*\(y\)\n{_CONFIRM_ROWS}",
            allow=("y",),
            deny=("\x1b",),
            first=r"^  Would you like to make the following edits\?$",
            subject=r"^  Destination: ([^\n]*)",
            detail=_DIALOG_DETAIL,
            always=("a",),
            always_row=r"^[› ] 2\. (Yes, and don't ask again (?:[^\n]|\n {5,}(?=\S))*\(a\)$)",
        ),
    ),
    echo_rows="^(?:\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} |(?=/\\w))(.*)$",
    noise_rows=(r"^\s*[•◦] .*\besc to interrupt\)", r"^\s*Worked for <?\d", r"^\s*─+( Worked for .*)?$"),
    bullet=r"^• ",
    indent=2,
    bracketed=True,
    special=r"^[!/]",
    interrupt="\x1b",
    session=r"^\s*codex resume ([0-9a-f-]{36})\s*$",
    quit=("\x03", "\x03"),
)


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start Codex on its screen. Raises UnsupportedError for an option that Codex can't apply there."""
    access = ("--sandbox", "read-only") if turn.access == "ask" else ACCESS.get(turn.access)
    if access is None:
        raise UnsupportedError(f"codex has no access {turn.access!r} in terminal mode", subject=turn.access)
    access = tuple(word for word in access if word != "--ignore-rules")
    if turn.access != "full":
        access = (*access, "--ask-for-approval", "on-request" if turn.access == "ask" else "never")
    argv = [host.executable or "codex", "--no-alt-screen", *folder_flags(turn), *access]
    if turn.session_id is not None:
        argv[1:1] = ["resume"]
        argv.append(checked_session(turn.session_id))
    argv += model_flags("codex", turn)
    argv += system_flags(turn)
    return Launch(argv=tuple(argv), env=temp_dir_env(turn))
