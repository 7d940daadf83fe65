"""Records one exchange while the proxy passes it on: the request before it is sent, the answer as it arrives, and the
answer's token counts.

Does not depend on sockets.
"""

from __future__ import annotations

import re

from beam.proxy import private
from beam.proxy.budget import AnswerMeter
from beam.proxy.private import Blanker
from beam.proxy.recording import AnswerFile, AnswerLine, Recorder, RequestLine
from beam.proxy.wire.dialects import Dialect

# Only an event with one of these has token counts or says how the model ended; the other events are not parsed.
_TOLD = re.compile(rb'usage|"(?:stop_reason|finish_reason|finishReason|blockReason)"\s*:\s*"')


class ExchangeRecorder:
    """Stores one exchange while the proxy passes it on, and counts its tokens. Stores nothing without a recorder."""

    def __init__(self, recorder: Recorder | None, request: RequestLine, blanker: Blanker) -> None:
        """Store the request. Raises DiskError."""
        self._recorder = recorder
        self._blanker = blanker
        self._file: AnswerFile | None = None
        self._name = ""
        self._rest = bytearray()
        self._events: list[bytes] = []
        self._dialect: Dialect | None = None
        self._meter: AnswerMeter | None = None
        self._is_stream = False
        self.number = None if recorder is None else recorder.begin(request)

    def begin(self, suffix: str, dialect: Dialect, meter: AnswerMeter) -> None:
        """Begin the answer, and create its file with that suffix. `dialect` and `meter` count the answer's tokens."""
        self._dialect, self._meter, self._is_stream = dialect, meter, suffix == "sse"
        if self._recorder is not None and self.number is not None:
            self._file = self._recorder.answer(self.number, suffix)
            self._name = self._file.path.name

    def add(self, data: bytes) -> None:
        """Add a piece of the answer. An event of a stream is stored as soon as it is complete."""
        if not self._is_stream:
            self._rest += data
            return
        begin = max(0, len(self._rest) - 3)
        self._rest += data
        while (stop := _end_of_event(self._rest, begin)) > 0:
            event = bytes(self._rest[:stop])
            del self._rest[:stop]
            begin = 0
            self._event(event)

    def _event(self, event: bytes) -> None:
        if self._meter is not None and self._dialect is not None:
            value = private.split_event(event)[1] if _TOLD.search(event) else None
            self._count(value, len(event))
        if self._file is not None:
            self._events.append(self._blanker.event(event))
            self._file.add(self._events[-1])

    def _count(self, value: object, size: int) -> None:
        assert self._meter is not None and self._dialect is not None
        if isinstance(value, dict):
            self._meter.add(self._dialect.used(value), size, self._dialect.stopped(value))
        else:
            self._meter.add(None, size)

    def flush(self) -> None:
        """Store an incomplete last event of a stream; count the tokens of an answer that is not a stream."""
        if self._is_stream and self._rest:
            self._event(bytes(self._rest))
        elif self._meter is not None and self._dialect is not None and not self._is_stream:
            self._count(private.json_of(bytes(self._rest)), len(self._rest))

    def end(self, line: AnswerLine) -> None:
        """Store how the answer ended."""
        if self._recorder is None or self.number is None:
            return
        if self._file is not None and self._is_stream:
            again = self._blanker.without_split_secrets(self._events)
            self._file.close(None if again is None else b"".join(again))
        elif self._file is not None:
            self._file.add(self._blanker.body(bytes(self._rest)))
            self._file.close()
        self._recorder.end(
            AnswerLine(
                n=self.number,
                status=line.status,
                headers=line.headers,
                file=self._name,
                end=line.end,
                error=self._blanker.text(line.error),
                usage=line.usage,
            )
        )


def _end_of_event(data: bytearray, begin: int) -> int:
    """Return the index at which the first event ends, after its blank line; 0 if no event is complete. The search
    starts at `begin`."""
    ends = [at + len(mark) for mark in (b"\n\n", b"\r\n\r\n") if (at := data.find(mark, begin)) >= 0]
    return min(ends, default=0)
