"""Pieces of text on their way into the journal: fewer, and with no secret cut in two between them."""

from __future__ import annotations

from beam.model.events import Event, Text, TextDelta
from beam.secrets.redact import Stream


class Deltas:
    """Gathers text deltas, per speaker, and gives them back joined when they are due.

    What might be the beginning of a secret is held back until it is known to be none. `per_second` bounds how often
    `due` is true; `now` is a monotonic clock's seconds.
    """

    def __init__(self, per_second: int) -> None:
        self._interval = 1 / per_second
        self._last = 0.0
        self._streams: dict[str | None, Stream] = {}
        self._came: dict[str | None, list[str]] = {}

    def add(self, delta: TextDelta) -> None:
        """Take a piece of text, to be shown together with others by the next `take`.

        Some agents send a piece for each word.
        """
        self._came.setdefault(delta.parent, []).append(delta.text)

    def due_in(self, now: float) -> float | None:
        """Return the seconds until `take` should be called; None if no piece waits."""
        return max(0.0, self._last + self._interval - now) if self._came else None

    def take(self, now: float) -> list[TextDelta]:
        """Return what may be shown so far."""
        return self._take(now, ended=())

    def before(self, event: Event, now: float) -> list[TextDelta]:
        """Return what must be shown before this event: all that is ready.

        Before a finished text also what was held back.
        """
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
