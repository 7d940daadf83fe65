"""The options of messages and settings, in one table with the capability of a face that each option needs.

A turn checks its options here, once. An adapter refuses only what its card can't express, such as a value that can't be
an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from beam.agents.base import Capabilities, Face
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
    "whole": "--require whole: it does not report that an answer was cut off",
}
"""A field of `Capabilities` -> the words for this option in the error message."""


def check_options(
    name: str, can: Capabilities, asked: Collection[str], faces: Mapping[Face, Capabilities] | None = None
) -> None:
    """Check that the face supports all requested options. `asked` are keys of `OPTIONS`. `faces` are the faces that
    could run the turn instead; the error suggests one of them. Raises UnsupportedError that names every unsupported
    option."""
    lacking = [words for option, words in OPTIONS.items() if option in asked and not getattr(can, option)]
    if not lacking:
        return
    others = (face for face, other in (faces or {}).items() if all(getattr(other, option) for option in asked))
    other = next(others, None)
    hint = f"--via {other} can" if other is not None else "leave it out, or send to another agent"
    where = " in this mode" if other is not None else ""
    raise UnsupportedError(f"{name} has no way to do {', '.join(lacking)}{where}", hint)
