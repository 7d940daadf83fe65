"""Claude Code's headless mode: `claude -p`, one process per turn, prompt on stdin.

The access map below is the only place with flags that give claude rights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from beam.agents.base import Host, Launch, Turn
from beam.agents.claude import tool_rules
from beam.agents.claude.decode import FrameDecoder
from beam.agents.oneshot import UUID, checked_session_id
from beam.base.errors import UnsupportedError
from beam.base.typed_values import replace_surrogates
from beam.model.autoloaded import AutoloadedFile
from beam.model.message import Access
from beam.model.settings import DEFAULT_LIMITS

# With a snapshot, a session keeps the system prompt of its first turn. beam's text in it would count for all later
# turns, whatever their access, and a changed `system` would have no effect.
SYSTEM_PROMPT_SNAPSHOT = "off"
RETRIES = 3  # the CLI's own default is 10, three minutes of silence
_STREAM_FLAGS = (
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--include-hook-events",
)
_CHANGING_TOOLS = ("Bash", "Edit", "Write", "NotebookEdit")
_READING_TOOLS = ("Read", "Glob", "Grep", "Agent", "Skill", "WebFetch", "WebSearch", "TodoWrite")
_TASK_TOOLS = ("TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "TaskOutput", "TaskStop")
_READ_ONLY_PROMPT = (
    "This session may look and not change anything: Bash, Edit, Write and NotebookEdit are denied. "
    "Use Read, Glob and Grep."
)

ACCESS: dict[Access, tuple[str, ...]] = {
    # `ask` rules win over the person's own `allow` rules and over hooks that approve. Nobody can be asked, so the call
    # is denied, and listed in `permission_denials`. Tools that a later version adds are not available.
    "read": (
        "--permission-mode",
        "dontAsk",
        "--tools",
        ",".join((*_READING_TOOLS, *_TASK_TOOLS, *_CHANGING_TOOLS)),
        "--settings",
        json.dumps({"permissions": {"ask": [*_CHANGING_TOOLS, "mcp__*"]}}, separators=(",", ":")),
    ),
    "edit": ("--permission-mode", "acceptEdits"),
    "full": ("--permission-mode", "bypassPermissions"),
}
# The folder's own settings are not loaded: its hooks, key helper and MCP servers would run code, and `claude -p` asks
# nobody whether the folder is to be trusted. Its CLAUDE.md is still read.
_USER_SETTINGS_ONLY = ("--setting-sources", "user")
_LOADING_ACCESSES: tuple[Access, ...] = ("ask", "edit", "full")
OBEYS = tuple(
    AutoloadedFile(path=path, at=_LOADING_ACCESSES, ignored=_LOADING_ACCESSES, reach="worktree")
    for path in (
        *(".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".mcp.json"),
        *(".claude/agents", ".claude/commands", ".claude/skills"),  # each can allow itself tools, and have hooks
    )
)
# With --add-dir, claude reads the CLAUDE.md of the folder, but not its settings.
CLAUDE_MD_ENV = {"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1"}
decoder = FrameDecoder


def launch(turn: Turn, host: Host, access: Mapping[Access, tuple[str, ...]] | None = None) -> Launch:
    """Return how to run this turn. `access` maps each access to its flags, which include the turn's rules; None means
    the flags of the headless mode. Raises UnsupportedError for an option that this mode can't apply."""
    argv = [host.executable or "claude", *_STREAM_FLAGS, *_session_flags(turn), *_access_flags(turn, access)]
    looking = turn.access == "read" and not tool_rules.asks_beam(turn)
    system = "\n\n".join(text for text in (turn.settings.system, _READ_ONLY_PROMPT if looking else None) if text)
    for flag, value in (
        ("--model", turn.model),
        ("--json-schema", turn.schema),
        ("--max-turns", turn.max_turns),
        ("--max-budget-usd", turn.budget_usd),
        ("--append-system-prompt", system or None),
        ("--system-prompt-snapshot", SYSTEM_PROMPT_SNAPSHOT if system else None),
    ):
        if value is not None:
            argv += (flag, _argument(flag, str(value)))
    retries = RETRIES if turn.settings.retries is None else turn.settings.retries
    env = {"CLAUDE_CODE_MAX_RETRIES": str(retries)} | (CLAUDE_MD_ENV if leaves_folder_out(turn) else {})
    return Launch(argv=tuple(argv), stdin=text_of(turn).encode(), env=env, drops_output=True)


