"""One guarded process of an agent: for one turn or kept for many, with a terminal or a protocol.

Does not depend on turns, or on the process's output.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from beam.agents.base import Launch
from beam.base.directory_tree import remove_tree
from beam.base.errors import BeamError
from beam.model import events
from beam.process import spawn, tree
from beam.turns.input import TurnInput

if TYPE_CHECKING:
    from beam.agents.link import AnsweredIntent
    from beam.turns.calls import CallAnswer

GRACE_S = 1.0
_closing: set[asyncio.Task[None]] = set()  # an event loop keeps no task alive that nobody waits for


class AgentProcess:
    """One guarded process of an agent. `turn` is the number of the turn that started it. `fresh_session_id` is the id
    that it got for a new session. `scratch` is the directory of its files. `notice` is called with the text of each
    notice about the process. `owns_scratch`: `close` removes the directory, because the process outlived its turn."""

    can_be_kept: ClassVar[bool] = True
    takes_calls: ClassVar[bool] = False
    child: spawn.Child
    ended: asyncio.Task[spawn.ProcessEnd]

    def __init__(self, launch: Launch, input: TurnInput) -> None:
        self.launch = launch
        self.cwd = input.turn.cwd
        self.turn = input.number
        self.fresh_session_id = input.turn.fresh_session_id
        self.scratch = input.scratch
        self.owns_scratch = False
        self.notice: Callable[[str], None] = _do_nothing

    def call(self, call: AnsweredIntent, settle: Callable[[str, CallAnswer], object]) -> None:
        """Pass a call to the process between two turns. `settle` is called with the call's id and answer. Needs
        `takes_calls`."""
        raise NotImplementedError

    def attach(self, child: spawn.Child) -> None:
        """Set the process, after it was started. It waits before its exec until it is released."""
        self.child = child
        self.ended = asyncio.create_task(child.wait())

    @property
    def is_gone(self) -> bool:
        """Return whether the process and its guard have ended."""
        return self.ended.done()

    def has_died(self) -> bool:
        """Return whether the process is dead, even if its guard has not reported that yet."""
        return self.is_gone or tree.start_ticks(self.child.pid) != self.child.start_ticks

    @property
    def is_watched(self) -> bool:
        """Return whether a viewer is connected, so that the process may stay without a turn."""
        return False

    @property
    def why_unfit(self) -> str:
        """Return why the running process can't take another turn; "" if it can."""
        return ""

    def started_event(self, turn: int) -> events.AgentStarted:
        """Return the `agent.started` event for this turn."""
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

    def exited_event(self, ended: spawn.ProcessEnd, stopped_by: str | None) -> events.AgentExited:
        """Return the `agent.exited` event."""
        return events.AgentExited(
            pid=self.child.pid if self.can_be_kept else None,
            code=ended.code,
            signal=ended.signal,
            stopped_by=stopped_by,
            stderr_tail=ended.stderr_tail,
            swept=ended.swept,
        )

    async def quit(self, *, hard: Callable[[], bool]) -> spawn.ProcessEnd:
        """End the process with everything that it started, and return how it ended.

        There is no grace period if `hard` returns True. Raises the exceptions of `spawn.Child.wait`.
        """
        if not self.is_gone:
            self.child.end(0 if hard() else GRACE_S)
        return await asyncio.shield(self.ended)

    async def close(self, why: str) -> None:
        """Free the process's resources; end it if it still runs. `why` is shown to its viewers."""
        self.child.end(0)
        with contextlib.suppress(BeamError, OSError):  # the error was reported to whoever waited for the end
            await asyncio.shield(self.ended)
        if self.owns_scratch:
            remove_tree(self.scratch, ignore_errors=True)

    def drop(self) -> None:
        """Free the process's resources without waiting; the guard ends the process."""
        self.child.end(0)
        closing = asyncio.get_running_loop().create_task(self.close("its holder let it go"))
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)


def _do_nothing(text: str) -> None:
    """Record nothing, because no turn's journal is open."""
