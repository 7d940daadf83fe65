"""Joins pieces of text for the journal, so that there are fewer pieces, and no secret is split between two of them."""

from __future__ import annotations

from beam.model.events import Event, Text, TextDelta
from beam.secrets.redact import Stream


class Deltas:
    """Joins the text deltas of each speaker until they are due.

    A possible beginning of a secret is held back until it is known to be harmless. Text is due at most `per_second`
    times a second. `now` is the time of a monotonic clock in seconds.
    """

    def __init__(self, per_second: int) -> None:
        self._interval = 1 / per_second
        self._last = 0.0
        self._streams: dict[str | None, Stream] = {}
        self._pending: dict[str | None, list[str]] = {}

    def add(self, delta: TextDelta) -> None:
        """Add a piece of text, which the next `take_text` returns together with others.

        Some agents send a piece for each word.
        """
        self._pending.setdefault(delta.parent, []).append(delta.text)

    def due_in(self, now: float) -> float | None:
        """Return the seconds until `take_text` should be called; None if no piece waits."""
        return max(0.0, self._last + self._interval - now) if self._pending else None

    def take_text(self, now: float) -> list[TextDelta]:
        """Return the joined text so far, without text that is held back."""
        return self._take(now, ended=())

    def take_before(self, event: Event, now: float) -> list[TextDelta]:
        """Return the deltas that must be recorded before this event: all text that is not held back.

        Before a speaker's finished text, that speaker's held-back text is returned, too.
        """
        return self._take(now, ended=(event.parent,) if isinstance(event, Text) else ())

    def end(self, now: float) -> list[TextDelta]:
        """Return all the remaining text, including text that was held back."""
        return self._take(now, ended=tuple({**self._streams, **self._pending}))

    def _take(self, now: float, *, ended: tuple[str | None, ...]) -> list[TextDelta]:
        came, self._pending = self._pending, {}
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
