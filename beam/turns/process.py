"""The guarded process of an agent: for one turn, or kept between turns on its terminal or with its protocol, as long as
the holder lives.

The next turn with the same `ReuseKey` runs in the kept process; any other turn ends it first. The keeper also decides
when the process ends: it was idle for too long, it has exited, or its session was archived. Does not depend on queues,
locks, other agents, or the output of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from msgspec import Struct, structs

from beam.agents.base import Face, Launch, Turn
from beam.base import durations, files
from beam.base.clock import Clock
from beam.base.directory_tree import remove_tree
from beam.base.errors import BeamError, UnsupportedError
from beam.model import events
from beam.model.events import Event
from beam.model.settings import AgentSettings
from beam.process import spawn, tree
from beam.rules.ruleset import Ruleset
from beam.turns.asks import AgentCalls, CallAnswer
from beam.turns.input import TurnInput

if TYPE_CHECKING:
    from beam.agents.link import AnsweredIntent
    from beam.turns.asks import CallAnswer


def write_scratch(scratch: Path, contents: Mapping[str, bytes]) -> None:
    """Write the launch's files, private, into the turn's scratch directory."""
    for name, data in contents.items():
        path = scratch / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise ValueError(f"a scratch file's name leads elsewhere: {name}")
        files.make_directory(path.parent)
        files.write_new(path, data)


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


def _do_nothing(*_: object) -> None:
    """Do nothing: no turn's journal is open, or nobody waits for the exit."""


class RecordEvent(Protocol):
    """A function that records an event which belongs to no turn."""

    def __call__(self, body: Event, *, sync: bool = False) -> Event: ...


class ReuseKey(Struct, frozen=True, kw_only=True):
    """The properties that must be equal for two turns to run in one process. For some CLIs, `schema` and the limits
    are settings of the process."""

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
        return cls.of_turn(input.turn, face, session_id, input.host.executable, input.folder_env)

    @classmethod
    def of_turn(
        cls, turn: Turn, face: Face, session_id: str | None, executable: str, folder_env: Mapping[str, str]
    ) -> ReuseKey:
        """Return the key of a turn of this face in that session, with this executable."""
        return cls(
            face=face,
            adapter=turn.settings.adapter,
            executable=executable,
            session_id=session_id,
            model=turn.model,
            access=turn.access,
            cwd=turn.cwd,
            settings=turn.settings,
            folder_trusted=turn.folder_trusted,
            leave_out=turn.leave_out,
            folder_env=folder_env,
            schema=turn.schema,
            max_turns=turn.max_turns,
            budget_usd=turn.budget_usd,
            rules=turn.rules,
        )


