"""The interface between a running turn and its lease: requests to stop the turn, its handle for the lease, and the
services of the lease for it. Signals, timeouts and control requests ask a turn to stop.

Does not depend on queues, locks or faces.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Any, Literal
from weakref import WeakKeyDictionary

from msgspec import Struct

from beam.base.clock import Clock
from beam.turns.asks import AgentCalls, Asks
from beam.turns.process import ProcessKeeper
from beam.turns.request import Record

StopReason = Literal["timeout", "idle", "cancelled", "interrupted", "retries", "broken", "budget", "unmatched"]


class Stop:
    """A request to stop, which may come at any time. The first reason counts. A second request by a person or a signal
    means "immediately"."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.by: str | None = None
        self.why = ""  # which budget is used up, or which model call was not recorded
        self.hard = False
        self._wake = asyncio.Event()

    def request(self, reason: StopReason, *, by: str | None = None, why: str = "") -> None:
        """Ask the turn to end. A later call with the reason `interrupted` or `cancelled` ends it immediately."""
        if self.reason is None:
            self.reason, self.by, self.why = reason, by, why
        elif reason in ("interrupted", "cancelled"):
            self.hard = True
        self._wake.set()

    async def wait(self, timeout: float) -> None:
        """Wait for `timeout` seconds, or until a new request comes."""
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()


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


def stop_on_signals(stop: Stop, *, by: str) -> contextlib.AbstractContextManager[list[signal.Signals]]:
    """Ask the turn to stop at SIGINT, SIGTERM and SIGHUP, inside the context. A second signal stops it immediately. The
    rest is as in `on_stop_signals`."""
    return on_stop_signals(lambda: stop.request("interrupted", by=by))


@contextlib.contextmanager
def on_stop_signals(react: Callable[[], object]) -> Iterator[list[signal.Signals]]:
    """Call `react` at each SIGINT, SIGTERM and SIGHUP, inside the context.

    Yields a list, to which each signal that comes is added, also a signal that comes while the context ends. If several
    contexts share an event loop, each gets every signal. A signal that is ignored (nohup) stays ignored. Outside the
    main thread this does nothing.
    """
    loop = asyncio.get_running_loop()
    came: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        came.append(number)
        react()

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


async def _no_last_poll() -> None:
    """Do nothing, because there are no requests to handle at the end of the turn."""


class TurnServices(Struct, frozen=True, kw_only=True):
    """The services of a lease for its running turn. `record` writes the turn's events. `poll` handles control requests
    and the outbox: it is called ten times a second while the turn runs, and immediately when `news` is set. `poll_last`
    is called after the agent's end, before the turn's folders are removed and its outcome is recorded. `keeper` keeps
    the agent's process between turns."""

    record: Record
    clock: Clock
    poll: Callable[[], None]
    news: asyncio.Event | None = None
    poll_last: Callable[[], Awaitable[None]] = _no_last_poll
    keeper: ProcessKeeper | None = None


class TurnHandle(Struct, frozen=True, kw_only=True):
    """A running turn, for code that stops it, decides its asks, or forwards requests to its process."""

    stop: Stop
    asks: Asks
    calls: AgentCalls
