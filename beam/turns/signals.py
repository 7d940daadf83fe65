"""Turns signals into requests to stop, while turns run."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from beam.turns.stop import Stop

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Callback = Callable[[signal.Signals], None]


class _SignalListener:
    """Passes signals to callbacks in the event loop.

    asyncio's own signal handlers lose a signal that comes after the loop's last pass and before the handler's removal.
    Here a signal is in `_pending` as soon as it comes, and `deliver` passes it on at the latest when a context ends.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.callbacks: list[Callback] = []
        self._loop = loop
        self._pending: deque[signal.Signals] = deque()
        self._handlers: dict[signal.Signals, Any] = {}  # the former handlers; None: not set in Python

    def start(self) -> None:
        """Handle the signals from now on, except those that are ignored."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._on_signal)
                signal.siginterrupt(number, False)

    def stop(self) -> None:
        """Restore the former handlers of the signals."""
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def deliver(self) -> None:
        """Call all callbacks with each signal that came and was not passed on yet."""
        while self._pending:
            number = self._pending.popleft()
            for callback in tuple(self.callbacks):
                callback(number)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._pending.append(signal.Signals(number))
        self._loop.call_soon_threadsafe(self.deliver)


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, _SignalListener] = WeakKeyDictionary()


@contextlib.contextmanager
def stop_on_signals(stop: Stop, *, by: str) -> Iterator[list[signal.Signals]]:
    """Ask the turn to stop at SIGINT, SIGTERM and SIGHUP, inside the context. A second signal stops it immediately.

    Yields a list, to which each signal that comes is added, also a signal that comes while the context ends. If several
    contexts share an event loop, each gets every signal. A signal that is ignored (nohup) stays ignored. Outside the
    main thread this does nothing.
    """
    loop = asyncio.get_running_loop()
    came: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        came.append(number)
        stop.request("interrupted", by=by)

    listener = _listeners.setdefault(loop, _SignalListener(loop))
    listener.callbacks.append(on_signal)
    if len(listener.callbacks) == 1:
        listener.start()
    try:
        yield came
    finally:
        if len(listener.callbacks) == 1:
            listener.stop()
            del _listeners[loop]
        listener.deliver()
        listener.callbacks.remove(on_signal)
