"""Where the process of an agent stays between its turns, if its holder lives longer than one: on its terminal, or with
its protocol.

The next turn that wants the same (`ReuseKey`) goes on in it; any other ends it first. Owns when it is over: too long
idle, exited, another session. Does not depend on queues, locks or other agents.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from beam.agents.base import Face
from beam.base import durations
from beam.base.clock import Clock
from beam.base.errors import BeamError, UnsupportedError
from beam.model import events
from beam.model.events import Event
from beam.model.settings import AgentSettings
from beam.rules.ruleset import Ruleset
from beam.turns.calls import AgentCalls, CallAnswer
from beam.turns.input import TurnInput

if TYPE_CHECKING:
    from beam.agents.link import Call
    from beam.turns.process import AgentProcess


class Note(Protocol):
    """Write an event that belongs to no turn into the journal."""

    def __call__(self, body: Event, *, sync: bool = False) -> Event: ...


class ReuseKey(Struct, frozen=True, kw_only=True):
    """What two turns must have in common to run in one process. `schema` and the limits are settings of a process for
    some CLIs.
    """

    face: Face
    adapter: str
    executable: str
    session_id: str | None
    model: str | None
    access: str
    cwd: str
    settings: AgentSettings
    folder_trusted: bool
    leave_out: bool
    folder_env: Mapping[str, str]
    schema: str | None = None
    max_turns: int | None = None
    budget_usd: float | None = None
    rules: Ruleset = Ruleset()

    @classmethod
    def of(cls, input: TurnInput, face: Face, session_id: str | None) -> ReuseKey:
        """Return the key of a turn of this face in that session."""
        turn = input.turn
        return cls(
            face=face,
            adapter=turn.settings.adapter,
            executable=input.host.executable,
            session_id=session_id,
            model=turn.model,
            access=turn.access,
            cwd=turn.cwd,
            settings=turn.settings,
            folder_trusted=turn.folder_trusted,
            leave_out=turn.leave_out,
            folder_env=input.folder_env,
            schema=turn.schema,
            max_turns=turn.max_turns,
            budget_usd=turn.budget_usd,
            rules=turn.rules,
        )


class ProcessKeeper:
    """The process of one agent. `directory` is the agent's; `note` writes what happens between turns; `keeps`: a
    process may stay here after its turn."""

    def __init__(self, directory: Path, note: Note, clock: Clock, *, keeps: bool = False) -> None:
        self.directory = directory
        self.keeps = keeps
        self.clock = clock
        self.process: AgentProcess | None = None  # between turns only
        self.key: ReuseKey | None = None
        self.unwanted = ""  # why it has to go, if somebody said so
        self.on_exit: Callable[[], None] = _nobody
        self._note = note
        self._seconds = 0.0
        self._since = 0.0
        self._calls = AgentCalls(clock)
        self._was_set: dict[str, str] = {}  # of the process that runs or is kept
        self._granted: float | None = None
        self._until: float | None = None

    @property
    def socket(self) -> Path:
        """Return the path of the socket by which others look at its terminal."""
        return self.directory / "terminal.sock"

    def cast(self, turn: int) -> Path:
        """Return the path of a turn's recording."""
        return self.directory / "casts" / f"{turn}.cast"

    def needs(self, scratch: Path) -> bool:
        """Return whether the kept process was started with files in there; then it removes them itself."""
        return self.process is not None and self.process.scratch == scratch

    @property
    def since(self) -> float:
        """Return when the process was used last (monotonic seconds)."""
        return self._since

    def grant(self, seconds: float) -> None:
        """Let the process of the turn that begins now live for so long after it, and no longer, whatever the agent's
        settings say."""
        self.keeps, self._granted = True, seconds

    def idle_s(self, configured: float) -> float:
        """Return how long the process of the turn that begins now may stay without a turn; the agent's settings say
        `configured`."""
        if not self.keeps or (self._granted is None and self._is_late()):
            return 0.0
        return configured if self._granted is None and self._until is None else math.inf

    def left_s(self, seconds: float) -> float:
        """Return how long a process that is kept now stays without a turn; `seconds` is what `idle_s` said."""
        if self._granted is not None:
            return self._granted
        return seconds if self._until is None else self._until - self.clock.monotonic()

    def keep(self, process: AgentProcess, key: ReuseKey, seconds: float) -> None:
        """Keep the process for turns with this key, for at most so long without a turn or somebody who watches it."""
        self.process, self.key = process, key
        self._adjust_key()
        self._calls.takes = process.takes_calls
        self.unwanted = ""
        self._seconds, self._since = seconds, self.clock.monotonic()
        if self._granted is not None:
            self._until, self._granted = self._since + self._granted, None
        process.owns_scratch = True
        process.notice = lambda text: self.noticed(f"{text}, between two turns")
        process.ended.add_done_callback(lambda _: self.on_exit())

    def call(self, call: Call, answer: Callable[[CallAnswer], None], *, seconds: float) -> None:
        """Have the kept process answer a call, within so many seconds.

        Raises UnsupportedError where it answers none.
        """
        process = self.process
        if process is None or not self._calls.takes:
            raise UnsupportedError("a process with a terminal takes no such request", "beam attach", subject=call.id)
        if self._calls.add(call, answer, seconds=seconds):
            for each in self._calls.take():
                process.call(each, self._calls.settle)

    def was_set(self, name: str, value: str) -> None:
        """Take note that a setting of the process is another one now, in its turn or between two: turns with that one
        can go on in it."""
        self._was_set[name] = value
        self._adjust_key()

    def _adjust_key(self) -> None:
        if self.key is None:
            return
        model, access = self._was_set.get("model"), self._was_set.get("access")
        if model is not None:
            settings = structs.replace(self.key.settings, model=model)
            self.key = structs.replace(self.key, model=model, settings=settings)
        if access is not None:
            self.key = structs.replace(self.key, access=access)

    def noticed(self, text: str) -> None:
        """Write a notice into the journal, outside any turn. What can't be written is not worth the process."""
        try:
            self._note(events.Notice(code="terminal", text=text))
        except BeamError as error:
            self.unwanted = error.message

    async def take(self, key: ReuseKey) -> AgentProcess | None:
        """Return the process, for a turn with this key; None where there is none. One with another key is ended."""
        process, is_same = self.process, self.key == key
        why = self.unwanted or (process.unfit if process is not None else "")
        if process is not None and is_same and not process.gone and not why:
            self._no_calls("a turn began")
            self.process = None
            return process
        await self._end(why or ("" if is_same else "the next turn wants another session or other settings"))
        return None

    def over(self, session_id: str | None) -> str:
        """Return why the process has to go now; "" while it may stay. `session_id` is the agent's current one."""
        process = self.process
        if process is None:
            return ""
        if process.gone:
            return "it exited"
        if self.unwanted or process.unfit:
            return self.unwanted or process.unfit
        if self.key is not None and self.key.session_id != session_id:
            return "its session was put aside"
        self._calls.expire()
        if self._is_late():
            return "its time is over"
        if process.is_watched:
            self._since = self.clock.monotonic()
        if self.clock.monotonic() - self._since >= self._seconds:
            return f"no turn for {durations.show(self._seconds)}"
        return ""

    def _no_calls(self, why: str) -> None:
        self._calls.close(why)
        self._calls = AgentCalls(self.clock)

    def _is_late(self) -> bool:
        return self._until is not None and self.clock.monotonic() >= self._until

    def due(self) -> float | None:
        """Return when time alone is a reason to look again (monotonic seconds); None without a process."""
        if self.process is None:
            return None
        return min(self._since + self._seconds, math.inf if self._until is None else self._until)

    async def end(self, why: str, *, hard: Callable[[], bool] = lambda: False) -> None:
        """Ask the process to quit, end it with all that it started, and say so in the journal. What was granted is
        over."""
        self._until = None
        await self._end(why, hard=hard)

    async def _end(self, why: str, *, hard: Callable[[], bool] = lambda: False) -> None:
        process, self.process, self.key = self.process, None, None
        self._was_set.clear()
        if process is None:
            return
        self._no_calls("the process ends")
        exited_itself = process.gone
        try:
            ended = await process.quit(hard=hard)
        finally:
            await asyncio.shield(process.close(why or "it exited"))
        self._note(process.exited(ended, None if exited_itself else why), sync=True)

    def drop(self) -> None:
        """End the process immediately, unsaid: the next holder finds it in the journal, and nothing of it."""
        process, self.process, self.key = self.process, None, None
        if process is not None:
            process.drop()


def _nobody() -> None:
    """Do nothing."""
