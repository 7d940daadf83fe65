"""Putting a message into its queue: once, durably, and for a key only if it is the same message again."""

from __future__ import annotations

from beam import files, home, roots
from beam.broker.world import World
from beam.errors import UsageError
from beam.home import Place
from beam.message import Message, decode, digest
from beam.store.queue import Queue


def put(world: World, place: Place, message: Message) -> bool:
    """The message is in its queue, on disk; False if a message of its key is here already, with the same text.

    Raises UsageError if that one's text was another, LimitError for a full queue or a thread without budget, DiskError.
    """
    if message.hops > 0:
        from beam.broker.failure import check_budget

        check_budget(world, message)
    home.create(world.home, place)
    roots.remember(world.home, world.environ)
    queue = Queue(place.queue, place.put_lock)
    if message.key is None:
        return queue.put(message, world.clock, world.limits)
    if queue.put(message, world.clock, world.limits, known=lambda: _is_known(place, message.id)):
        return True
    _check_same(place, message)
    return False


def _is_known(place: Place, message_id: str) -> bool:
    from beam.store.journal import read_state

    return message_id in read_state(place.journal).known


def _check_same(place: Place, message: Message) -> None:
    from beam.store.journal import read_state

    known = read_state(place.journal).known.get(message.id)
    there = known.digest if known is not None else ""
    if not there:
        queue = Queue(place.queue, place.put_lock)
        entry = queue.find(message.id)
        if entry is None:
            return
        try:
            there = digest(decode(files.read(queue.path(entry))))
        except FileNotFoundError:
            return
    if there != digest(message):
        raise UsageError(
            f"key {message.key!r} was used for another message to {message.to}",
            f"beam show {message.id} shows it; choose another key",
            subject=message.id,
        )
