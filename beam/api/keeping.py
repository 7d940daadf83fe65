"""Keeps the agents' processes alive between the messages of a program, until the program's `with Beam() as beam` block
ends.

A thread with its own event loop holds the agents, because the program's event loop, if there is one, may end after each
message.
"""

from __future__ import annotations

import asyncio
import threading

from beam.broker.inbox.context import RootContext
from beam.broker.serving.kind import PROGRAM
from beam.broker.serving.server import Server
from beam.root.paths import AgentPaths


class AgentKeeper:
    """Holds agents in the background of this process. Usable from any thread and event loop."""

    def __init__(self, context: RootContext) -> None:
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._server: Server | None = None  # these two are used only in the loop's thread
        self._serving: asyncio.Task[None] | None = None
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
        if self._server is None or self._serving is None or self._serving.done():
            self._server = Server(self._context, PROGRAM, say=lambda line: None)
            self._serving = asyncio.create_task(self._server.serve())
        await self._server.hold(paths)

    async def _end(self) -> None:
        if self._server is not None and self._serving is not None:
            self._server.ask_to_stop()
            await self._serving
