"""Turns signals into requests to stop, while a turn runs."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

from beam.turns.stop import Stop

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def stopping(stop: Stop, *, by: str) -> Iterator[list[signal.Signals]]:
    """Ask the turn to stop at INT, TERM and HUP, inside the context; a second signal stops it immediately.

    Yields the list of the signals that came. A signal that is ignored (nohup) stays ignored. Outside the main
    thread nothing is done.
    """
    loop = asyncio.get_running_loop()
    came: list[signal.Signals] = []

    def wish(number: signal.Signals) -> None:
        came.append(number)
        stop.ask("interrupted", by=by)

    set_here: list[signal.Signals] = []
    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, wish, number)
        except (ValueError, RuntimeError):
            break
        set_here.append(number)
    try:
        yield came
    finally:
        for number in set_here:
            loop.remove_signal_handler(number)
