"""Sending and waiting in one: put the message, run it here if nothing else is ahead of it, else follow who does."""

from __future__ import annotations

from collections.abc import Callable

from beam import home
from beam.api.both import sleeping
from beam.api.follow import follow, outcome_in
from beam.api.requests import withdraw
from beam.broker.hold import Holder
from beam.broker.world import World
from beam.errors import SignalledError, UsageError
from beam.events import Event
from beam.home import Place
from beam.message import Message, digest
from beam.outcome import Outcome
from beam.state import State
from beam.store.journal import read_state
from beam.store.queue import Queue
from beam.turns.signals import stopping
from beam.turns.stop import Stop


def put(world: World, place: Place, message: Message) -> bool:
    """The message is in its queue, on disk; False if a message of its key is here already, with the same text.

    Raises UsageError if that one's text was another, LimitError for a full queue, DiskError.
    """
    home.create(world.home, place)
    queue = Queue(place.queue, place.put_lock)
    if message.key is None:
        return queue.put(message, world.clock, world.limits)
    state = State()

    def is_known() -> bool:
        nonlocal state
        state = read_state(place.journal)
        return message.id in state.known

    if queue.put(message, world.clock, world.limits, known=is_known):
        return True
    _check_same(place, message, read_state(place.journal))
    return False


def _check_same(place: Place, message: Message, state: State) -> None:
    from beam import files
    from beam.message import decode

    known = state.known.get(message.id)
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


async def send(world: World, place: Place, message: Message, seen: Callable[[Event], None]) -> Outcome:
    """The outcome of the message, put and run to its end. Events of it go to `seen` as they are recorded.

    A signal withdraws or interrupts this message only; then SignalledError is raised, after the cleaning.
    """
    stop = Stop()
    after = read_state(place.journal).seq
    with stopping(stop, by=f"{message.actor or message.sender} (signal)") as came:
        is_new = put(world, place, message)
        if not is_new and (outcome := outcome_in(place, read_state(place.journal), message.id)) is not None:
            return outcome
        outcome = None
        if stop.reason is None:
            outcome = await _run_here(world, place, message, stop, seen)
        if outcome is None and stop.reason is None:
            steps = follow(
                world,
                place,
                message.id,
                seen=seen,
                wanted=lambda: stop.reason is None,
                after_seq=after if is_new else None,
            )
            outcome = await sleeping(steps)
        if outcome is None:
            outcome = await sleeping(withdraw(world, place, message.id, by=message.actor or message.sender))
    if came:
        raise SignalledError(came[0], outcome)
    assert outcome is not None
    return outcome


async def _run_here(
    world: World, place: Place, message: Message, stop: Stop, seen: Callable[[Event], None]
) -> Outcome | None:
    """Runs the message if nobody holds the agent and nothing is ahead; None if somebody else will run it."""

    def watch(event: Event) -> None:
        if event.message_id == message.id:
            seen(event)

    holder = Holder.take(world, place, watch)
    if holder is None:
        return None
    try:
        if holder.blocked is not None or holder.is_mailbox():
            return None
        from beam.broker.control import Requests
        from beam.process import tree

        Requests(holder).look()
        waiting = holder.look_at_queue()
        if not waiting or waiting[0].id != message.id:
            return None
        claimed = holder.claim(waiting[0])
        if claimed is None:
            return outcome_in(place, holder.state, message.id)
        tree.become_subreaper()
        return await holder.run(*claimed, stop)
    finally:
        holder.leave()
