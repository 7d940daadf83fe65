"""The exec driver: one process per turn. The output of the process becomes events, its end becomes the verdict.

The program is executed only after `prompt.sent` is on disk, because not every program waits for its prompt.
"""

from __future__ import annotations

import asyncio

from msgspec import structs

from beam.agents.base import Decoder, ErrorReader, Exec, Exit, Launch, PieceReader, Verdict
from beam.base.errors import LimitError
from beam.base.faults import crash_point
from beam.model import events
from beam.model.outcome import Status
from beam.model.settings import KIB, Limits
from beam.process import spawn
from beam.process.pipes import Piece
from beam.turns.engine import TICK_S, Engine
from beam.turns.handle import TurnHandle, TurnServices
from beam.turns.input import TurnInput
from beam.turns.process import AgentProcess, ReuseKey, write_scratch

_PIECE_BYTES = 256 * KIB  # of a line that has no end yet: the turn's clocks are looked at between two pieces


async def run_turn(exec: Exec, input: TurnInput, services: TurnServices, handle: TurnHandle) -> Verdict:
    """Run the turn; return its verdict.

    If the agent proves that the session is lost, that is recorded, and the turn begins once more in a new session.
    Raises LimitError for a prompt that is too long for this program, and the exceptions of `Engine.run`.
    """
    engine = Engine(input, services, handle)
    return await engine.run_in_session(
        exec.launch,
        lambda input, launch: ExecDriver(launch, exec.decoder(input.turn), input, engine),
    )


class PipeProcess(AgentProcess):
    """A process with pipes that lives for one turn."""

    can_be_kept = False


class ExecDriver:
    """Runs one process for a turn and decodes its output. The turn ends when the process ends."""

    tick_s = TICK_S
    reports_tool_ends = True
    not_ready = ""

    def __init__(self, launch: Launch, decoder: Decoder, input: TurnInput, engine: Engine) -> None:
        self.launch = launch
        self.input = input
        self._engine = engine
        self._decoder = decoder
        self._is_sent = False
        self._is_cut = False  # one of its lines was too long
        self._process: PipeProcess

    async def start(self) -> PipeProcess:
        launch, input = self.launch, self.input
        _check_sizes(launch, input.limits)
        write_scratch(input.scratch, launch.files)
        env = input.environment(launch)
        self._process = PipeProcess(launch, input)
        child = await spawn.start(
            launch.argv,
            env=input.confined.prepare(env),
            cwd=input.turn.cwd,
            turn_key=input.turn_key,
            on_line=self._on_line,
            on_output=self._on_output,
            on_long_line=self._on_long_line,
            on_error_line=self._on_error_line if isinstance(self._decoder, ErrorReader) else None,
            stdin=launch.stdin is not None,
            stdout_in=input.scratch if launch.drops_output else None,
            unstarted=input.unstarted,
            confinement=input.confined.confinement_for(env),
            line_bytes=input.limits.line_bytes,
            piece_bytes=_PIECE_BYTES if isinstance(self._decoder, PieceReader) else 0,
            stderr_lines=input.limits.stderr_lines,
        )
        self._process.attach(child)
        crash_point("agent.spawned")
        return self._process

    async def begin(self) -> None:
        if self._engine.is_stopped:  # nothing may run any more
            return
        self._is_sent = True
        text = self.launch.stdin or self.input.turn.text.encode("utf-8", "replace")
        self._engine.record_prompt_sent(len(text))
        self._process.child.go()

    async def talk(self) -> None:
        child = self._process.child
        if await child.wait_for_exec():
            crash_point("agent.running")
            if self.launch.stdin is not None:
                await child.feed(self.launch.stdin)
            crash_point("prompt.written")
        await asyncio.shield(self._process.ended)

    def tick(self) -> None:
        """Do nothing, because output arrives through callbacks."""

    def process_gone(self) -> None:
        """Do nothing, because the verdict follows from the output."""

    async def interrupt(self) -> None:
        if not self._is_sent:
            return
        engine = self._engine
        self._process.child.interrupt(self.launch.interrupt)
        until = engine.clock.monotonic() + self.input.limits.grace
        while not engine.must_end_now() and (left := until - engine.clock.monotonic()) > 0:
            await engine.stop.wait(left)

    async def leave(self) -> spawn.ProcessEnd:
        return await self._process.quit(hard=self._engine.must_end_now)

    def finish(self, ended: spawn.ProcessEnd | None) -> Verdict:
        assert ended is not None
        exit = Exit(code=ended.code, signal=ended.signal, stderr_tail=ended.stderr_tail, stopped_by=self.stopped_by())
        bodies, verdict = self._decoder.end(exit)
        for body in bodies:
            self._engine.record(body)
        return self._mark_truncated(verdict)

    def _mark_truncated(self, verdict: Verdict) -> Verdict:
        """Return the verdict, with status `truncated` if the answer contains a line that was cut off.

        That is so if a line was cut off and the answer is at least as long as the longest line that is not cut off.
        """
        most = self.input.limits.line_bytes
        if not self._is_cut or verdict.status is not Status.COMPLETED:
            return verdict
        if len((verdict.reply or "").encode("utf-8", "replace")) < most:
            return verdict
        reason = f"the answer was cut off at {most} bytes of one line, the limit (limits: line_bytes)"
        return structs.replace(verdict, status=Status.TRUNCATED, reason=reason)

    def stopped_by(self) -> str | None:
        return self._engine.stop.reason

    def reuse_key(self, session_id: str | None) -> ReuseKey:
        return ReuseKey.of(self.input, "exec", session_id)

    # -- the output ----------------------------------------------------------------------------------------------------

    def _on_output(self) -> None:
        """Count output as a sign of life, unless it only reports that the model does not answer."""
        if not self._engine.book.retrying:
            self._engine.record_sign_of_life()

    def _on_line(self, line: bytes) -> None:
        decoder = self._decoder
        if isinstance(line, Piece) and isinstance(decoder, PieceReader):
            self._engine.record_events(lambda: decoder.piece(line), retries=self.launch.retries)
        else:
            self._engine.record_events(lambda: decoder.line(line), retries=self.launch.retries)

    def _on_error_line(self, line: bytes) -> None:
        decoder = self._decoder
        if isinstance(decoder, ErrorReader):
            self._engine.record_events(lambda: decoder.error_line(line), retries=self.launch.retries)

    def _on_long_line(self) -> None:
        self._is_cut = True
        limit = self.input.limits.line_bytes
        notice = events.Notice(code="long_line", text=f"a line of more than {limit} bytes was cut there")
        self._engine.record_events(lambda: (notice,))


def _check_sizes(launch: Launch, limits: Limits) -> None:
    for index in launch.prompt_in_argv:
        size = len(launch.argv[index].encode("utf-8", "replace"))
        if size > limits.argv_text_bytes:
            most = limits.argv_text_bytes
            raise LimitError(
                f"the prompt is {size} bytes; this program takes it as an argument, and those end at {most}",
                "put it into a file and name the file in the prompt",
            )
