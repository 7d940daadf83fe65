"""Finds files among an agent's waiting messages that are no messages for it: whoever wrote them waits for nothing.
Reading takes no locks."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from beam.api.find import queue_of
from beam.base.errors import DiskError
from beam.base.typed_values import escape_surrogates
from beam.model.message import Message
from beam.root.paths import AgentPaths
from beam.store.queue import Entry

WRONG_NAME = "its name is not NUMBER-ID.json, so nothing runs it; beam send --message sends such a file"


def strays_text(count: int) -> str:
    """Return how many files are strays, in words."""
    return "1 file in its queue is no message" if count == 1 else f"{count} files in its queue are no messages"


class Stray(Struct, frozen=True):
    """A file in `new/` that is no message for the agent, and why it is none."""

    name: str
    why: str


def strays(paths: AgentPaths, *, most: int | None = None) -> Iterator[Stray]:
    """Yield the files with another name than a message's, and those of the first `most` messages (None: of all) that
    can't be read, or hold something else than a message to this agent."""
    queue = queue_of(paths)
    for name in stray_names(paths):
        yield Stray(name, WRONG_NAME)
    for entry in queue.entries("new")[:most]:
        try:
            why = misplaced(paths, entry, queue.read(entry))
        except FileNotFoundError:
            continue
        except DiskError as error:
            why = error.message
        if why is not None:
            yield Stray(entry.name, why)


def stray_names(paths: AgentPaths) -> list[str]:
    """Return the names of the files in `new/` that are no names of messages, as text."""
    return [escape_surrogates(name) for name in queue_of(paths).strays()]


def misplaced(paths: AgentPaths, entry: Entry, message: Message) -> str | None:
    """Return why a waiting message is not this entry's message to this agent; None if it is."""
    if message.id == entry.id and message.to == paths.agent:
        return None
    return f"the file of {entry.id} holds {message.id} to {message.to}"
