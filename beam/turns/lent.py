"""The file descriptors from which turns of this process read a model's key.

A sender lends a descriptor, and the turn of its message takes it.
"""

from __future__ import annotations

from beam.base.errors import UsageError
from beam.secrets import keyring

_lent_descriptors: dict[str, int] = {}
_PREFIX = "fd:"


def descriptor_of(shield: str) -> int | None:
    """Return the number N of `fd:N`, which says where a shielded turn's key is; None for the name of a key. Raises
    UsageError for any other text."""
    if shield.startswith(_PREFIX):
        number = shield.removeprefix(_PREFIX)
        if number.isascii() and number.isdigit() and len(number) < 10 and int(number) > 2:
            return int(number)
    elif keyring.is_name(shield):
        return None
    raise UsageError(
        f"--shield {shield[:80]!r} says no place of a key",
        "--shield fd:3 3< <(a command that prints it), or --shield NAME after beam secret set NAME",
        subject=shield[:80],
    )


def lend_descriptor(message_id: str, descriptor: int) -> None:
    """Let the turn of this message read its API key from the descriptor, if this process runs the turn."""
    _lent_descriptors[message_id] = descriptor


def take_descriptor(message_id: str) -> int | None:
    """Return the descriptor that was lent for this message, and forget it; None if there is none."""
    return _lent_descriptors.pop(message_id, None)
