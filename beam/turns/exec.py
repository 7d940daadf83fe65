"""The exec face: one process a turn. Its bytes become events, its end a verdict.

Owns the turn's clocks, the stop ladder, and the one fresh start after a session that is proven lost. The process is
executed after `prompt.sent` is on disk: not every program waits for its prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from beam.agents.base import Decoder, ErrorReader, Exec, Exit, Host, Launch, Turn, Verdict
from beam.base.clock import Awake, Clock
from beam.base.errors import BeamError, LimitError
from beam.base.faults import crash_point
from beam.model import events
from beam.model.events import Event
from beam.model.limits import Limits
from beam.model.outcome import Class, Status
from beam.process import spawn
from beam.process.environment import environment
from beam.turns.confine import Confined
from beam.turns.deltas import Deltas
from beam.turns.request import Record, as_new_session, lost, write_scratch
from beam.turns.stop import Stop

_LOOK_S = 0.1


class Play(Struct, frozen=True, kw_only=True):
    """What one turn on this face needs. Times are seconds."""

    exec: Exec
    turn: Turn
    host: Host
    turn_key: str
    limits: Limits
    environ: Mapping[str, str]
    child_env: Mapping[str, str]
    timeout: float
    idle_timeout: float
    confined: Confined = Confined()
    unstarted: Path | None = None


async def play(play: Play, record: Record, stop: Stop, clock: Clock, look: Callable[[], None]) -> Verdict:
    """The verdict on the turn. A session that the agent proves lost is said, and the turn begins once afresh."""
    clock = Awake(clock)
    began = clock.monotonic()
    process = _Process(play, play.turn, record, stop, clock, look, began)
    verdict = await process.run()
    if not process.lost or stop.reason is not None:
        return verdict
    again = _Process(play, as_new_session(play.turn), record, stop, clock, look, began)
    verdict = await again.run()
    return Verdict(**{name: getattr(verdict, name) for name in Verdict.__struct_fields__} | {"session": "lost"})


class _Process:
    """One process of the turn."""

    def __init__(
        self, play: Play, turn: Turn, record: Record, stop: Stop, clock: Clock, look: Callable[[], None], began: float
    ) -> None:
        self.play = play
        self.turn = turn
        self.record = record
        self.stop = stop
        self.clock = clock
        self.look = look
        self.began = began
        self.lost = False
        self.retries: int | None = None
        self.decoder: Decoder = play.exec.decoder(turn)
        self.deltas = Deltas(play.limits.deltas_per_second)
        self.tools: dict[str, str | None] = {}
        self.asks: set[str] = set()
        self.quiet_since = began
        self.retrying = False
        self.broken: BaseException | None = None

    async def run(self) -> Verdict:
        launch = self.play.exec.launch(self.turn, self.play.host)
        _check_sizes(launch, self.play.limits)
        if (gone := lost(launch, self.turn)) is not None:
            self._body(gone)
            return Verdict(status=Status.FAILED, class_=Class.BAD_REQUEST, reason=gone.reason, session="lost")
        self.retries = launch.retries
        write_scratch(Path(self.turn.scratch), launch.files)
        env = environment(self.play.environ, {**self.play.child_env, **launch.env})
        child = await spawn.start(
            launch.argv,
            env=self.play.confined.ready(env),
            cwd=self.turn.cwd,
            turn_key=self.play.turn_key,
            on_line=self._line,
            on_output=self._alive,
            on_long_line=self._long_line,
            on_error_line=self._error_line if isinstance(self.decoder, ErrorReader) else None,
            stdin=launch.stdin is not None,
            stdout_in=Path(self.turn.scratch) if launch.drops_output else None,
            unstarted=self.play.unstarted,
            confinement=self.play.confined.within(env),
            line_bytes=self.play.limits.line_bytes,
            stderr_lines=self.play.limits.stderr_lines,
        )
        crash_point("agent.spawned")
        try:
            ended = await self._accompany(child, launch)
        except BaseException as error:
            child.end(0)
            with contextlib.suppress(BeamError):  # that is why
                await child.wait()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from error
            raise
        if self.broken is not None:
            raise self.broken
        return self._end(ended, child)

    async def _accompany(self, child: spawn.Child, launch: Launch) -> spawn.Ended:
        self.record(
            events.AgentStarted(
                pid=child.pid,
                start_ticks=child.start_ticks,
                guard_pid=child.guard_pid,
                guard_start_ticks=child.guard_start_ticks,
                argv=_shown(launch),
                cwd=self.turn.cwd,
            )
        )
        crash_point("agent.started")
        self._prompt_sent(launch)
        child.go()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(child.wait())
            group.create_task(self._feed(child, launch))
            ladder = group.create_task(self._stop_when_asked(child, launch))
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=self._tick())
                self._step()
            ladder.cancel()
        return waiting.result()

    async def _feed(self, child: spawn.Child, launch: Launch) -> None:
        if not await child.executed():
            return
        crash_point("agent.running")
        if launch.stdin is not None:
            await child.feed(launch.stdin)
        crash_point("prompt.written")

    def _prompt_sent(self, launch: Launch) -> None:
        crash_point("prompt.before")
        self.record(events.PromptSent(bytes=len(launch.stdin or self.turn.text.encode("utf-8", "replace"))), sync=True)
        crash_point("prompt.sent")

    # -- what comes out of it --------------------------------------------------------------------------------------

    def _alive(self) -> None:
        """Output is a sign of life, unless all that it says is that the model does not answer."""
        if not self.retrying:
            self.quiet_since = self.clock.monotonic()

    def _line(self, line: bytes) -> None:
        if self.broken is None:
            self._guarded(lambda: self._bodies(self.decoder.line(line)))

    def _error_line(self, line: bytes) -> None:
        decoder = self.decoder
        if self.broken is None and isinstance(decoder, ErrorReader):
            self._guarded(lambda: self._bodies(decoder.error_line(line)))

    def _long_line(self) -> None:
        limit = self.play.limits.line_bytes
        notice = events.Notice(code="long_line", text=f"a line of more than {limit} bytes was cut there")
        self._guarded(lambda: self._body(notice))

    def _guarded(self, step: Callable[[], object]) -> None:
        """A callback of the event loop must not raise: what goes wrong ends the turn, and `run` raises it."""
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - raised again by run()
            self.broken = error
            self.stop.ask("broken")

    def _bodies(self, bodies: Sequence[Event]) -> None:
        for body in bodies:
            self._body(body)

    def _body(self, body: Event) -> None:
        if self.turn.fork and isinstance(body, events.SessionStarted):
            body = msgspec.structs.replace(body, forked_from=self.turn.session_id)
        self.retrying = isinstance(body, events.StatusChanged) and body.state == "retrying"
        if isinstance(body, events.TextDelta):
            self.deltas.add(body)
            return
        for delta in self.deltas.before(body, self.clock.monotonic()):
            self.record(delta)
        self._remember(body)
        self.record(body)

    def _remember(self, body: Event) -> None:
        match body:
            case events.ToolCalled():
                self.tools[body.call_id] = body.parent
            case events.ToolReturned():
                self.tools.pop(body.call_id, None)
            case events.PermissionAsked():
                self.asks.add(body.ask_id)
            case events.PermissionDecided() | events.PermissionCancelled():
                self.asks.discard(body.ask_id)
            case events.SessionLost():
                self.lost = True
            case events.StatusChanged(state="retrying", attempt=int(attempt)):
                if self.retries is not None and attempt > self.retries:
                    self.stop.ask("retries")

    # -- clocks ----------------------------------------------------------------------------------------------------

    def _tick(self) -> float:
        due = self.deltas.due_in(self.clock.monotonic())
        return _LOOK_S if due is None else min(_LOOK_S, due + 0.001)

    def _step(self) -> None:
        now = self.clock.monotonic()
        due = self.deltas.due_in(now)
        if due is not None and due <= 0:
            self._guarded(lambda: [self.record(delta) for delta in self.deltas.take(now)])
        self._guarded(self.look)
        if self.tools or self.asks:
            self.quiet_since = now
        if self.stop.reason is None:
            if now - self.began > self.play.timeout:
                self.stop.ask("timeout")
            elif now - self.quiet_since > self.play.idle_timeout:
                self.stop.ask("idle")

    async def _stop_when_asked(self, child: spawn.Child, launch: Launch) -> None:
        """The ladder: ask the agent, wait `grace`, then end it and everything it started."""
        while self.stop.reason is None:
            await self.stop.wait(3600)
        if self.stop.reason != "broken":
            child.interrupt(launch.interrupt)
            until = self.clock.monotonic() + self.play.limits.grace
            while not self.stop.hard and (left := until - self.clock.monotonic()) > 0:
                await self.stop.wait(left)
        child.end(0 if self.stop.hard or self.stop.reason == "broken" else 1.0)

    # -- its end ---------------------------------------------------------------------------------------------------

    def _end(self, ended: spawn.Ended, child: spawn.Child) -> Verdict:
        stopped_by = self.stop.reason
        exit = Exit(code=ended.code, signal=ended.signal, stderr_tail=ended.stderr_tail, stopped_by=stopped_by)
        bodies, verdict = self.decoder.end(exit)
        self._bodies(bodies)
        for delta in self.deltas.end(self.clock.monotonic()):
            self.record(delta)
        for call_id, parent in self.tools.items():
            self.record(events.ToolReturned(call_id=call_id, unfinished=True, parent=parent))
        self.record(
            events.AgentExited(
                code=ended.code,
                signal=ended.signal,
                stopped_by=stopped_by,
                stderr_tail=ended.stderr_tail,
                swept=ended.swept,
            )
        )
        crash_point("agent.exited")
        if self.lost and verdict.status is Status.COMPLETED:
            self.lost = False
        return verdict


def _shown(launch: Launch) -> tuple[str, ...]:
    return tuple("<prompt>" if index in launch.prompt_in_argv else word for index, word in enumerate(launch.argv))


def _check_sizes(launch: Launch, limits: Limits) -> None:
    for index in launch.prompt_in_argv:
        size = len(launch.argv[index].encode("utf-8", "replace"))
        if size > limits.argv_text_bytes:
            most = limits.argv_text_bytes
            raise LimitError(
                f"the prompt is {size} bytes; this program takes it as an argument, and those end at {most}",
                "put it into a file and name the file in the prompt",
            )
