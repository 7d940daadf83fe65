"""One implementation, two ways to call it: `beam.send(...)`, and `await beam.send.aio(...)` in a running event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from beam.base import files
from beam.base.steps import R, Steps, finished, sleeping

P = ParamSpec("P")
S = TypeVar("S")


class Bound(Generic[P, R]):
    """A verb of one object; calling it blocks, `aio` does not."""

    def __init__(self, call: Callable[P, R], aio: Callable[P, Coroutine[Any, Any, R]]) -> None:
        self._call = call
        self.aio = aio

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(*args, **kwargs)


class coroutine_verb(Generic[S, P, R]):
    """Makes a verb of a coroutine method; the blocking call runs an event loop of its own."""

    def __init__(self, function: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[S]) -> coroutine_verb[S, P, R]: ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> Bound[P, R]: ...
    def __get__(self, instance: S | None, owner: type[S]) -> coroutine_verb[S, P, R] | Bound[P, R]:
        if instance is None:
            return self
        function, bound = self._function, instance

        def aio(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
            return function(bound, *args, **kwargs)

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            import asyncio

            files.check_descriptors(files.TURN_FILES)
            return asyncio.run(aio(*args, **kwargs))

        return Bound(call, aio)


class waiting_verb(Generic[S, P, R]):
    """Makes a verb of a generator method that yields how long to sleep (seconds) and returns the result.

    The blocking call sleeps without an event loop.
    """

    def __init__(self, function: Callable[Concatenate[S, P], Steps[R]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[S]) -> waiting_verb[S, P, R]: ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> Bound[P, R]: ...
    def __get__(self, instance: S | None, owner: type[S]) -> waiting_verb[S, P, R] | Bound[P, R]:
        if instance is None:
            return self
        function, bound = self._function, instance

        async def aio(*args: P.args, **kwargs: P.kwargs) -> R:
            return await sleeping(function(bound, *args, **kwargs))

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return finished(function(bound, *args, **kwargs))

        return Bound(call, aio)
