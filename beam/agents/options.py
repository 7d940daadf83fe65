"""The options of a message or a setting, and the capability of a face's card that each needs, in one table.

A turn checks them here, once. An adapter only refuses what its card can't express, such as a value that can't be an
argument.
"""

from __future__ import annotations

from collections.abc import Collection

from beam.agents.base import Capabilities
from beam.base.errors import UnsupportedError

OPTIONS = {
    "schema": "--schema",
    "max_turns": "--max-turns",
    "budget": "--budget",
    "model": "--model",
    "attach": "--attach",
    "system": "a system prompt (`system`)",
    "resume": "an earlier session",
    "commands": "a slash command (--slash)",
}
"""A field of `Capabilities` -> what a person asks by it, in the words of the refusal."""


def check(name: str, can: Capabilities, asked: Collection[str]) -> None:
    """Check that the face supports all requested options; `asked` are keys of `OPTIONS`. Raises UnsupportedError
    that names every unsupported one."""
    lacking = [words for option, words in OPTIONS.items() if option in asked and not getattr(can, option)]
    if lacking:
        raise UnsupportedError(
            f"{name} has no way to do {', '.join(lacking)}", "leave it out, or send to another agent"
        )
