"""Progress for a person who waits for a message.

Prints once which turn the message waits behind. On a terminal it also shows a status line, which is overwritten in
place and removed before anything else is printed. This module does not depend on how a journal is read or what an
outcome is.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from beam import durations
from beam.cli import streams
from beam.cli.render.text import ascii_only, collapse_to_line, truncate, write

if TYPE_CHECKING:
    from beam import Progress

SILENT_S = 3.0  # no status line is shown before this time, because most turns end sooner
_FIRST_S = 0.3
_TICK_S = 0.5
_JOIN_TIMEOUT_S = 1.0
_MAX_COLUMNS = 160  # columns of a line that stays
_CLEAR = "\r\x1b[K"


class LiveProgress:
    """Watches the running turn in a thread of its own, and shows its progress until `close` is called.

    `get_progress` is called again and again and returns the progress of the running turn. `tell` is called with a line
    that stays on the screen. `is_shown` is true if there is a terminal for a status line. `has_begun` is true once the
    message's own turn has begun. `is_held` is true while a printed line is unfinished or a permission request is open;
    no status line is shown then.
    """

    def __init__(
        self,
        message_id: str,
        get_progress: Callable[[], Progress | None],
        tell: Callable[[str], None],
        *,
        is_shown: bool,
    ) -> None:
        self.has_begun = False
        self.is_held = False
        self._message_id = message_id
        self._get_progress = get_progress
        self._tell = tell
        self._is_shown = is_shown
        self._began = time.monotonic()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._is_drawn = False
        self._has_named_turn = False
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)
        self._thread.start()

    def on_begun(self, message_id: str | None) -> None:
        """Record that the turn of the message with this id has begun. Ignore the turn of another message."""
        self.has_begun = self.has_begun or (message_id or "").endswith(self._message_id)

    def close(self) -> None:
        """Stop printing and remove the status line."""
        self._over.set()
        with self._lock:
            self._clear()
        self._thread.join(_JOIN_TIMEOUT_S)

    @contextlib.contextmanager
    def printing(self) -> Iterator[None]:
        """Remove the status line while something else is printed. The status line comes back later, unless `is_held` is
        true."""
        with self._lock:
            self._clear()
            yield

    def _run(self) -> None:
        pause = _FIRST_S
        while not self._over.wait(pause):
            pause = _TICK_S
            waited_s = time.monotonic() - self._began
            if not self._is_shown and (self._has_named_turn or self.has_begun):
                return
            if self.has_begun and waited_s < SILENT_S:
                continue
            now = self._get_progress()
            self.has_begun = self.has_begun or is_own_turn(self._message_id, now)
            with self._lock:
                if self._over.is_set():
                    return
                self._show(now, waited_s)

    def _show(self, now: Progress | None, waited_s: float) -> None:
        if self.is_held:
            return
        if now is not None and not self.has_begun and not self._has_named_turn:
            self._has_named_turn = True
            self._clear()
            self._tell(
                truncate(collapse_to_line(progress_line(self._message_id, now, waited_s=waited_s)), _MAX_COLUMNS)
            )
        if self._is_shown and waited_s >= SILENT_S:
            if now is None and self.has_begun:
                self._clear()  # the turn is over, or is about to be tried again
            else:
                self._draw(progress_line(self._message_id, now, waited_s=waited_s))

    def _draw(self, text: str) -> None:
        text = collapse_to_line(text)
        text = truncate(ascii_only(text) if streams.is_ascii(os.environ) else text, _width() - 1)
        with contextlib.suppress(OSError, ValueError):
            write(sys.stderr, _CLEAR + text)
            sys.stderr.flush()
            self._is_drawn = True

    def _clear(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            with contextlib.suppress(OSError, ValueError):
                write(sys.stderr, _CLEAR)
                sys.stderr.flush()


def is_own_turn(message_id: str, now: Progress | None) -> bool:
    """Return whether the running turn is the turn of this message. `message_id` is the message's id or the end of
    it."""
    return now is not None and now.message_id.endswith(message_id)


def progress_line(message_id: str, now: Progress | None, *, waited_s: float) -> str:
    """Return the text of the status line: the progress of the message's own turn, or of the turn it waits behind. If no
    turn runs, the text says how long the message has waited."""
    if now is None:
        return f"{message_id} waits, {durations.show(round(waited_s))}"
    from beam.cli.render import calls

    call = now.call
    tool = f"{call.name}: {calls.telling_input(call)}".removesuffix(": ") if call is not None else ""
    tokens = f"{now.tokens:,} tokens" if now.tokens else ""
    parts = [durations.show(round(now.seconds)), tool, tokens]
    if is_own_turn(message_id, now):
        return f"{now.message_id}: {', '.join(filter(None, parts))}"
    return f"behind {now.message_id} ({', '.join(filter(None, parts))})"


def _width() -> int:
    try:
        return max(20, os.get_terminal_size(2).columns)
    except OSError:
        return 80