class ProcessKeeper:
    """The keeper of one agent's process. `directory` is the agent's directory. `note` is called to record an event
    between turns. `keeps`: a process may stay after its turn."""

    def __init__(self, directory: Path, note: RecordEvent, clock: Clock, *, keeps: bool = False) -> None:
        self.directory = directory
        self.keeps = keeps
        self.clock = clock
        self.process: AgentProcess | None = None  # between turns only
        self.key: ReuseKey | None = None
        self.unwanted = ""  # why it has to end, if somebody asked for that
        self.on_exit: Callable[[], None] = _do_nothing
        self._note = note
        self._seconds = 0.0
        self._since = 0.0
        self._calls = AgentCalls(clock)
        self._changed_settings: dict[str, str] = {}  # of the process that runs or is kept
        self._granted: float | None = None
        self._until: float | None = None

    @property
    def socket_path(self) -> Path:
        """Return the path of the socket for viewers of its terminal."""
        return self.directory / "terminal.sock"

    def cast_path(self, turn: int) -> Path:
        """Return the path of a turn's recording."""
        return self.directory / "casts" / f"{turn}.cast"

    def uses_scratch(self, scratch: Path) -> bool:
        """Return whether the kept process uses files in this directory. If it does, it removes the directory at its
        end."""
        return self.process is not None and self.process.scratch == scratch

    @property
    def last_used(self) -> float:
        """Return when the process was used last (monotonic seconds)."""
        return self._since

    def grant(self, seconds: float) -> None:
        """Set how many seconds the process stays after the turn that begins now. Overrides the agent's settings."""
        self.keeps, self._granted = True, seconds

    def idle_s(self, configured: float) -> float:
        """Return how many seconds the process may be idle after the turn that begins now.

        `configured` is the agent's setting. The result is infinite if `grant` has set a fixed time.
        """
        if not self.keeps or (self._granted is None and self._is_overdue()):
            return 0.0
        return configured if self._granted is None and self._until is None else math.inf

    def left_s(self, seconds: float) -> float:
        """Return how many seconds a process stays without a turn if it is kept now. `seconds` is the result of
        `idle_s`."""
        if self._granted is not None:
            return self._granted
        return seconds if self._until is None else self._until - self.clock.monotonic()

    def keep(self, process: AgentProcess, key: ReuseKey, seconds: float) -> None:
        """Keep the process for turns with this key, for at most `seconds` without a turn or a viewer."""
        self.process, self.key = process, key
        self._adjust_key()
        self._calls.takes = process.takes_calls
        self.unwanted = ""
        self._seconds, self._since = seconds, self.clock.monotonic()
        if self._granted is not None:
            self._until, self._granted = self._since + self._granted, None
        process.owns_scratch = True
        process.notice = lambda text: self.record_notice(f"{text}, between two turns")
        process.ended.add_done_callback(lambda _: self.on_exit())

    def call(self, call: AnsweredIntent, answer: Callable[[CallAnswer], None], *, seconds: float) -> None:
        """Pass a call to the kept process. `answer` is called with the process's answer, within `seconds`.

        Raises UnsupportedError if the process accepts no calls.
        """
        process = self.process
        if process is None or not self._calls.takes:
            raise UnsupportedError("a process with a terminal takes no such request", "beam attach", subject=call.id)
        if self._calls.add(call, answer, seconds=seconds):
            for each in self._calls.take_unforwarded():
                process.call(each, self._calls.answer_call)

    def record_setting(self, name: str, value: str) -> None:
        """Record that a setting of the process was changed, so that turns with the new value can run in the process."""
        self._changed_settings[name] = value
        self._adjust_key()

    def _adjust_key(self) -> None:
        if self.key is None:
            return
        model, access = self._changed_settings.get("model"), self._changed_settings.get("access")
        if model is not None:
            settings = structs.replace(self.key.settings, model=model)
            self.key = structs.replace(self.key, model=model, settings=settings)
        if access is not None:
            self.key = structs.replace(self.key, access=access)

    def record_notice(self, text: str) -> None:
        """Record a notice outside any turn. If that fails, `reason_to_end` returns the error, so that the process is
        ended."""
        try:
            self._note(events.Notice(code="terminal", text=text))
        except BeamError as error:
            self.unwanted = error.message

    async def take_process(self, key: ReuseKey) -> AgentProcess | None:
        """Return the kept process for a turn with this key; None if there is none.

        A kept process that can't take this turn is ended.
        """
        process, is_same = self.process, self.key == key
        why = self.unwanted or (process.why_unfit if process is not None else "")
        if process is not None and is_same and not process.is_gone and not why:
            self._close_calls("a turn began")
            self.process = None
            return process
        await self._end(why or ("" if is_same else "the next turn wants another session or other settings"))
        return None

    def reason_to_end(self, session_id: str | None) -> str:
        """Return why the process has to end now; "" if it may stay. `session_id` is the agent's current session."""
        process = self.process
        if process is None:
            return ""
        if process.is_gone:
            return "it exited"
        if self.unwanted or process.why_unfit:
            return self.unwanted or process.why_unfit
        if self.key is not None and self.key.session_id != session_id:
            return "its session was archived"
        self._calls.expire()
        if self._is_overdue():
            return "its time is over"
        if process.is_watched:
            self._since = self.clock.monotonic()
        if self.clock.monotonic() - self._since >= self._seconds:
            return f"no turn for {durations.show(self._seconds)}"
        return ""

    def _close_calls(self, why: str) -> None:
        self._calls.close(why)
        self._calls = AgentCalls(self.clock)

    def _is_overdue(self) -> bool:
        return self._until is not None and self.clock.monotonic() >= self._until

    def next_check(self) -> float | None:
        """Return when the process has to be checked next (monotonic seconds); None without a process."""
        if self.process is None:
            return None
        return min(self._since + self._seconds, math.inf if self._until is None else self._until)

    async def end(self, why: str, *, hard: Callable[[], bool] = lambda: False) -> None:
        """Ask the process to quit, end it with everything that it started, and record that.

        This also ends the fixed time for which a sender asked to keep the process (`--keep`).
        """
        self._until = None
        await self._end(why, hard=hard)

    async def _end(self, why: str, *, hard: Callable[[], bool] = lambda: False) -> None:
        process, self.process, self.key = self.process, None, None
        self._changed_settings.clear()
        if process is None:
            return
        self._close_calls("the process ends")
        exited_itself = process.is_gone
        try:
            ended = await process.quit(hard=hard)
        finally:
            await asyncio.shield(process.close(why or "it exited"))
        self._note(process.exited_event(ended, None if exited_itself else why), sync=True)
        if exited_itself:
            how = ended.signal or f"exit code {ended.code}"
            text = f"its kept process ended by itself ({how}): the next turn resumes its session in a new one"
            self._note(events.Notice(code="kept_ended", text=text))

    def drop(self) -> None:
        """End the process immediately without recording that. The next holder finds the process in the journal and
        records its end."""
        process, self.process, self.key = self.process, None, None
        if process is not None:
            process.drop()
