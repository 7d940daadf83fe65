"""Waiting for a message's outcome by reading the journal, whoever runs it; and seeing that somebody does."""

from __future__ import annotations

from collections.abc import Callable

from beam import events
from beam.api.both import Steps
from beam.broker.world import World
from beam.errors import CorruptError, UnfinishedError
from beam.events import AnyEvent, Event
from beam.home import Place
from beam.outcome import Outcome
from beam.state import CLOSED, DEAD, State, apply
from beam.store.journal import Reader, read_event, read_state

_POLL_S = 0.02
_TAKE_OVER_S = 0.5
_LONGEST_PAUSE_S = 8.0
_MOST_STARTS = 7  # with the growing pauses half a minute


def outcome_in(place: Place, state: State, message_id: str) -> Outcome | None:
    """The message's outcome, if it has one and nothing more will happen to it."""
    known = state.known.get(message_id)
    if known is None or known.phase not in (CLOSED, DEAD) or known.outcome_seq is None:
        return None
    event = read_event(place.journal, known.outcome_seq)
    if not isinstance(event, events.TurnFinished | events.MessageDead):
        raise CorruptError(f"event {known.outcome_seq} of {place.journal} is no outcome")
    return events.outcome_of(event)


def told_outcome(place: Place, state: State, message_id: str, seen: Callable[[Event], None]) -> Outcome | None:
    """The same; the event that put it on disk goes to `seen`."""
    outcome = outcome_in(place, state, message_id)
    if outcome is not None:
        event = read_event(place.journal, state.known[message_id].outcome_seq or 0)
        assert isinstance(event, events.TurnFinished | events.MessageDead)
        seen(event)
    return outcome


def follow(
    world: World,
    place: Place,
    message_id: str,
    *,
    seen: Callable[[Event], None],
    timeout: float | None = None,
    wanted: Callable[[], bool] = lambda: True,
    after_seq: int | None = None,
) -> Steps[Outcome | None]:
    """The message's outcome; None once `wanted` says no. Events of the message that come meanwhile go to `seen`.

    Twice a second it makes sure that the agent has a holder, or takes its duty. Raises UnfinishedError after `timeout`
    seconds, when the agent is blocked, or when its workers end without a word; nothing is stopped then.
    """
    state = read_state(place.journal)
    if (outcome := told_outcome(place, state, message_id, seen)) is not None:
        return outcome
    reader = Reader(place.journal, state.seq if after_seq is None else after_seq)
    began = world.clock.monotonic()
    pause, starts = _TAKE_OVER_S, 0
    looked = began - pause
    while True:
        now = world.clock.monotonic()
        outcome = outcome_in(place, state, message_id)
        if outcome is not None:
            return outcome
        if not wanted():
            return None
        if timeout is not None and now - began >= timeout:
            raise UnfinishedError(
                f"{message_id} is not finished after {timeout:g} s; nothing was stopped",
                f"beam wait {message_id}",
                subject=message_id,
            )
        if now - looked >= pause:
            looked = now
            if see_that_it_runs(world, place):
                pause, starts = min(2 * pause, _LONGEST_PAUSE_S), starts + 1
            if starts > _MOST_STARTS:
                raise UnfinishedError(
                    f"{starts} workers of {place.agent} ended without a word",
                    f"see {place.log}",
                    subject=message_id,
                    kind="stalled",
                )
        new: list[AnyEvent] = reader.poll()
        for event in new:
            if event.seq > state.seq:
                apply(state, event)
            if event.message_id == message_id:
                seen(event)
        if new:
            pause, starts = _TAKE_OVER_S, 0
        else:
            yield _POLL_S


def see_that_it_runs(world: World, place: Place) -> bool:
    """If nobody holds the agent, does a holder's duty for a moment: recovers, answers requests, starts a worker; says
    whether it started one.

    Raises UnfinishedError if the agent is blocked.
    """
    from beam.broker.control import Requests
    from beam.broker.hold import Holder

    holder = Holder.take(world, place)
    if holder is None:
        return False
    started = False
    try:
        if holder.blocked is not None:
            raise UnfinishedError(
                f"{place.agent} is blocked: {holder.blocked}",
                f"end those processes; if they are gone: beam agent unblock {place.agent} (nothing was lost)",
                subject=place.agent,
                kind="blocked",
            )
        Requests(holder).look()
        holder.waiting.look()
        holder.waiting.expire()
    finally:
        started = holder.leave()
    return started
