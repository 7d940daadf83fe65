"""One process of an agent, under its guard: for one turn, or kept for many, with a terminal or a protocol in it.

Does not depend on what a turn is, or on what the process says.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from beam.agents.base import Launch
from beam.base.errors import BeamError
from beam.model import events
from beam.process import spawn
from beam.turns.input import TurnInput

if TYPE_CHECKING:
    from beam.agents.link import Call
    from beam.turns.calls import CallAnswer

GRACE_S = 1.0


class AgentProcess:
    """A process and what it was started for: the number of its turn, the id that it was given for a new session, and
    where the files are that it was started with. `notice` gets what the journal should say of it; `owns_scratch`: these
    files go with it, because it outlived its turn."""

    can_be_kept: ClassVar[bool] = True
    takes_calls: ClassVar[bool] = False
    child: spawn.Child
    ended: asyncio.Task[spawn.Ended]

    def __init__(self, launch: Launch, input: TurnInput) -> None:
        self.launch = launch
        self.cwd = input.turn.cwd
        self.turn = input.number
        self.fresh_session_id = input.turn.fresh_session_id
        self.scratch = input.scratch
        self.owns_scratch = False
        self.notice: Callable[[str], None] = _nobody

    def call(self, call: Call, settle: Callable[[str, CallAnswer], object]) -> None:
        """Have a call answered between two turns, by `settle` with its id. Only where it `takes_calls`."""
        raise NotImplementedError

    def attach(self, child: spawn.Child) -> None:
        """Take the process, which is held until `go`."""
        self.child = child
        self.ended = asyncio.create_task(child.wait())

    def go(self) -> None:
        """Let the program begin."""
        self.child.go()

    @property
    def gone(self) -> bool:
        """Return whether its process has ended."""
        return self.ended.done()

    @property
    def is_watched(self) -> bool:
        """Return whether somebody looks at it now, so that it may stay without a turn."""
        return False

    @property
    def unfit(self) -> str:
        """Return why it can take no other turn though it goes on; "" where it can."""
        return ""

    def started(self, turn: int) -> events.AgentStarted:
        """Return what the journal says of it in this turn."""
        argv = enumerate(self.launch.argv)
        return events.AgentStarted(
            pid=self.child.pid,
            start_ticks=self.child.start_ticks,
            guard_pid=self.child.guard_pid,
            guard_start_ticks=self.child.guard_start_ticks,
            argv=tuple("<prompt>" if index in self.launch.prompt_in_argv else word for index, word in argv),
            cwd=self.cwd,
            since=None if self.turn == turn else self.turn,
        )

    def exited(self, ended: spawn.Ended, stopped_by: str | None) -> events.AgentExited:
        """Return what the journal says of its end."""
        return events.AgentExited(
            pid=self.child.pid if self.can_be_kept else None,
            code=ended.code,
            signal=ended.signal,
            stopped_by=stopped_by,
            stderr_tail=ended.stderr_tail,
            swept=ended.swept,
        )

    async def quit(self, *, hard: Callable[[], bool]) -> spawn.Ended:
        """End it with all that it started, and return how it ended; `hard` says whether there is no time for grace.

        Raises what `spawn.Child.wait` raises.
        """
        if not self.gone:
            self.child.end(0 if hard() else GRACE_S)
        return await asyncio.shield(self.ended)

    async def close(self, why: str) -> None:
        """Free what belongs to the process, which has ended or is ended now. `why` is shown to its viewers."""
        self.child.end(0)
        with contextlib.suppress(BeamError, OSError):  # who waited for its end was told
            await asyncio.shield(self.ended)
        if self.owns_scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def drop(self) -> None:
        """Do the same for a holder that can't wait: its guard ends it."""
        self.child.end(0)
        asyncio.get_running_loop().create_task(self.close("its holder let it go"))


def _nobody(text: str) -> None:
    """Record nothing, for a process outside any turn's journal."""
