"""Records the events of a turn in order: joins pieces of text, tracks what is open, and changes an event before that if
it has an impossible figure or a part of a secret.

A piece is a finished part of an agent's thoughts, texts or tool output. A piece that may end in the middle of a secret
waits up to two seconds for the next piece. After that the beginning of the secret is recorded, and only the rest of it
is blanked. Does not depend on faces, or on the meaning of a piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from beam.base.clock import Clock
from beam.model import events
from beam.model.events import Event, Text, TextDelta, Thinking, ToolProgress
from beam.model.outcome import without_impossible_figures
from beam.secrets.redact import Stream, half_prefix_at_end, is_open, redact, redact_pieces
from beam.turns.request import Record

if TYPE_CHECKING:
    from beam.turns.images import ImageFiles


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
            case events.PermissionDecided():
                self.asks.discard(body.ask_id)
            case events.SessionLost():
                self.lost = True
            case events.SessionStarted():
                self.session_id = body.session_id
            case events.UsageSeen():
                self.used = body
            case events.StatusChanged(state="retrying", attempt=int(attempt)):
                self.attempt = attempt


class FigureFilter:
    """Removes impossible figures from the events of one turn, for all its faces and decoders (a
    `pieces.EventChange`)."""

    types = (events.UsageSeen, events.ContextUsed, events.TurnFinished, events.SessionIdle)

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


Piece = Text | Thinking | ToolProgress

_MAX_SECRET_CHARS = 20_000  # at the end of a piece: no secret that is known by its looks is longer
_PATIENCE_S = 2.0
_MAX_WAITING_CHARS = 64 * 1024


class EventChange(Protocol):
    """A function that returns the event to record in place of an event of its `types`. Never called with a piece."""

    @property
    def types(self) -> tuple[type[Event], ...]: ...

    def __call__(self, body: Event) -> Event: ...


class ImageChange:
    """Moves the images of one turn into files (an `EventChange`). What that needs is imported with the first image."""

    types = (events.ImageSeen, events.TurnFinished)

    def __init__(self, folder: Path, agent_dir: Path) -> None:
        self._places = folder, agent_dir
        self._files: ImageFiles | None = None

    def __call__(self, body: Event) -> Event:
        """Return the event as `ImageFiles` does."""
        if self._files is None:
            if not isinstance(body, events.ImageSeen):
                return body
            from beam.turns.images import ImageFiles

            self._files = ImageFiles(*self._places)
        return self._files(body)


class PieceRecorder:
    """Records events in order. Waiting pieces are recorded before any event that does not continue them."""

    def __init__(self, record: Record, clock: Clock, changes: Sequence[EventChange] = ()) -> None:
        self._record = record
        self._changes = changes
        self._clock = clock
        self._since = 0.0
        self._waiting: list[Piece] = []
        self._whose: tuple[object, ...] = ()
        self._before = ""  # the end of the last piece, if a secret may begin in it

    def __call__(self, body: Event, *, sync: bool = False) -> Event:
        """Record the event and return it as it was recorded. A piece may wait, and is returned unchanged."""
        if not isinstance(body, Piece):
            self._record_waiting()
            self._before = ""
            for change in self._changes:
                if isinstance(body, change.types):
                    body = change(body)
            return self._record(body, sync=sync)
        whose = type(body), body.parent, getattr(body, "call_id", None)
        if whose != self._whose:
            self._record_waiting()
            self._whose, self._before = whose, ""
        if not self._waiting:
            self._since = self._clock.monotonic()
        self._waiting.append(body)
        texts = [piece.text for piece in self._waiting]
        if is_open("".join(texts)[-_MAX_SECRET_CHARS:]) and sum(map(len, texts)) < _MAX_WAITING_CHARS:
            return body
        self._record_waiting()
        self._before = half_prefix_at_end(body.text)
        return body

    def record_overdue(self) -> None:
        """Record the pieces that have waited for too long. Must be called regularly."""
        if self._waiting and self._clock.monotonic() - self._since > _PATIENCE_S:
            whole = self._before + "".join(piece.text for piece in self._waiting)
            self._record_waiting()
            self._before = whole[-_MAX_SECRET_CHARS:]

    def _record_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        if not self._before and len(waiting) == 1:
            self._record(waiting[0])
            return
        pieces = [self._before, *(piece.text for piece in waiting)]
        blanked = redact_pieces(pieces, out=len(self._before))[1:]
        for piece, text in zip(waiting, blanked, strict=True):
            if text != redact(piece.text)[0]:  # the CLI's own line has the piece, too
                piece = msgspec.structs.replace(piece, text=text, raw=msgspec.UNSET)
            self._record(piece)
