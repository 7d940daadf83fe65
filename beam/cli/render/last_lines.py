"""The last lines of a stream of lines (`beam log -n N`)."""

from __future__ import annotations

from collections import deque
from typing import TextIO

from beam import since
from beam.cli.render.days import Days
from beam.cli.render.text import write


class LastLines(Days):
    """A text stream that keeps the last `count` texts written to it, until `print` writes them to `stream`; what is
    written after that goes to `stream` at once. Each written text is one line; `position` is the index of the event
    that it is about.

    Which lines need a date is known only when they are printed, so until then `heading` records the time of the next
    line.
    """

    def __init__(self, stream: TextIO, count: int) -> None:
        super().__init__(since(0))
        self.position = 0
        self._stream = stream
        self._lines: deque[tuple[int, str, str]] = deque(maxlen=count)
        self._is_printed = False
        self._ts = ""
        self.encoding = stream.encoding

    @property
    def first_position(self) -> int:
        """Return the index of the event of the first kept line."""
        return self._lines[0][0] if self._lines else self.position + 1

    @property
    def is_full(self) -> bool:
        """Return whether as many lines were written as are kept."""
        return len(self._lines) == self._lines.maxlen

    def heading(self, ts: str) -> str:
        """Record the time of the next line, and return ""; after `print`, do what `Days` does."""
        if self._is_printed:
            return super().heading(ts)
        self._ts = ts
        return ""

    def write(self, text: str) -> int:
        if self._is_printed:
            return self._stream.write(text)
        self._lines.append((self.position, self._ts, text))
        return len(text)

    def fileno(self) -> int:
        return self._stream.fileno()

    def flush(self) -> None:
        """Flush what was printed."""
        if self._is_printed:
            self._stream.flush()

    def print(self) -> None:
        """Print the kept lines, with a date where the day changes."""
        self._is_printed = True
        for _, ts, text in self._lines:
            if heading := self.heading(ts):
                write(self._stream, f"{heading}\n")
            self._stream.write(text)
        self._lines.clear()
