"""The type of a computation that waits: a generator that yields how long to sleep (seconds) and returns the result.

The code that runs the generator decides whether to sleep in a thread, to sleep in an event loop, or to come back later.
"""

import time
from collections.abc import Generator
from typing import TypeVar

from beam.base import own_program

R = TypeVar("R")
Steps = Generator[float, None, R]


def run_blocking(steps: Steps[R]) -> R:
    """Run the generator to its end in this thread, with blocking sleeps, and return its result."""
    while True:
        try:
            pause = next(steps)
        except StopIteration as done:
            result: R = done.value
            return result
        own_program.wait_until_held()
        time.sleep(pause)


async def run_async(steps: Steps[R]) -> R:
    """Run the generator to its end in an event loop and return its result."""
    import asyncio

    while True:
        try:
            pause = next(steps)
        except StopIteration as done:
            result: R = done.value
            return result
        own_program.wait_until_held()
        await asyncio.sleep(pause)
