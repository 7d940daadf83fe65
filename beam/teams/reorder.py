"""Events in the order of their times, with a window small enough not to be felt."""

from __future__ import annotations

from collections.abc import Iterable

from beam.model.events import Event

WINDOW_NS = 12_000_000


class ReorderBuffer:
    """Holds each event for a moment, so that one that happened before it and was seen after it goes first."""

    def __init__(self, window_ns: int = WINDOW_NS) -> None:
        self._window_ns = window_ns
        self._held: list[tuple[str, int, int, Event]] = []
        self._count = 0

    def ticket(self) -> int:
        """A place in the order in which things are seen, for what can't be read yet."""
        self._count += 1
        return self._count

    def push(self, events: Iterable[Event], now_ns: int, *, ticket: int | None = None) -> None:
        """Takes in events that were seen now, or when the ticket was given."""
        for event in events:
            self._held.append((event.ts, self.ticket() if ticket is None else ticket, now_ns, event))

    def due(self, now_ns: int) -> list[Event]:
        """The events whose time has come, in order; one held event makes those that were before it go too."""
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
        """Everything that is held, in order."""
        self._held.sort(key=lambda one: (one[0], one[1]))
        out = [one[3] for one in self._held]
        self._held.clear()
        return out

    @property
    def is_holding(self) -> bool:
        """Whether anything waits for its time."""
        return bool(self._held)
