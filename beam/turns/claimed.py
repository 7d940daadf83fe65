"""Records a turn's events without the figures that its agent can't have used, and says so once.

Does not depend on faces, or on what an agent is.
"""

from __future__ import annotations

from beam.model import events
from beam.model.claims import taken
from beam.model.events import Event
from beam.turns.request import Record


class Claims:
    """A function that records events, for all faces and decoders of one turn."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._told: set[str] = set()

    def __call__(self, body: Event, *, sync: bool = False) -> Event:
        """Return the event as it was recorded."""
        body, refused = taken(body)
        new = [name for name in refused if name not in self._told]
        if new:
            self._told.update(new)
            text = f"the agent's figures are out of range and not taken: {', '.join(new)}"
            self._record(events.Notice(code="figures", text=text))
        return self._record(body, sync=sync)
