"""Whether an agent's program can be started, in which environment, and in words why one could not be started.

Its environment is beam's own, without harmful variables, plus the configured variables. Harmful variables inject code
into programs, or make a CLI take itself for a part of another agent's session. Does not depend on processes or turns.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from beam.base.digest import blake2b
from beam.base.errors import PASSING, BeamError, ConfigError, DiskError, NotFoundError, ShortageError

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


def check_executable(program: str, *, env: Mapping[str, str], cwd: str) -> None:
    """Raise OSError if the program does not exist or may not be executed. Starts nothing."""
    from beam.process import guard

    folders = [""] if "/" in program else env.get("PATH", guard.DEFAULT_PATH.decode()).split(":")
    number = errno.ENOENT
    for folder in folders:
        path = os.path.join(cwd, folder, program)  # noqa: PTH118 - any text may be a path here
        if (folder or "/" in program) and os.path.isfile(path):  # noqa: PTH113
            if os.access(path, os.X_OK):
                return
            number = errno.EACCES
    raise OSError(number, os.strerror(number))


def start_error(
    error: OSError | ValueError | DiskError, program: str, *, env: Mapping[str, str], cwd: str
) -> BeamError:
    """Return the error that tells a person why `program` was not started in `cwd`.

    It is a ShortageError if the cause is temporary, otherwise a NotFoundError, ConfigError, DiskError or BeamError.
    """
    cause = error.__cause__ if isinstance(error, DiskError) else error
    number = cause.errno if isinstance(cause, OSError) else None
    if number in PASSING:
        return ShortageError(f"{program} can't be started now: {os.strerror(number)}", subject=program)
    if isinstance(error, DiskError):
        return error
    if not os.path.isdir(cwd):  # noqa: PTH112 - cwd may be any text
        return ConfigError(f"the folder {cwd} does not exist", "create it, or set another `cwd:`", subject=cwd)
    from beam.process import landlock

    if number is not None and number > landlock.ERRNO_OFFSET:
        reason = os.strerror(number - landlock.ERRNO_OFFSET)
        return BeamError(
            f"{program} was not started: beam's own files could not be protected from it ({reason})",
            "`beam doctor` shows what this system supports",
            subject=program,
            kind="confinement",
        )
    if number == errno.ENOENT:
        from shutil import which

        if which(program, path=env.get("PATH")):
            return NotFoundError(
                f"{program} needs an interpreter that does not exist here",
                "install it",
                subject=program,
                kind="not_installed",
            )
        return NotFoundError(
            f"{program} was not found", "install it, or give its path", subject=program, kind="not_installed"
        )
    if number == errno.E2BIG:
        return BeamError(
            f"the arguments and environment of {program} are too long for this system",
            "send a shorter text, or use an agent that reads its prompt from stdin",
            subject=program,
            kind="exec",
        )
    if number == errno.ENOEXEC:
        return BeamError(
            f"{program} is not a program for this machine",
            "check that its first line is `#!…`",
            subject=program,
            kind="exec",
        )
    if number in (errno.EACCES, errno.EPERM):
        return BeamError(f"{program} may not be executed", f"chmod +x {program}", subject=program, kind="exec")
    reason = os.strerror(number) if number else str(error)
    return BeamError(f"{program} could not be started: {reason}", subject=program, kind="exec")
