"""Turns signals into requests to stop, while turns run."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

from beam.turns.stop import Stop

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Callback = Callable[[signal.Signals], None]
_callbacks: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Callback]] = WeakKeyDictionary()


@contextlib.contextmanager
def stopping(stop: Stop, *, by: str) -> Iterator[list[signal.Signals]]:
    """Ask the turn to stop at SIGINT, SIGTERM and SIGHUP, inside the context. A second signal stops it immediately.

    Yields a list, to which each signal that comes is added. If several contexts share an event loop, each gets every
    signal. A signal that is ignored (nohup) stays ignored. Outside the main thread this does nothing.
    """
    loop = asyncio.get_running_loop()
    came: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        came.append(number)
        stop.ask("interrupted", by=by)

    callbacks = _callbacks.setdefault(loop, [])
    callbacks.append(on_signal)
    if len(callbacks) == 1:
        _listen(loop, callbacks)
    try:
        yield came
    finally:
        callbacks.remove(on_signal)
        if not callbacks:
            del _callbacks[loop]
            for number in STOPPING:
                loop.remove_signal_handler(number)


def _listen(loop: asyncio.AbstractEventLoop, callbacks: list[Callback]) -> None:
    """Call all callbacks in the list at each signal that asks for a stop."""

    def pass_on(number: signal.Signals) -> None:
        for on_signal in tuple(callbacks):
            on_signal(number)

    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, pass_on, number)
        except (ValueError, RuntimeError):
            break
