"""Makes an iterator of the events of running work, such as a turn: for a `for` loop, or for an `async for` in an event
loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from beam.api.methods import refuse_in_loop
from beam.base import files
from beam.base.errors import UsageError
from beam.model.events import Event

if TYPE_CHECKING:
    import asyncio

R = TypeVar("R")
EventCallback = Callable[[Event], None]


class Stream(Generic[R]):
    """An iterator over events as they come. It can be used once. After the last event, `result` is the result of the
    work.

    In a `for` loop, the turn pauses while the loop's body runs. Leaving the loop early ends the turn. An `async for`
    ends it immediately only inside `async with contextlib.aclosing(...)`.
    """

    def __init__(
        self, work: Callable[[EventCallback], Coroutine[Any, Any, R]], stop: Callable[[], Coroutine[Any, Any, None]]
    ):
        self._work = work
        self._stop = stop
        self._task: asyncio.Task[R] | None = None

    @property
    def result(self) -> R:
        """Return the result of the work. Raises UsageError if the work is not over."""
        if self._task is None or not self._task.done():
            raise UsageError("the stream is not over", "take all its events first")
        return self._task.result()

    def __iter__(self) -> Iterator[Event]:
        import asyncio

        refuse_in_loop("a `for` loop over events blocks", "take `async for`")
        files.check_descriptors(files.TURN_DESCRIPTORS)
        with asyncio.Runner() as runner:
            feed = self._feed()

            async def following() -> Event | None:
                return await anext(feed, None)

            async def close() -> None:
                await feed.aclose()

            try:
                while (event := runner.run(following())) is not None:
                    yield event
            finally:
                runner.run(close())

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._feed()

    async def _feed(self) -> AsyncGenerator[Event, None]:
        import asyncio

        if self._task is not None:
            raise UsageError("this stream was read before", "begin another one")
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        task = self._task = asyncio.ensure_future(self._work(queue.put_nowait))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            task.result()
        finally:
            if not task.done():
                await self._stop()
                await asyncio.wait([task])
