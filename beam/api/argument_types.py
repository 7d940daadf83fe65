"""Checks the types of arguments that come from a Python program, so that a wrong one is named before anything is
sent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from beam.base.clock import parse_rfc3339
from beam.base.errors import UsageError
from beam.model.settings import AgentSettings


def check_is_text(**texts: object) -> None:
    """Raise UsageError if one of these arguments is not a text."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise _wrong_type_error(name, text, "a text")


def check_is_number(**numbers: object) -> None:
    """Raise UsageError if one of these arguments is neither a number nor None."""
    for name, number in numbers.items():
        if number is not None and not isinstance(number, int | float):
            raise _wrong_type_error(name, number, "a number")


def check_is_settings(settings: object) -> None:
    """Raise UsageError if these are not the settings of an agent."""
    if not isinstance(settings, AgentSettings):
        raise _wrong_type_error("settings", settings, "AgentSettings")


def time_ns(name: str, time: object) -> int:
    """Return the nanoseconds since 1970 of a time in the format of RFC 3339. Raises UsageError for anything else."""
    check_is_text(**{name: time})
    try:
        return parse_rfc3339(str(time))
    except ValueError as error:
        hint = "write it like 2026-07-01T12:00:00Z"
        raise UsageError(f"`{name}` is {str(time)[:80]!r}, and not a time", hint) from error


def file_paths(name: str, paths: object) -> tuple[Path, ...]:
    """Return these paths, which may also be texts; a single path or text is one file. Raises UsageError for anything
    else."""
    if isinstance(paths, str | os.PathLike):
        paths = (paths,)
    if not isinstance(paths, Sequence) or isinstance(paths, bytes):
        raise _wrong_type_error(name, paths, "a list of paths")
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise _wrong_type_error(name, path, "a path")
    return tuple(Path(path) for path in paths)


def agent_names(agents: Sequence[str]) -> Sequence[str]:
    """Return the names of these agents; a text is one name, and not a list of letters."""
    return (agents,) if isinstance(agents, str) else agents


def _wrong_type_error(name: str, value: object, wanted: str) -> UsageError:
    return UsageError(f"`{name}` is {type(value).__name__}, and not {wanted}", "docs/python-api.md has the types")
