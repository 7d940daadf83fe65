"""What the public methods share: the check of their arguments, and decorators for methods that can be called in two
ways: `beam.send(...)` blocks, and `await beam.send.aio(...)` runs in an event loop.

`help()` and `inspect.signature` show the signature of the original method, also for `aio`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from beam.base import files
from beam.base.clock import R, Steps, parse_rfc3339, run_async, run_blocking
from beam.base.errors import UsageError
from beam.model.settings import AgentSettings

if TYPE_CHECKING:
    from beam.base.clock import Steps


P = ParamSpec("P")
S = TypeVar("S")


class BoundVerb(Generic[P, R]):
    """A `Verb` bound to one object. Calling it blocks; calling its `aio` returns a coroutine."""

    def __init__(self, call: Callable[P, R], aio: Callable[P, Coroutine[Any, Any, R]]) -> None:
        functools.update_wrapper(self, aio)
        self._call = call
        self.aio = aio

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> BoundVerb[P, R]:
        """Return this object itself. The method exists because `help()` shows signatures of functions and descriptors
        only."""
        return self


class Verb(Generic[S, P, R]):
    """A method, as an attribute of its class, that can be called in two ways. Calling it blocks; calling its `aio`
    returns a coroutine. Both take the object as the first argument."""

    def __init__(
        self, call: Callable[Concatenate[S, P], R], aio: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]
    ) -> None:
        functools.update_wrapper(self, aio)
        self._call = call
        self.aio = aio

    def __call__(self, instance: S, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(instance, *args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type[S]) -> Verb[S, P, R]: ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> BoundVerb[P, R]: ...
    def __get__(self, instance: S | None, owner: type[S]) -> Verb[S, P, R] | BoundVerb[P, R]:
        return self if instance is None else BoundVerb(MethodType(self._call, instance), MethodType(self.aio, instance))


def coroutine_verb(function: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> Verb[S, P, R]:
    """Make a `Verb` from a coroutine method. The blocking call runs its own event loop."""

    def call(instance: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        import asyncio

        refuse_in_loop(f"{function.__name__} blocks", f"await it: {function.__name__}.aio(…)")
        files.check_descriptors(files.TURN_DESCRIPTORS)
        return asyncio.run(function(instance, *args, **kwargs))

    return Verb(call, function)


def refuse_in_loop(what: str, hint: str) -> None:
    """Raise UsageError if an event loop runs in this thread, because no other can be started there. `what` says what
    was called, `hint` what to call in an event loop."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"{what}, and an event loop runs in this thread", hint)


def waiting_verb(function: Callable[Concatenate[S, P], Steps[R]]) -> Verb[S, P, R]:
    """Make a `Verb` from a generator method that yields how long to sleep (seconds) and returns the result.

    The blocking call sleeps without an event loop.
    """
    written = str(function.__annotations__["return"])
    if written.startswith("Steps["):  # the caller gets the result, and no generator
        function.__annotations__["return"] = written[len("Steps[") : -1]

    @functools.wraps(function)
    async def aio(instance: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await run_async(function(instance, *args, **kwargs))

    def call(instance: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run_blocking(function(instance, *args, **kwargs))

    return Verb(call, aio)


def check_is_text(**texts: object) -> None:
    """Raise UsageError if one of these arguments is not a text."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise _wrong_type_error(name, text, "a text")


def check_is_number(**numbers: object) -> None:
    """Raise UsageError if one of these arguments is neither a number nor None."""
    for name, number in numbers.items():
        if number is not None and not isinstance(number, int | float):
            raise _wrong_type_error(name, number, "a number")


def check_is_settings(settings: object) -> None:
    """Raise UsageError if these are not the settings of an agent."""
    if not isinstance(settings, AgentSettings):
        raise _wrong_type_error("settings", settings, "AgentSettings")


def time_ns(name: str, time: object) -> int:
    """Return the nanoseconds since 1970 of a time in the format of RFC 3339. Raises UsageError for anything else."""
    check_is_text(**{name: time})
    try:
        return parse_rfc3339(str(time))
    except ValueError as error:
        hint = "write it like 2026-07-01T12:00:00Z"
        raise UsageError(f"`{name}` is {str(time)[:80]!r}, and not a time", hint) from error


def file_paths(name: str, paths: object) -> tuple[Path, ...]:
    """Return these paths, which may also be texts; a single path or text is one file. Raises UsageError for anything
    else."""
    if isinstance(paths, str | os.PathLike):
        paths = (paths,)
    if not isinstance(paths, Sequence) or isinstance(paths, bytes):
        raise _wrong_type_error(name, paths, "a list of paths")
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise _wrong_type_error(name, path, "a path")
    return tuple(Path(path) for path in paths)


def agent_names(agents: Sequence[str]) -> Sequence[str]:
    """Return the names of these agents; a text is one name, and not a list of letters."""
    return (agents,) if isinstance(agents, str) else agents


def _wrong_type_error(name: str, value: object, wanted: str) -> UsageError:
    return UsageError(f"`{name}` is {type(value).__name__}, and not {wanted}", "docs/python-api.md has the types")