def _session_flags(turn: Turn) -> tuple[str, ...]:
    if turn.session_id is None:
        fresh = ("--session-id", uuid_of(turn.fresh_session_id)) if turn.fresh_session_id else ()
        return (*fresh, "--no-session-persistence") if turn.once else fresh
    cut = ("--resume-session-at", uuid_of(turn.upto)) if turn.upto is not None else ()
    resumed = ("--resume", uuid_of(turn.session_id), *cut)
    if not turn.fork:
        return resumed
    fresh = ("--session-id", uuid_of(turn.fresh_session_id)) if turn.fresh_session_id else ()
    return (*resumed, "--fork-session", *fresh)


def uuid_of(session_id: str) -> str:
    """Return the session id if it is a UUID; otherwise raise UnsupportedError."""
    return checked_session_id("claude", UUID, session_id, "its session ids are UUIDs")


def _access_flags(turn: Turn, given: Mapping[Access, tuple[str, ...]] | None) -> tuple[str, ...]:
    access = ACCESS if given is None else given
    if turn.access not in access:
        raise UnsupportedError(
            f"claude can't ask in exec mode (access {turn.access!r})",
            f"use one of: {', '.join(access)}",
            subject=turn.access,
        )
    words = tool_rules.flags(access[turn.access], turn) if given is None else access[turn.access]
    outbox = ("--add-dir", _argument("--add-dir", turn.outbox)) if turn.outbox and turn.access == "edit" else ()
    if not leaves_folder_out(turn):
        return (*words, *outbox)
    folder = ("--add-dir", _argument("--add-dir", turn.cwd)) if turn.cwd else ()
    return (*words, *_USER_SETTINGS_ONLY, *folder, *outbox)


def leaves_folder_out(turn: Turn) -> bool:
    """Return whether claude must not load the folder's settings.

    With `read` claude never loads them. With `ask` and `edit` it loads them only in a trusted folder. With any access
    it loads none if some of them are not trusted (`leave_out`).
    """
    return turn.access == "read" or (turn.access in ("ask", "edit") and not turn.folder_trusted) or turn.leave_out


def _argument(flag: str, value: str) -> str:
    """Return the value if it can be passed as one argument: it is not a flag, has no NUL, and is not too long.
    Otherwise raise UnsupportedError."""
    if value.startswith("-") or "\0" in value:
        raise UnsupportedError(
            f"claude can't be given {flag} {value[:40]!r}", "it begins with - or holds a NUL", subject=flag
        )
    if len(value.encode("utf-8", "replace")) > DEFAULT_LIMITS.argv_text_bytes:
        raise UnsupportedError(
            f"the value of claude's {flag} is longer than {DEFAULT_LIMITS.argv_text_bytes} bytes",
            "make it shorter",
            subject=flag,
        )
    return value


def text_of(turn: Turn) -> str:
    """Return the prompt: the text, then a mention (`@PATH`) of each attached file.

    A mention makes claude add a text or an image to the prompt. For any other file the model gets the path. A leading
    `/` would run a slash command, so a space is put before it.
    """
    text = f" {turn.text}" if turn.text.startswith("/") and not turn.slash else turn.text
    if turn.attach:
        text = f"{text}\n\n" + "\n".join(_mention(path) for path in turn.attach)
    return replace_surrogates(text)


def _mention(path: str) -> str:
    """Return the mention of one file.

    claude would take text after a `#` for line numbers, and ` (agent)` at the end for the mark of an agent. Raises
    UnsupportedError for a path with either.
    """
    quoted = '"' not in path
    plain = path.isprintable() and "#" not in path and not path.endswith(" (agent)")
    if not plain or not (quoted or re.fullmatch(r"\S+\w", path)):
        raise UnsupportedError(f"claude can't attach the file {path!r}", "give it a plainer name", subject=path)
    return f'@"{path}"' if quoted else f"@{path}"
