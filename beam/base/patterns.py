"""Checks a person's regular expressions: they must compile, and must not take long on any screen.

Python's regular expressions have no time limit. So each pattern is tried on rows of increasing length that are hard for
it, and is refused as soon as one search takes too long. For a text of any size, `time_limit` ends the search by a
signal.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

MAX_SECONDS = 0.05  # of CPU, for one search in one hard text
LONGEST = 1000
_LONGEST_WAIT_S = 5.0  # for one search, on a machine with much else to do
_TRIES = 3
_ROW, _SCREEN = 240, 8000  # characters
_LITERALS = 12
_GROWTH = 4


def find_problem(text: str, *, whole_screen: bool) -> str:
    """Return a text that says what is wrong with the pattern; "" if nothing is wrong.

    `whole_screen`: the pattern is searched in many rows at a time.
    """
    if len(text) > LONGEST:
        return f"longer than {LONGEST} characters"
    try:
        compiled = re.compile(text, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}"
    sizes = [*range(8, 40, _GROWTH), *range(40, _ROW, 40), _ROW]
    if whole_screen:
        sizes += [1000, 2000, 4000, _SCREEN]
    for seed in _seeds(text):
        for size in sizes:
            hard = (seed * size)[:size]
            if _takes_long(compiled, "\n".join(hard[at : at + _ROW] for at in range(0, size, _ROW)) + "\0"):
                return f"it takes too long on {size} characters that nearly match; repeat less within what is repeated"
    return ""


def _takes_long(compiled: re.Pattern[str], text: str) -> bool:
    """Return whether each of three searches takes longer than MAX_SECONDS of CPU time.

    One search is no proof: a virtual machine may count the time in which its host ran something else. Its CPU clock may
    also stand still, so an alarm ends a search as well. An alarm without CPU time may only mean that this process was
    stopped.
    """
    for _ in range(_TRIES):
        began = time.process_time()
        is_ended = True
        with contextlib.suppress(TimeoutError), time_limit(_LONGEST_WAIT_S):
            compiled.search(text)
            is_ended = False
        is_slow = time.process_time() - began > MAX_SECONDS
        if is_slow and is_ended:
            return True
        if not is_slow and not is_ended:
            return False
    return True


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block once the block takes longer than `seconds`, even in the middle of one search.

    Outside of the main thread there is no limit, because Python handles signals only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def count_groups(text: str) -> int:
    """Return the number of groups in a valid pattern."""
    return re.compile(text).groups


def _seeds(text: str) -> list[str]:
    """Return texts that make hard rows when they are repeated: the pattern's own characters, and common ones."""
    plain = re.sub(r"\(\?(?:[:=!]|<[=!]|P?<\w+>)|\\.|\[[^\]]*\]|[(){}|^$.*+?\\]", "", text)
    literals = list(dict.fromkeys(plain))[:_LITERALS]
    return [seed for seed in dict.fromkeys((" ", "a", "1", "─", plain, plain[:-1], *literals)) if seed]
