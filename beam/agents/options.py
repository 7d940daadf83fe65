"""What a message or a setting may ask of a CLI beside its text, and whether a face's card claims it: one table.

The turn decides here, once; an adapter only refuses what its card can't say (a value that is no argument, say).
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
}
"""A field of `Capabilities` -> what a person asks by it, in the words of the refusal."""


def check(name: str, can: Capabilities, asked: Collection[str]) -> None:
    """Check that the face can do all that is asked; `asked` are keys of `OPTIONS`. Raises UnsupportedError that names
    everything it can't: nothing is left out in silence."""
    lacking = [words for option, words in OPTIONS.items() if option in asked and not getattr(can, option)]
    if lacking:
        raise UnsupportedError(
            f"{name} has no way to do {', '.join(lacking)}", "leave it out, or send to another agent"
        )
