"""Events in the order of their times, delayed by a window that is too small to notice."""

from __future__ import annotations

from collections.abc import Iterable

from beam.model.events import Event

WINDOW_NS = 12_000_000


class ReorderBuffer:
    """Holds each event for a moment, so that an earlier event that was seen later comes first."""

    def __init__(self, window_ns: int = WINDOW_NS) -> None:
        self._window_ns = window_ns
        self._held: list[tuple[str, int, int, Event]] = []
        self._count = 0

    def ticket(self) -> int:
        """Return a place in the order of observations, for something that can't be read yet."""
        self._count += 1
        return self._count

    def push(self, events: Iterable[Event], now_ns: int, *, ticket: int | None = None) -> None:
        """Add events that were seen now, or when the ticket was issued."""
        for event in events:
            self._held.append((event.ts, self.ticket() if ticket is None else ticket, now_ns, event))

    def due(self, now_ns: int) -> list[Event]:
        """Return the events whose time has come, in order; all events before a returned one are returned with it."""
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
