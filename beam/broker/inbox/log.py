"""The log of one agent or lane: its journal, its queue, and the state that follows from the journal.

Recovery, closing, routing, the failure policy and control requests need nothing else of a lease. A log takes no lock:
whoever makes one must already have the agent's lock (`beam.broker.holder.lease`). Does not depend on turns, processes
or locks.
"""

from __future__ import annotations

from collections.abc import Callable

from beam.base.clock import recorded_ns
from beam.broker.inbox import launch
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.model.events import Event
from beam.root.paths import AgentPaths
from beam.store import control
from beam.store.journal import Journal
from beam.store.queue import Entry, Queue

Watcher = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """Ignore the event: the watcher of a log that nobody watches."""


class AgentLog:
    """An agent's journal and queue. `context` is replaced when the configuration is read again.

    `watcher` is called with each recorded event or, with `watched`, only with the events of the message with that id.
    `checked` has the entries of waiting messages that were checked already and may run. An entry is removed from
    `checked` when its file is claimed or moved, because a new file of that name must be checked again.
    """

    def __init__(
        self,
        context: RootContext,
        paths: AgentPaths,
        journal: Journal,
        watcher: Watcher = ignore_event,
        watched: str | None = None,
    ) -> None:
        self.context = context
        self.paths = paths
        self.journal = journal
        self.queue = Queue(paths.queue, paths.put_lock)
        self.state = journal.state  # the state that follows from the journal
        self.watcher = watcher
        self.watched = watched
        self.checked: set[Entry] = set()

    def record(
        self, body: events.E, *, turn: int | None = None, message_id: str | None = None, sync: bool = False
    ) -> events.E:
        """Append an event to the journal, and call the watcher with it. With `sync`, the event is on disk when this
        returns.

        Returns the event as it was written. Raises DiskError.
        """
        event = self.journal.append(body, turn=turn, message_id=message_id, sync=sync)
        if isinstance(event, control.ASK_EVENTS):
            control.update_ask_files(self.paths.asks, event)
            if isinstance(event, events.PermissionAsked):
                launch.notify_ask(self.context, event)
        if self.watched is None or event.message_id == self.watched:
            self.watcher(event)
        return event

    def is_last(self) -> bool:
        """Return whether no message waits, so that the agent is idle after the claimed one. Always False in a lane."""
        return self.paths.lane is None and self.queue.first("new") is None

    def has_lent_message(self) -> bool:
        """Return whether `recv` took the message of the open turn, and the message may still be answered."""
        turn = self.state.open_turn
        if turn is None or turn.lease_until is None or turn.finished or not turn.sent:
            return False
        return self.context.clock.now_ns() < recorded_ns(turn.lease_until)
