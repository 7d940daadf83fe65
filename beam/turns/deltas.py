"""Pieces of text on their way into the journal: fewer, and with no secret cut in two between them."""

from __future__ import annotations

from beam.events import Event, Text, TextDelta
from beam.redact import Stream


class Deltas:
    """Gathers text deltas, per speaker, and gives them back joined when they are due.

    What might be the beginning of a secret is held back until it is known to be none. `per_second` bounds how often
    `due` is true; `now` is a monotonic clock's seconds.
    """

    def __init__(self, per_second: int) -> None:
        self._interval = 1 / per_second
        self._last = 0.0
        self._streams: dict[str | None, Stream] = {}
        self._ready: dict[str | None, str] = {}

    def add(self, delta: TextDelta) -> None:
        """Takes a piece."""
        stream = self._streams.setdefault(delta.parent, Stream())
        safe = stream.feed(delta.text)
        if safe:
            self._ready[delta.parent] = self._ready.get(delta.parent, "") + safe

    def due_in(self, now: float) -> float | None:
        """Seconds until `take` should be called; None while there is nothing to take."""
        return max(0.0, self._last + self._interval - now) if self._ready else None

    def take(self, now: float) -> list[TextDelta]:
        """What may be shown so far."""
        if not self._ready:
            return []
        self._last = now
        ready, self._ready = self._ready, {}
        return [TextDelta(text=text, parent=parent) for parent, text in ready.items()]

    def before(self, event: Event, now: float) -> list[TextDelta]:
        """What must be shown before this event: all that is ready, and at a finished text what was held back, too."""
        if isinstance(event, Text):
            self._finish(event.parent)
        return self.take(now)

    def end(self, now: float) -> list[TextDelta]:
        """Everything that is left."""
        for parent in list(self._streams):
            self._finish(parent)
        return self.take(now)

    def _finish(self, parent: str | None) -> None:
        stream = self._streams.pop(parent, None)
        rest = stream.end() if stream is not None else ""
        if rest:
            self._ready[parent] = self._ready.get(parent, "") + rest
