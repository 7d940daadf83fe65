"""Gathers pieces of text for the journal: fewer pieces, and no secret that is split between two."""

from __future__ import annotations

from beam.model.events import Event, Text, TextDelta
from beam.secrets.redact import Stream


class Deltas:
    """Gathers text deltas, per speaker, and gives them back joined when they are due.

    A possible beginning of a secret is held back until it is known to be harmless. `per_second` bounds how often `due`
    is true; `now` is a monotonic clock's seconds.
    """

    def __init__(self, per_second: int) -> None:
        self._interval = 1 / per_second
        self._last = 0.0
        self._streams: dict[str | None, Stream] = {}
        self._came: dict[str | None, list[str]] = {}

    def add(self, delta: TextDelta) -> None:
        """Add a piece of text, which the next `take` returns together with others.

        Some agents send a piece for each word.
        """
        self._came.setdefault(delta.parent, []).append(delta.text)

    def due_in(self, now: float) -> float | None:
        """Return the seconds until `take` should be called; None if no piece waits."""
        return max(0.0, self._last + self._interval - now) if self._came else None

    def take(self, now: float) -> list[TextDelta]:
        """Return the text that may be shown so far."""
        return self._take(now, ended=())

    def before(self, event: Event, now: float) -> list[TextDelta]:
        """Return the text that must come before this event: all that is ready, and before a finished text also what
        was held back."""
        return self._take(now, ended=(event.parent,) if isinstance(event, Text) else ())

    def end(self, now: float) -> list[TextDelta]:
        """Return everything that is left."""
        return self._take(now, ended=tuple({**self._streams, **self._came}))

    def _take(self, now: float, *, ended: tuple[str | None, ...]) -> list[TextDelta]:
        came, self._came = self._came, {}
        found = []
        for parent in {**came, **dict.fromkeys(ended)}:
            stream = self._streams.setdefault(parent, Stream())
            safe = stream.feed("".join(came.get(parent, ())))
            if parent in ended:
                safe += stream.end()
                del self._streams[parent]
            if safe:
                found.append(TextDelta(text=safe, parent=parent))
        if found:
            self._last = now
        return found
