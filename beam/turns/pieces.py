"""Records a turn's events in order, after changing some of them, and removes secrets that span several pieces.

A piece is a finished part of an agent's thoughts, texts or tool output. A piece that may end in the middle of a secret
waits up to two seconds for the next piece. After that the beginning of the secret is recorded, and only the rest of it
is blanked. Does not depend on the meaning of a piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from beam.base.clock import Clock
from beam.model.events import Event, Text, Thinking, ToolProgress
from beam.secrets.redact import half_prefix_at_end, is_open, redact, redact_pieces
from beam.turns.request import Record

Piece = Text | Thinking | ToolProgress

_MAX_SECRET_CHARS = 20_000  # at the end of a piece: no secret that is known by its looks is longer
_PATIENCE_S = 2.0
_MAX_WAITING_CHARS = 64 * 1024


class EventChange(Protocol):
    """A function that returns the event to record in place of an event of its `types`. Never called with a piece."""

    @property
    def types(self) -> tuple[type[Event], ...]: ...

    def __call__(self, body: Event) -> Event: ...


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
