"""The environment of an agent's process: beam's own, without harmful variables, plus the configured variables.

Harmful variables inject code into programs, or make a CLI take itself for a part of another agent's session.
"""

from __future__ import annotations

from collections.abc import Mapping

from beam.base.digest import blake2b

# With these variables the dynamic loader runs code inside every program: not even a trusted configuration may set them.
LOADER_VARIABLES = frozenset({"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"})

# Variables that must not be inherited: those that inject code into interpreters (each agent CLI is an interpreter or
# starts one), and those that make a Claude Code started from inside another one take itself for a part of it.
# LD_LIBRARY_PATH and PYTHONPATH stay, because some programs find their own libraries by them.
DENIED_VARIABLES = LOADER_VARIABLES | {
    "NODE_OPTIONS",
    "NODE_REPL_EXTERNAL_MODULE",
    "BUN_OPTIONS",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "PERL5OPT",
    "RUBYOPT",
    "BASH_ENV",
    "ENV",
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_RESUME_INTERRUPTED_TURN",
    "CLAUDE_EFFORT",
    "CLAUDE_PROJECT_DIR",
}


# Variables that say where a command was typed, and in how many nested shells. No agent behaves differently for them.
_SHELL_VARIABLES = frozenset(
    {
        "_",
        "COLUMNS",
        "GPG_TTY",
        "ITERM_SESSION_ID",
        "KITTY_WINDOW_ID",
        "LINES",
        "OLDPWD",
        "PWD",
        "SHELL_SESSION_ID",
        "SHLVL",
        "SSH_CLIENT",
        "SSH_CONNECTION",
        "SSH_TTY",
        "STY",
        "TERM_SESSION_ID",
        "TMUX_PANE",
        "WEZTERM_PANE",
        "WINDOW",
        "WINDOWID",
        "XDG_SESSION_ID",
    }
)


def environment(
    environ: Mapping[str, str], extra: Mapping[str, str], *, deny: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Return the environment: `environ` without DENIED_VARIABLES and `deny`, plus `extra` without LOADER_VARIABLES.

    The inherited PATH keeps only its absolute folders.
    """
    refused = DENIED_VARIABLES | deny
    inherited = {name: value for name, value in environ.items() if name not in refused}
    if "PATH" in inherited:
        inherited["PATH"] = absolute_folders(inherited["PATH"])
    return inherited | {name: value for name, value in extra.items() if name not in LOADER_VARIABLES}


def absolute_folders(path: str) -> str:
    """Return this PATH without its relative folders (`.`, `node_modules/.bin`) and its empty entries.

    The system would look for these in the project folder, whose files somebody else may have written.
    """
    return ":".join(folder for folder in path.split(":") if folder.startswith("/"))


def fingerprint(environ: Mapping[str, str], message_id: str) -> str:
    """Return a digest of the environment: equal for two environments that have the same effect on an agent's process.

    The digest also depends on `message_id`. Variables of the shell, such as PWD, do not count.
    """
    counted = {name: value for name, value in environment(environ, {}).items() if name not in _SHELL_VARIABLES}
    digest = blake2b(digest_size=16)
    for word in (message_id, *(f"{name}={counted[name]}" for name in sorted(counted))):
        digest.update(word.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
