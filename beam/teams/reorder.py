"""Puts events into the order of their times by holding each event for 12 ms."""

from __future__ import annotations

from collections.abc import Iterable

from beam.model.events import Event

WINDOW_NS = 12_000_000


class ReorderBuffer:
    """Holds each event for `window_ns`, so that an event that happened earlier but was seen later can be returned
    before it."""

    def __init__(self, window_ns: int = WINDOW_NS) -> None:
        self._window_ns = window_ns
        self._held: list[tuple[str, int, int, Event]] = []
        self._count = 0

    def ticket(self) -> int:
        """Return a position in the order of observations, reserved for a file that can't be read yet."""
        self._count += 1
        return self._count

    def push(self, events: Iterable[Event], now_ns: int, *, ticket: int | None = None) -> None:
        """Add events. Events with equal times are returned in the order in which they were seen: now or, with `ticket`,
        when the ticket was issued."""
        for event in events:
            self._held.append((event.ts, self.ticket() if ticket is None else ticket, now_ns, event))

    def due(self, now_ns: int) -> list[Event]:
        """Return, in order, the events that were held for the whole window, and all events that come before one of
        them."""
        if not self._held:
            return []
        last = max(((one[0], one[1]) for one in self._held if now_ns - one[2] >= self._window_ns), default=None)
        if last is None:
            return []
        self._held.sort(key=lambda one: (one[0], one[1]))
        out = [one[3] for one in self._held if (one[0], one[1]) <= last]
        del self._held[: len(out)]
        return out

    def all(self) -> list[Event]:
        """Return all held events, in order."""
        self._held.sort(key=lambda one: (one[0], one[1]))
        out = [one[3] for one in self._held]
        self._held.clear()
        return out

    @property
    def is_holding(self) -> bool:
        """Return whether any event is held."""
        return bool(self._held)
