"""`with Beam() as beam`: the agents' processes stay from message to message."""

from __future__ import annotations

from typing import Self

from beam.api.verbs.opened import OpenedRoot
from beam.base.errors import UsageError


class KeepVerbs(OpenedRoot):
    """Keep processes between messages."""

    def __enter__(self) -> Self:
        """Keep the processes of the agents that are sent to inside, in dialogue and terminal mode, until the end.

        Inside a turn of an agent nothing is kept.
        """
        if self._keeping is not None:
            raise UsageError("this Beam keeps its agents' processes already", "use it in one `with` at a time")
        if not self.is_agent:
            from beam.api.keeping import Keeping

            self._keeping = Keeping(self.context)
        return self

    def __exit__(self, *_: object) -> None:
        """End what is kept."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.close()

    async def __aenter__(self) -> Self:
        """Keep the same from an event loop."""
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        """End what is kept, and let the event loop go on meanwhile."""
        import asyncio

        await asyncio.to_thread(self.__exit__)
