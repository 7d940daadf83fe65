"""A command line of beam, parsed as beam would, and not run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import typer

from beam.cli.app import app
from beam.cli.context import Context


@cache
def _whole() -> Any:
    return typer.main.get_command(app)


def parsed(line: str, directory: Path) -> list[str]:
    """Return the words of the command that a shell line calls, `beam` first.

    Raises what typer raises if beam does not take its arguments.
    """
    typed = re.search(r"beam (?:'[^']*'|\"[^\"]*\"|[^>)|&;])*", line)
    assert typed is not None, line
    words = shlex.split(typed[0], comments=True)
    command = _whole()
    context = command.make_context("beam", words[1:], obj=Context(directory=str(directory)))
    named = ["beam"]
    while hasattr(command, "commands") and (rest := [*context._protected_args, *context.args]):
        name, command, rest = command.resolve_command(context, rest)
        named.append(name)
        context = command.make_context(name, rest, parent=context)
    return named


def refused(lines: Iterable[str], directory: Path) -> list[str]:
    """Return those of the shell lines that beam would not take, each with why."""
    found = []
    for line in lines:
        try:
            parsed(line, directory)
        except Exception as error:
            found.append(f"{line}: {error!r}")
    return found
