"""Turns signals into requests to stop, while turns run."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

from beam.turns.stop import Stop

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Wish = Callable[[signal.Signals], None]
_wishes: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Wish]] = WeakKeyDictionary()


@contextlib.contextmanager
def stopping(stop: Stop, *, by: str) -> Iterator[list[signal.Signals]]:
    """Ask the turn to stop at INT, TERM and HUP, inside the context; a second signal stops it immediately.

    Yields the list of the signals that came. Several contexts of one event loop all get each signal. A signal that is
    ignored (nohup) stays ignored. Outside the main thread nothing is done.
    """
    loop = asyncio.get_running_loop()
    came: list[signal.Signals] = []

    def wish(number: signal.Signals) -> None:
        came.append(number)
        stop.ask("interrupted", by=by)

    wishes = _wishes.setdefault(loop, [])
    wishes.append(wish)
    if len(wishes) == 1:
        _listen(loop, wishes)
    try:
        yield came
    finally:
        wishes.remove(wish)
        if not wishes:
            del _wishes[loop]
            for number in STOPPING:
                loop.remove_signal_handler(number)


def _listen(loop: asyncio.AbstractEventLoop, wishes: list[Wish]) -> None:
    """Call all callbacks in `wishes` at each signal that asks for a stop."""

    def pass_on(number: signal.Signals) -> None:
        for wish in tuple(wishes):
            wish(number)

    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, pass_on, number)
        except (ValueError, RuntimeError):
            break
