"""Reports the progress of a message that somebody waits for: the running turn, its duration, its current tool call, and
its usage so far.

Reads the journal as it grows. Does not depend on which process runs the turn, or on how progress is displayed.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from beam.base import files
from beam.base.clock import Clock, recorded_ns
from beam.base.errors import BeamError
from beam.model import events
from beam.model.events import AnyEvent
from beam.model.state import State, apply
from beam.root.paths import AgentPaths
from beam.store.reader import Reader
from beam.store.segment import Segment, segments


class Progress(Struct, frozen=True, kw_only=True):
    """The running turn: its message (`message_id`), its duration (`seconds`), its open tool call (null if there is
    none), and its tokens so far (null if its agent does not report them)."""

    message_id: str
    seconds: float
    call: events.ToolCalled | None = None
    tokens: int | None = None


class QueueProgress:
    """Watches the turns in the queue in which a message waits. `where` returns the paths of the queue's agent; it is
    called at the first `look`."""

    def __init__(self, where: Callable[[], AgentPaths], clock: Clock) -> None:
        self._where = where
        self._clock = clock
        self._reader: Reader | None = None
        self._state = State()
        self._calls: dict[str, events.ToolCalled] = {}
        self._tokens: int | None = None

    def look(self) -> Progress | None:
        """Return the progress of the running turn; None if no turn runs, or if the journal can't be read."""
        try:
            for event in self._read():
                self._record_event(event)
        except (BeamError, FileNotFoundError):
            return None
        turn = self._state.open_turn
        if turn is None or turn.finished or turn.message_id is None:
            return None
        took_ns = self._clock.now_ns() - recorded_ns(turn.started_at)
        call = next(reversed(self._calls.values()), None)
        return Progress(message_id=turn.message_id, seconds=max(0.0, took_ns / 1e9), call=call, tokens=self._tokens)

    def _read(self) -> list[AnyEvent]:
        if self._reader is not None:
            return self._reader.poll()
        directory = self._where().journal
        found: list[AnyEvent] = []
        if names := segments(directory):  # a turn is complete in one segment: a new segment begins only between turns
            with files.disk_action("read", directory):
                segment = Segment.read(directory / names[-1])
            self._state, found = segment.state, segment.events
        self._reader = Reader(directory, found[-1].seq if found else self._state.seq)
        return found

    def _record_event(self, event: AnyEvent) -> None:
        apply(self._state, event)
        match event:
            case events.TurnStarted() | events.TurnFinished():
                self._calls.clear()
                self._tokens = None
            case events.ToolCalled():
                self._calls[event.call_id] = event
            case events.ToolReturned():
                self._calls.pop(event.call_id, None)
            case events.UsageSeen():
                known = (event.usage.input_tokens, event.usage.output_tokens)
                self._tokens = None if known == (None, None) else sum(count or 0 for count in known)
