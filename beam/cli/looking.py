"""The user's own terminal while it shows an agent's screen. The terminal is in raw mode meanwhile, and its settings are
always restored at the end.

This module neither makes the pictures of the agent's screen nor draws them.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from beam import SignalledError
from beam.cli.render.screen import ENTER_SCREEN, LEAVE_SCREEN, Mirror

if TYPE_CHECKING:
    from beam import Attached

_PREFIX_KEY = b"\x1c"  # ^\
_ARROWS = {b"A": (-1, 0), b"B": (1, 0), b"C": (0, 1), b"D": (0, -1)}
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class KeyParser:
    """Parses the bytes that the user types: keys for the agent, the command to detach (`detached`), and moves of the
    view (`moves`, as rows and columns)."""

    def __init__(self) -> None:
        self.detached = False
        self.moves: list[tuple[int, int]] = []
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that are for the agent. After a `^\\`, the next key decides what the `^\\` means."""
        data, self._held = self._held + data, b""
        out = b""
        while data:
            before, prefix, after = data.partition(_PREFIX_KEY)
            out += before
            if not prefix:
                break
            if after.startswith(_PREFIX_KEY):
                self.detached = True
                break
            arrow = after[:3]
            if len(arrow) < 3 and (not arrow or arrow in (b"\x1b", b"\x1b[", b"\x1bO")):
                self._held = prefix + after
                break
            if arrow[:2] in (b"\x1b[", b"\x1bO") and arrow[2:] in _ARROWS:
                self.moves.append(_ARROWS[arrow[2:]])
                data = after[3:]
                continue
            out += prefix
            data = after
        return out


class ScreenViewer:
    """The user's terminal behind stdin and stdout, which is in raw mode and shows the agent's screen. Use it as a
    context manager."""

    def __init__(self, attached: Attached, *, true_colour: bool) -> None:
        self._attached = attached
        self._mirror = Mirror(attached.agent, true_colour=true_colour)
        self._keys = KeyParser()
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._wakeup, self._sink = os.pipe()
        self._came: int | None = None

    def __enter__(self) -> ScreenViewer:
        sys.stdout.flush()
        self._before = termios.tcgetattr(self._input)
        for end in (self._wakeup, self._sink):
            os.set_blocking(end, False)
        self._handlers = {
            number: signal.signal(number, self._on_signal) for number in (*_ENDING_SIGNALS, signal.SIGWINCH)
        }
        self._wakeup_before = signal.set_wakeup_fd(self._sink, warn_on_full_buffer=False)
        tty.setraw(self._input)
        self._write(ENTER_SCREEN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, termios.error):  # the terminal itself may be gone
            self._write(LEAVE_SCREEN)
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self._input, termios.TCSAFLUSH, self._before)
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._wakeup)
        os.close(self._sink)
        self._attached.close()

    def run(self) -> str | None:
        """Show the agent's screen and pass on keys, until the user detaches or the agent's terminal is gone.

        Return None if the user detached, else the reason why the terminal is gone. Raises SignalledError after SIGINT,
        SIGTERM or SIGHUP.
        """
        drawn: tuple[object, object] = (None, None)
        while True:
            size = os.get_terminal_size(self._output)
            if self._attached.why is not None:
                return self._attached.why
            now = (self._attached.picture, size)
            if now != drawn or self._keys.moves:
                for rows, columns in self._keys.moves:
                    self._mirror.move(rows, columns)
                self._keys.moves.clear()
                drawn = now
                self._write(self._mirror.draw(self._attached.picture, size.columns, size.lines))
            self._wait()
            if self._came is not None:
                raise SignalledError(self._came)
            if self._keys.detached:
                return None

    def _wait(self) -> None:
        writing = [self._attached] if self._attached.has_keys else []
        ready, writable, _ = select.select([self._input, self._attached, self._wakeup], writing, [])
        if self._wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup, 4096)
        if self._attached in ready:
            self._attached.look()
        if writable:
            self._attached.send()
        if self._input in ready:
            data = os.read(self._input, 65536)
            if not data:
                self._keys.detached = True  # nobody types any more
            self._send_keys(self._keys.feed(data))

    def _send_keys(self, keys: bytes) -> None:
        if not keys:
            return
        self._mirror.follow()
        if not self._attached.press(keys):
            self._write("\a")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGWINCH:
            self._came = number

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self._output, data) :]
