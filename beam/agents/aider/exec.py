"""aider's headless mode: `aider --message-file`, one process per turn, with the prompt in a file in the turn's own
directory.

A session is a chat history file in the agent's folder, `.aider.chat.history.<id>.md`. aider may edit files outside the
folder, so there is no access between `read` (aider only answers questions and writes nothing) and `full`.
"""

from __future__ import annotations

from beam.agents.aider.decode import TextDecoder
from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.oneshot import (
    UUID,
    check_access,
    checked_session_id,
    model_flags,
)
from beam.base.typed_values import replace_surrogates
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Access

RETRIES = 3  # aider itself gives up after a minute
# `--yes-always` answers every question with yes, except those about shell commands that a model suggests. What such a
# yes would do beside the edits (a .gitignore, an installed browser) is switched off.
QUIET_FLAGS = (
    "--no-pretty",
    "--stream",
    "--no-check-update",
    "--no-show-release-notes",
    "--no-show-model-warnings",
    "--no-analytics",
    "--no-gitignore",
    "--no-suggest-shell-commands",
    "--disable-playwright",
)
_WIDE = "5000"  # aider breaks its own lines at the width of its terminal, which is 80 without one: a path among them
_ALWAYS_FLAGS = ("--yes-always", "--no-fancy-input", *QUIET_FLAGS)
ACCESS: dict[Access, tuple[str, ...]] = {
    # A folder's .aider.conf.yml could name commands to run, before or after the turn.
    "read": (
        "--dry-run",
        "--chat-mode=ask",
        "--no-git",
        "--no-auto-lint",
        "--no-auto-test",
        "--no-detect-urls",
        "--no-notifications",
        "--load=/dev/null",
        "--env-file=/dev/null",
    ),
    "full": (),
}
# No switch keeps aider from reading these files: `--config` and `--env-file` only add further files.
OBEYS = tuple(
    AutoloadedFile(path=path, reach="worktree")
    for path in (".aider.conf.yml", ".env", ".aider.model.settings.yml", ".aider.model.metadata.json")
)
CAPABILITIES = Capabilities(
    resume=True, model=True, deltas=True, interrupt=True, whole=True, edits=True, access=tuple(ACCESS)
)
decoder = TextDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
    check_access(turn, "aider", CAPABILITIES)
    argv = [host.executable or "aider", *_ALWAYS_FLAGS, *ACCESS[turn.access], *history_flags(turn)]
    argv += (f"--input-history-file={turn.scratch}/input", f"--message-file={turn.scratch}/prompt")
    argv += model_flags("aider", turn)
    # A prompt that begins with `/` or `!` would run a command of aider's or of the shell.
    text = f" {turn.text}" if turn.text.startswith(("/", "!")) else turn.text
    retries = RETRIES if turn.settings.retries is None else turn.settings.retries
    return Launch(
        argv=tuple(argv),
        env={"COLUMNS": _WIDE},
        files={"prompt": replace_surrogates(text).encode()},
        retries=retries,
        session_file=None if turn.session_id is None else history_file(turn, turn.session_id),
    )


def history_file(turn: Turn, session_id: str) -> str:
    """Return the path of the session's chat history file. If the file is missing, aider silently begins a new
    session."""
    return f"{turn.cwd}/.aider.chat.history.{session_id}.md"


def history_flags(turn: Turn) -> tuple[str, ...]:
    """Return the flags that name the session's file. Raises UnsupportedError for an invalid session id."""
    session_id = turn.fresh_session_id if turn.session_id is None else turn.session_id
    if turn.session_id is None and (turn.once or not session_id):
        return (f"--chat-history-file={turn.scratch}/history.md",)
    checked_session_id("aider", UUID, session_id)
    file = f"--chat-history-file={history_file(turn, session_id)}"
    return (file,) if turn.session_id is None else (file, "--restore-chat-history")
