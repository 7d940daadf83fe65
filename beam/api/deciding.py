"""Lets a program that waits for a turn decide the turn's asks (permission requests) with a function, `on_ask=`.

The function decides in place of a person, and its decision is sent in the same way as `beam approve` and `beam deny`
send one. If the function fails, or if its decision can't be carried out, the ask is denied.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from beam.api.asks import AskLine, ask_line, decide
from beam.base.clock import run_async
from beam.base.errors import BeamError, NotFoundError, UsageError
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.model.events import Event


class Allow(Struct, frozen=True, kw_only=True):
    """The decision to allow a call. `input` replaces the requested input; None keeps it. `always` also allows similar
    calls from now on, if the agent offers that."""

    input: object = None
    always: bool = False


class Deny(Struct, frozen=True, kw_only=True):
    """The decision to deny a call. `message` is a text for the agent, if the agent can be told the reason; `stop` ends
    the agent's turn."""

    message: str | None = None
    stop: bool = False


_LONGEST_S = 5.0  # how long a decision may take to reach the agent's holder
Decision = Allow | Deny | bool
OnAsk = Callable[[AskLine], Decision | Awaitable[Decision]]


class AskDecider:
    """Decides the asks of one message with a function, one ask after the other.

    The function runs in a thread of its own, so it may block. If it is a coroutine function, its coroutine runs in the
    event loop.
    """

    def __init__(self, context: RootContext, on_ask: OnAsk, seen: Callable[[Event], None], *, by: str) -> None:
        self._context = context
        self._on_ask = on_ask
        self._seen = seen
        self._by = by
        self._one = asyncio.Lock()
        self._undecided: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def event(self, event: Event) -> None:
        """Pass an event of the message on to `seen`. If it is a new ask, start the function that decides it; if it says
        that somebody else decided an ask, cancel the function's decision."""
        self._seen(event)
        match event:
            case events.PermissionAsked() if event.expires is not None:  # else beam decides it at once
                task = asyncio.ensure_future(self._decide(ask_line(event)))
                self._undecided[event.ask_id] = task
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case events.PermissionDecided():
                undecided = self._undecided.pop(event.ask_id, None)
                if undecided is not None:
                    undecided.cancel()

    async def close(self) -> None:
        """Cancel all open decisions, because the message is over, and wait for decisions that are being sent."""
        for task in self._undecided.values():
            task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_LONGEST_S)
            for task in late:
                task.cancel()

    async def _decide(self, ask: AskLine) -> None:
        async with self._one:
            try:
                decision = await self._decision(ask)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001  a sys.exit() of the function, too, must leave no ask open
                self._report(ask, error)
                decision = Deny(message=f"the program that decides failed with {type(error).__name__}")
        self._undecided.pop(ask.id, None)
        await self._send(ask, decision)

    async def _decision(self, ask: AskLine) -> Decision:
        decided = await _call_in_thread(self._on_ask, ask)
        if inspect.isawaitable(decided):
            decided = await decided
        if not isinstance(decided, (bool, Allow, Deny)):
            raise TypeError(f"on_ask returned {type(decided).__name__}, and not Allow, Deny, True or False")
        return decided

    async def _send(self, ask: AskLine, decision: Decision) -> None:
        if decision is True or isinstance(decision, Allow):
            try:
                await self._allow(ask, Allow() if decision is True else decision)
            except NotFoundError:
                return  # somebody else decided it, or it is over
            except (BeamError, TypeError, ValueError) as error:  # the agent does not offer it; the input is no JSON
                self._report(ask, error)
            else:
                return
        await self._deny(ask, decision if isinstance(decision, Deny) else Deny())

    async def _allow(self, ask: AskLine, allow: Allow) -> None:
        if allow.input is None:
            await run_async(decide(self._context, ask.id, "approve", by=self._by, always=allow.always))
            return
        if allow.always:
            raise UsageError("a changed input is allowed once, and never always", "leave one of the two out")
        text = allow.input if isinstance(allow.input, str) else msgspec.json.encode(allow.input).decode()
        await run_async(decide(self._context, ask.id, "amend", by=self._by, message=text))

    async def _deny(self, ask: AskLine, deny: Deny) -> None:
        for message in dict.fromkeys((deny.message, None)):
            try:
                await run_async(decide(self._context, ask.id, "deny", by=self._by, message=message, stop=deny.stop))
            except NotFoundError:
                return
            except BeamError as error:
                if message is None:  # else the agent can't be told why; it is denied all the same
                    self._report(ask, error)
            else:
                return

    def _report(self, ask: AskLine, error: BaseException) -> None:
        what = f"on_ask could not decide {ask.id} of {ask.agent}, so it is denied"
        asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error})


async def _call_in_thread(on_ask: OnAsk, ask: AskLine) -> object:
    """Call the function in a new thread and return its result. After a cancellation, nothing waits for the thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()

    def work() -> None:
        try:
            decided: object = on_ask(ask)
        except BaseException as error:  # noqa: BLE001  it is raised where it is awaited
            finish(future.set_exception, _future_error(error))
        else:
            finish(future.set_result, decided)

    def finish(set_outcome: Callable[[Any], None], value: object) -> None:
        def unless_cancelled() -> None:
            if not future.done():
                set_outcome(value)

        with contextlib.suppress(RuntimeError):  # the loop is closed: the turn is over
            loop.call_soon_threadsafe(unless_cancelled)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name="beam on_ask", daemon=True).start()
    return await future


def _future_error(error: BaseException) -> BaseException:
    """Return the error; for a StopIteration, which a future can't carry, return a RuntimeError."""
    return RuntimeError("StopIteration") if isinstance(error, StopIteration) else error
