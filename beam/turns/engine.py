"""Runs a turn for all faces: its timeouts, its end, its events and its process.

A driver has the parts that are specific to a face: how the process is started, written to, read, interrupted and ended.
Does not depend on any face.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from beam.agents.base import Host, Launch, Turn, Verdict
from beam.base.clock import Awake, rfc3339
from beam.base.faults import crash_point
from beam.base.typed_values import escape_surrogates
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Class, Status
from beam.process.spawn import ProcessEnd
from beam.turns.handle import TurnHandle, TurnServices
from beam.turns.input import TurnInput, with_runner
from beam.turns.process import AgentProcess, ProcessKeeper, ReuseKey
from beam.turns.record import Bookkeeping

TICK_S = 0.1
_POLL_S = 0.09  # a tick that comes a little early polls, too
_AFTER_EXIT_S = 1.0  # how long the conversation may take after its process is gone
_FOR_EVER_S = 3600.0


class Driver(Protocol):
    """One face's part of a turn, with one process. The engine calls `start`, `begin`, `talk`, `leave` and `finish`, in
    this order. While `talk` runs, it calls `tick` repeatedly, and `interrupt` once the turn has to end.

    `tick_s` is the longest time between two ticks (seconds). `reports_tool_ends`: the end of each tool call is
    reported, so an open call is a sign of life, and a call that stays open did not finish. `not_ready` says why another
    process must take the turn; "" if this one got the message.
    """

    tick_s: float
    reports_tool_ends: bool
    not_ready: str

    @property
    def input(self) -> TurnInput:
        """Return the turn's input for this process."""

    async def start(self) -> AgentProcess:
        """Return the process: a new one that is held before its program begins, or a kept one."""

    async def begin(self) -> None:
        """Let the program begin, after `agent.started` was recorded."""

    async def talk(self) -> None:
        """Give the agent the message and read its output; return when the turn is over for this process."""

    def tick(self) -> None:
        """Check for changes that no callback reports."""

    def process_gone(self) -> None:
        """Handle the end of the process while `talk` still runs. `talk` gets one more second."""

    async def interrupt(self) -> None:
        """Ask the agent to end its turn; return when it has ended, or after `limits.grace`."""

    async def leave(self) -> ProcessEnd | None:
        """End the process if it still runs, and return how it ended; None if it stays for the next turn."""

    def finish(self, ended: ProcessEnd | None) -> Verdict | None:
        """Record the last events and return the verdict; None if another process must take the turn."""

    def stopped_by(self) -> str | None:
        """Return why beam ended the process; None if it ended on its own."""

    def reuse_key(self, session_id: str | None) -> ReuseKey:
        """Return the key that the next turn must have to run in this process."""


