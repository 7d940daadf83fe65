"""Passes the events of one process of a turn to the journal.

Gathers text deltas, and tracks open tool calls, requests and retries. Does not depend on the face.
"""

from __future__ import annotations

from collections.abc import Iterable

from beam.base.clock import Clock
from beam.model import events
from beam.model.events import Event
from beam.turns.deltas import Deltas
from beam.turns.request import Record


class Bookkeeping:
    """Records the events of one process of a turn, and keeps what they report.

    `lost`: the process reported that its session is gone. `session_id` is the session that it opened or continued, None
    before that. `used` is its latest report of the turn's usage, None before the first. `retrying`: its latest output
    only reports that the model does not answer. `attempt` is the number of the latest retry, None before the first.
    """

    def __init__(self, record: Record, clock: Clock, deltas_per_second: int) -> None:
        self.lost = False
        self.session_id: str | None = None
        self.used: events.UsageSeen | None = None
        self.retrying = False
        self.attempt: int | None = None
        self.tools: dict[str, str | None] = {}  # call ids that did not return yet, with their parents
        self.asks: set[str] = set()  # ids of open requests that the process itself reported
        self._record = record
        self._clock = clock
        self._deltas = Deltas(deltas_per_second)

    def record(self, body: Event, *, sync: bool = False) -> Event:
        """Write the event after all text deltas that came before it, and return it as it was written.

        A text delta is returned unchanged, and is written when it is due.
        """
        self.retrying = isinstance(body, events.StatusChanged) and body.state == "retrying"
        if isinstance(body, events.TextDelta):
            self._deltas.add(body)
            return body
        self._write(self._deltas.take_before(body, self._clock.monotonic()))
        self._remember(body)
        return self._record(body, sync=sync)

    def due_in(self) -> float | None:
        """Return the seconds until `flush` should be called; None if no delta waits."""
        return self._deltas.due_in(self._clock.monotonic())

    def flush(self, *, all: bool = False) -> None:
        """Write the waiting deltas if they are due; with `all`, write them in any case."""
        now = self._clock.monotonic()
        due = self._deltas.due_in(now)
        if due is not None and (all or due <= 0):
            self._write(self._deltas.take_text(now))

    def end(self, *, close_tools: bool) -> None:
        """Write the remaining deltas; with `close_tools` also record that the open tool calls did not finish."""
        self._write(self._deltas.end(self._clock.monotonic()))
        if close_tools:
            for call_id, parent in self.tools.items():
                self._record(events.ToolReturned(call_id=call_id, unfinished=True, parent=parent))
            self.tools.clear()

    def _write(self, deltas: Iterable[Event]) -> None:
        for delta in deltas:
            self._record(delta)

    def _remember(self, body: Event) -> None:
        match body:
            case events.ToolCalled():
                self.tools[body.call_id] = body.parent
            case events.ToolReturned():
                self.tools.pop(body.call_id, None)
            case events.PermissionAsked():
                self.asks.add(body.ask_id)
            case events.PermissionDecided() | events.PermissionCancelled():
                self.asks.discard(body.ask_id)
            case events.SessionLost():
                self.lost = True
            case events.SessionStarted() | events.SessionResumed():
                self.session_id = body.session_id
            case events.UsageSeen():
                self.used = body
            case events.StatusChanged(state="retrying", attempt=int(attempt)):
                self.attempt = attempt
