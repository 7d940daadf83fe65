"""Qwen Code's headless mode: `qwen -o stream-json`, one process per turn, prompt on stdin.

The CLI adds two newlines to the prompt. The access map below is the only place with flags that give the CLI rights. The
CLI silently retries a failing API for up to an hour, so beam switches on the log of its OpenAI library, which reports
retries.
"""

from __future__ import annotations

import json

from beam.agents.base import Capabilities, Host, Launch, Turn
from beam.agents.oneshot import UUID, check_access, checked_argument, checked_session_id
from beam.agents.qwen.decode import LineDecoder
from beam.base.typed_values import replace_surrogates
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Access

RETRIES = 3
LOG_ENV = {"OPENAI_LOG": "info"}
ACCESS: dict[Access, tuple[str, ...]] = {
    # Where nobody can be asked, the mode `default` has only two tools that can change anything: those for worktrees.
    # They ask nobody, write files, and make git run its hooks. Extensions and MCP servers would run code of their own.
    "read": (
        "--approval-mode",
        "default",
        "--exclude-tools",
        "enter_worktree,exit_worktree",
        "--extensions",
        "none",
        "--allowed-mcp-server-names",
        "none",
    ),
    "full": ("--approval-mode", "yolo"),
}
# Only settings can switch on qwen's own trust in folders; no flag can. The settings of the machine's owner win over all
# others. In a folder that is not trusted, qwen changes nothing, whatever it was allowed.
_SYSTEM_FILES = {"QWEN_CODE_SYSTEM_SETTINGS_PATH": "settings.json", "QWEN_CODE_TRUSTED_FOLDERS_PATH": "folders.json"}
OCCUPIED = (
    "$QWEN_CODE_SYSTEM_SETTINGS_PATH",
    *("/etc/qwen-code/settings.json", "/etc/qwen-code/system-defaults.json"),
    "/Library/Application Support/QwenCode/settings.json",
    "/Library/Application Support/QwenCode/system-defaults.json",
)
OBEYS = (
    AutoloadedFile(path=".qwen", ignored=("read",)),
    AutoloadedFile(path=".mcp.json", at=("full",)),  # below full, qwen starts no server that it did not ask about
    AutoloadedFile(path=".qwen/.env", ignored=("read",), reach="upward"),
    AutoloadedFile(path=".env", ignored=("read",), reach="upward"),
)
CAPABILITIES = Capabilities(
    resume=True,
    model=True,
    system=True,
    max_turns=True,
    deltas=True,
    tools=True,
    interrupt=True,
    edits=True,
    tokens=True,
    api_time=True,
    denials=True,
    access=tuple(ACCESS),
    rewrites=True,
)
decoder = LineDecoder


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to run this turn. Raises UnsupportedError for an option that the headless mode can't apply."""
    check_access(turn, "qwen", CAPABILITIES)
    argv = [host.executable or "qwen", "-o", "stream-json", "--include-partial-messages", *session_flags(turn)]
    argv += ACCESS[turn.access]
    for flag, value in (
        ("--model", turn.model),
        ("--max-session-turns", turn.max_turns),
        ("--append-system-prompt", turn.settings.system),
    ):
        if value is not None:
            argv += (flag, checked_argument("qwen", flag, str(value)))
    # The CLI would take a prompt that begins with `/` for one of its own commands.
    text = f" {turn.text}" if turn.text.startswith("/") else turn.text
    retries = RETRIES if turn.settings.retries is None else turn.settings.retries
    stdin = replace_surrogates(text).encode()
    env, files = folder_ignoring_setup(turn)
    return Launch(argv=tuple(argv), stdin=stdin, env=LOG_ENV | env, files=files, retries=retries, drops_output=True)


def folder_ignoring_setup(turn: Turn) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the environment and the files with which qwen ignores the folder's own files in this turn; both are empty
    if it may read them."""
    if not turn.leave_out:
        return {}, {}
    settings = {"security": {"folderTrust": {"enabled": True}}}
    contents = (settings, {turn.cwd: "DO_NOT_TRUST"})
    files = {name: json.dumps(content).encode() for name, content in zip(_SYSTEM_FILES.values(), contents, strict=True)}
    return {variable: f"{turn.scratch}/{name}" for variable, name in _SYSTEM_FILES.items()}, files


def session_flags(turn: Turn) -> tuple[str, ...]:
    """Return the flags that name the session. Raises UnsupportedError for an invalid session id."""
    if turn.session_id is None:
        return ("--session-id", turn.fresh_session_id) if turn.fresh_session_id else ()
    return ("--resume", checked_session_id("qwen", UUID, turn.session_id))
