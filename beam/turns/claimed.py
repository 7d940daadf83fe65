"""Removes impossible figures from a turn's events, and reports each such figure once.

Does not depend on faces, or on what an agent is.
"""

from __future__ import annotations

from beam.model import events
from beam.model.claims import EVENTS_WITH_FIGURES, without_impossible_figures
from beam.model.events import Event
from beam.turns.request import Record


class FigureFilter:
    """Removes impossible figures from the events of one turn, for all its faces and decoders (a
    `pieces.EventChange`)."""

    types = EVENTS_WITH_FIGURES

    def __init__(self, record: Record) -> None:
        self._record = record
        self._reported: set[str] = set()

    def __call__(self, body: Event) -> Event:
        """Return the event without figures that are out of range.

        Record a notice when a figure of this name is out of range for the first time.
        """
        body, refused = without_impossible_figures(body)
        new = [name for name in refused if name not in self._reported]
        if new:
            self._reported.update(new)
            text = f"the agent's figures are out of range and not taken: {', '.join(new)}"
            self._record(events.Notice(code="figures", text=text))
        return body