class Engine:
    """One turn. It may run several drivers, one after another, within the turn's timeout."""

    def __init__(self, input: TurnInput, services: TurnServices, handle: TurnHandle) -> None:
        self.clock = Awake(services.clock)
        self.began = self.clock.monotonic()
        self.input = input
        self._turn = input.turn
        self.stop = handle.stop
        self.asks = handle.asks
        self.calls = handle.calls
        self.keeper = services.keeper
        self.book: Bookkeeping  # of the process that runs
        self._services = services
        self._broken: BaseException | None = None
        self._quiet_since = self.began
        self._polled_at = float("-inf")

    @property
    def is_stopped(self) -> bool:
        """Return whether a request or a timeout asks the turn to end."""
        return self.stop.reason is not None

    @property
    def is_broken(self) -> bool:
        """Return whether an exception has broken the turn; nothing more is read then."""
        return self._broken is not None

    def must_end_now(self) -> bool:
        """Return whether the turn must end immediately."""
        return self.stop.hard or self.is_broken

    # -- one process ---------------------------------------------------------------------------------------------------

    async def run(self, driver: Driver) -> Verdict | None:
        """Run the turn with this driver; return its verdict. Return None if the agent did not get the message and
        another process must take it. The process is gone afterwards, unless the keeper has it.

        Raises an exception of the driver or of a callback, such as DiskError; then no process is left.
        """
        self.book = Bookkeeping(self._services.record, self.clock, self.input.limits.deltas_per_second)
        self._turn = driver.input.turn
        self._quiet_since = self.clock.monotonic()
        process = await driver.start()
        why, is_kept = "its turn broke off", False
        try:
            self.record(process.started_event(self.input.number))
            crash_point("agent.started")
            await driver.begin()
            ended = await self._watch_process(driver, process)
            self._raise_if_broken()
            verdict = driver.finish(ended)
            self._raise_if_broken()
            self.book.end(close_tools=driver.reports_tool_ends)
            if ended is None and verdict is not None and self.keeper is not None:
                self.record(events.AgentKept(pid=process.child.pid, until=self._kept_until(self.keeper)), sync=True)
                self.keeper.keep(process, driver.reuse_key(verdict.session_id), self.input.keep)
                is_kept = True
                return verdict
            assert ended is not None
            self.record(process.exited_event(ended, driver.stopped_by()))
            crash_point("agent.exited")
            why = driver.not_ready or "the turn is over"
            return verdict
        finally:
            if not is_kept:
                await process.close(why)

    def _kept_until(self, keeper: ProcessKeeper) -> str | None:
        left = keeper.left_s(self.input.keep)
        return None if math.isinf(left) else rfc3339(self._services.clock.now_ns() + int(left * 1e9))

    def _raise_if_broken(self) -> None:
        if self._broken is not None:
            raise self._broken

    async def run_to_end(self, driver: Driver) -> Verdict:
        """Run the turn with a driver that always gives a verdict."""
        verdict = await self.run(driver)
        assert verdict is not None
        return verdict

    async def run_in_session(
        self,
        launch: Callable[[Turn, Host], Launch],
        make: Callable[[TurnInput, Launch], Driver],
        *,
        kept: Driver | None = None,
    ) -> Verdict:
        """Run the turn in its session, first with the `kept` process if there is one.

        `make` is called with the input and a launch, and returns the driver. If the agent proves that the session is
        lost, record that and run the turn once more in a new session.
        """
        verdict = await self.run(kept) if kept is not None else None
        is_lost = False
        if verdict is None:
            first = _launch_with_runner(launch, self.input)
            gone = lost_session_event(first, self.input.turn)
            if gone is not None:
                self._services.record(gone)
                verdict = Verdict(status=Status.FAILED, class_=Class.BAD_REQUEST, reason=gone.reason, session="lost")
                is_lost = True
            else:
                verdict = await self.run_to_end(make(self.input, first))
        if not (is_lost or self.book.lost) or self.is_stopped:
            return verdict
        if verdict.status is Status.COMPLETED:  # the agent continued without the session
            return msgspec.structs.replace(verdict, session=verdict.session or "lost")
        again = self.input.in_new_session()
        verdict = await self.run_to_end(make(again, _launch_with_runner(launch, again)))
        return msgspec.structs.replace(verdict, session="lost")

    async def _watch_process(self, driver: Driver, process: AgentProcess) -> ProcessEnd | None:
        """Check the turn's timeouts until its process has ended. Return how it ended; None if it stays for the next
        turn."""
        talking = asyncio.create_task(driver.talk())
        stopping = asyncio.create_task(self._interrupt_when_asked(driver))
        news_task = asyncio.create_task(self._wait_for_news())
        try:
            while not (process.is_gone or stopping.done() or self._is_conversation_over(talking)):
                tasks = [task for task in (process.ended, talking, stopping, news_task) if not task.done()]
                await asyncio.wait(tasks, timeout=self._tick_s(driver), return_when=asyncio.FIRST_COMPLETED)
                if news_task.done():
                    news_task = asyncio.create_task(self._wait_for_news())
                    self._polled_at = float("-inf")
                self._do_periodic_work(driver)
                self.run_guarded(driver.tick)
            if process.is_gone and not talking.done():
                driver.process_gone()
                await asyncio.wait({talking}, timeout=_AFTER_EXIT_S)
            for task in (talking, stopping):
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            await _cancel_tasks(talking, stopping, news_task)
        return await self._wait_while_leaving(driver, driver.leave())

    def _is_conversation_over(self, talking: asyncio.Task[None]) -> bool:
        """Return whether the conversation is over. In a turn that has to end, it is over only after the interrupt."""
        if not talking.done() or talking.cancelled():
            return False
        return self.stop.reason is None or talking.exception() is not None

    async def _interrupt_when_asked(self, driver: Driver) -> None:
        while self.stop.reason is None:
            await self.stop.wait(_FOR_EVER_S)
        if not self.is_broken:
            await driver.interrupt()

    async def _wait_for_news(self) -> None:
        """Wait until the holder is notified of a request; wait forever if there are no notifications."""
        news = self._services.news or asyncio.Event()
        await news.wait()
        news.clear()

    async def _wait_while_leaving(
        self, driver: Driver, leaving: Coroutine[None, None, ProcessEnd | None]
    ) -> ProcessEnd | None:
        """Wait for the end of the process, and return how it ended. Meanwhile handle requests, such as a second one to
        stop."""
        task = asyncio.create_task(leaving)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=self._tick_s(driver))
                if self.is_stopped:
                    self._do_periodic_work(driver)
            return task.result()
        finally:
            await _cancel_tasks(task)

    # -- events --------------------------------------------------------------------------------------------------------

    def record(self, body: Event, *, sync: bool = False) -> Event:
        """Record an event of the process and return it as it is in the journal; a delta is returned unchanged."""
        turn = self._turn
        if turn.fork and isinstance(body, events.SessionStarted) and not body.resumed:
            body = msgspec.structs.replace(body, forked_from=turn.session_id)
        elif isinstance(body, events.FileChanged):
            body = msgspec.structs.replace(body, path=name_in_folder(body.path, turn.cwd))
        return self.book.record(body, sync=sync)

    def record_events(self, bodies: Callable[[], Iterable[Event]], *, retries: int | None = None) -> None:
        """Record events of the process, in a callback of the event loop; after more than `retries` retries, end the
        turn."""
        if self.is_broken:
            return

        def write() -> None:
            for body in bodies():
                self.record(body)
            if retries is not None and (self.book.attempt or 0) > retries:
                self.stop.request("retries")

        self.run_guarded(write)

    def run_guarded(self, step: Callable[[], object]) -> None:
        """Call a function in a callback: if it raises, the turn ends immediately, and `run` raises the exception."""
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - raised again by run()
            self._broken = self._broken or error
            self.stop.request("broken")

    def flush(self) -> None:
        """Write the text so far, before an event that does not come from the process."""
        self.book.flush(all=True)

    def record_prompt_sent(self, size: int) -> None:
        """Record `prompt.sent` on disk: from here on the agent may act on the message, which has this many bytes."""
        crash_point("prompt.before")
        self.record(events.PromptSent(bytes=size), sync=True)
        crash_point("prompt.sent")

    # -- clocks --------------------------------------------------------------------------------------------------------

    def record_sign_of_life(self) -> None:
        """Record a sign of life."""
        self._quiet_since = self.clock.monotonic()

    def _tick_s(self, driver: Driver) -> float:
        due = self.book.due_in()
        return driver.tick_s if due is None else min(driver.tick_s, due + 0.001)

    def _do_periodic_work(self, driver: Driver) -> None:
        now = self.clock.monotonic()
        self.run_guarded(self.book.flush)
        self.run_guarded(self.calls.expire)
        polled = asyncio.get_running_loop().time()
        if polled - self._polled_at >= _POLL_S:
            self._polled_at = polled
            self.run_guarded(self._services.poll)
        if self.asks.are_open or self.book.asks or (driver.reports_tool_ends and self.book.tools):
            self._quiet_since = now
        if self.stop.reason is None:
            if now - self.began > self.input.timeout:
                self.stop.request("timeout")
            elif now - self._quiet_since > self.input.idle_timeout:
                self.stop.request("idle")


