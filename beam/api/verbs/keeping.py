"""`with Beam() as beam`: keeps the agents' processes alive between messages, until the block ends."""

from __future__ import annotations

from typing import Self

from beam.api.verbs.opened import OpenedRoot
from beam.base.errors import UsageError


class KeepVerbs(OpenedRoot):
    """Keep processes between messages."""

    def __enter__(self) -> Self:
        """Keep the process of each agent that gets a message in this block, in dialogue and terminal mode, until the
        block ends.

        Inside an agent's turn nothing is kept.
        """
        if self._keeping is not None:
            raise UsageError("this Beam keeps its agents' processes already", "use it in one `with` at a time")
        if not self.is_agent:
            from beam.api.keeping import AgentKeeper

            self._keeping = AgentKeeper(self.context)
        return self

    def __exit__(self, *_: object) -> None:
        """End the kept processes."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.close()

    async def __aenter__(self) -> Self:
        """Keep processes as `__enter__` does, from an event loop."""
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        """End the kept processes without blocking the event loop."""
        import asyncio

        await asyncio.to_thread(self.__exit__)
