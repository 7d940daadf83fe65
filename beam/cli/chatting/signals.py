"""Signals that end a chat. While a turn runs, the turn's own handlers are there instead; `listen` comes after it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Inside its context, the first signal calls `end`; `came` has the numbers of all."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self.came: list[int] = []

    def listen(self) -> None:
        """Take signals again."""
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._take, int(number))

    def _take(self, number: int) -> None:
        self.came.append(number)
        self._end()

    def __enter__(self) -> None:
        self.listen()

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.remove_signal_handler(number)
