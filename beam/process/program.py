"""Checks whether a program can be started, and explains in words why one could not be started.

Does not depend on processes or turns.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from beam.base.errors import PASSING, BeamError, ConfigError, DiskError, NotFoundError, ShortageError
from beam.process import guard, landlock


def check_executable(program: str, *, env: Mapping[str, str], cwd: str) -> None:
    """Raise OSError if the program does not exist or may not be executed. Starts nothing."""
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
