"""The scripted agent's dialogue mode: the same program keeps running and reads each turn as a line of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from beam.agents.base import Host, Launch, Turn
from beam.agents.scripted import exec as headless

if TYPE_CHECKING:
    from beam.agents.link import Link

__all__ = ["launch", "link"]


def launch(turn: Turn, host: Host) -> Launch:
    """Return how to start the program so that it keeps running."""
    one = headless.launch(turn, host)
    return structs.replace(one, argv=(*one.argv, "--serve"), stdin=None)


def link(turn: Turn, host: Host) -> Link:
    """Return a new conversation with one process."""
    from beam.agents.scripted.conversation import ScriptedLink

    return ScriptedLink()
