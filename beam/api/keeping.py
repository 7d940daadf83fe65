"""Keeps the agents' processes alive between the messages of a program, until the program's `with Beam() as beam` block
ends.

A thread with its own event loop holds the agents, because the program's event loop, if there is one, may end after each
message.
"""

from __future__ import annotations

import asyncio
import threading

from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import launch
from beam.broker.inbox.context import RootContext
from beam.broker.serving.server import Server, wait_for_sender
from beam.process import tree
from beam.root.paths import AgentPaths
from beam.turns.handle import Stop


class AgentKeeper:
    """Holds agents in the background of this process. Usable from any thread and event loop."""

    def __init__(self, context: RootContext) -> None:
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._held: set[str] = set()  # these three are used only in the loop's thread
        self._tasks: set[asyncio.Task[None]] = set()
        self._stops: set[Stop] = set()
        self._thread = threading.Thread(target=self._run, name="beam keeps", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def hold_now(self, paths: AgentPaths) -> None:
        """Hold the agent, unless a process holds it already. The agent's messages then run in the background of this
        process."""
        asyncio.run_coroutine_threadsafe(self._hold(paths), self._loop).result()

    async def hold(self, paths: AgentPaths) -> None:
        """Hold the agent as `hold_now` does, without blocking the event loop."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._hold(paths), self._loop))

    def close(self) -> None:
        """End running turns and kept processes, and release all agents."""
        try:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # -- in the thread -----------------------------------------------------------------------------------------------

    async def _hold(self, paths: AgentPaths) -> None:
        if paths.agent in self._held:
            return
        lease = AgentLease.acquire(self._context, paths)
        if lease is not None:
            tree.become_subreaper()
            self._held.add(paths.agent)
            task = asyncio.create_task(self._serve(lease, paths.agent))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, lease: AgentLease, agent: str) -> None:
        is_left, stop = False, Stop()
        self._stops.add(stop)
        try:
            is_left = await Server(lease, stop, set(), keeps=True).serve()
        finally:
            self._stops.discard(stop)
            self._held.discard(agent)
            waits = lease.hand_over(start_worker=not is_left)
        if is_left and waits:
            await wait_for_sender(lease.log.paths)
            launch.ensure_worker(self._context, lease.log.paths)

    async def _end(self) -> None:
        for stop in self._stops:
            stop.request("interrupted", by="the end of its program's part")
        await asyncio.gather(*self._tasks)
