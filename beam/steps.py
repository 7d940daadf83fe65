"""The type of what waits: a generator that yields how long to sleep (seconds) and returns the result.

Whoever drives it decides whether to sleep in a thread, in an event loop, or to come back later.
"""

from collections.abc import Generator
from typing import TypeVar

R = TypeVar("R")
Steps = Generator[float, None, R]
