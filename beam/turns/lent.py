"""The file descriptors from which turns of this process read a model's key.

A sender lends a descriptor, and the turn of its message takes it.
"""

from __future__ import annotations

_lent_descriptors: dict[str, int] = {}


def lend_descriptor(message_id: str, descriptor: int) -> None:
    """Let the turn of this message read its API key from the descriptor, if this process runs the turn."""
    _lent_descriptors[message_id] = descriptor


def take_descriptor(message_id: str) -> int | None:
    """Return the descriptor that was lent for this message, and forget it; None if there is none."""
    return _lent_descriptors.pop(message_id, None)