def _launch_with_runner(launch: Callable[[Turn, Host], Launch], input: TurnInput) -> Launch:
    """Return the launch for this input, with the agent's runner before its command line."""
    return with_runner(launch(input.turn, input.host), input.turn)


def name_in_folder(path: str, folder: str) -> str:
    """Return the one name that a changed file has in the journal, however its CLI names it: relative to the agent's
    folder if the file is in there, else absolute, and without links. A CLI that writes to a link changes the file that
    the link leads to."""
    try:
        top = os.path.realpath(folder)
        real = os.path.realpath(os.path.join(top, path))  # noqa: PTH118 - any text may be a path here
    except ValueError:  # no file has such a name
        return path
    name: str = escape_surrogates(real.removeprefix(top.rstrip("/") + "/"))
    return name


def lost_session_event(launch: Launch, turn: Turn) -> events.SessionLost | None:
    """Return the event that reports the turn's session as lost, if its file is missing; None otherwise."""
    if launch.session_file is None or Path(launch.session_file).exists():
        return None
    return events.SessionLost(session_id=turn.session_id or "", reason=f"{launch.session_file} is gone")


async def _cancel_tasks(*tasks: asyncio.Task[ProcessEnd | None] | asyncio.Task[None]) -> None:
    """Cancel the tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved only so that asyncio does not report it again
