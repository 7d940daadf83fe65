"""The process of an agent that speaks a protocol: its link, and the bytes in both directions.

It may live for one turn or for many. Does not depend on turns, or on the protocol.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from beam.agents import link
from beam.agents.base import Exit, Launch
from beam.base.clock import Awake, Clock
from beam.model.events import AgentExited
from beam.process import spawn
from beam.turns.asks import CallAnswer
from beam.turns.input import TurnInput
from beam.turns.process import AgentProcess

QUIT_S = 3.0
_STRAYED_REASON = "it began to work between two turns"


class LinkProcess(AgentProcess):
    """One process and its link. `ready`: it can take a prompt. `broken` says why the conversation is broken, None if it
    is not."""

    takes_calls = True

    def __init__(self, launch: Launch, conversation: link.Link, input: TurnInput, clock: Clock) -> None:
        super().__init__(launch, input)
        self.link = conversation
        self.ready = False
        self.broken: link.Broken | None = None
        self._clock = Awake(clock)  # stands still between two turns, when nobody reads it
        self._line_bytes = input.limits.line_bytes
        self._is_cut = False  # one of its lines was too long
        self._steps: deque[link.Step] = deque()
        self._is_taking = False
        self._out: deque[bytes | None] = deque()  # None: the end of stdin
        self._writing: asyncio.Task[None] | None = None
        self._listener: Callable[[link.Step], None] = self.on_idle_step
        self._on_output: Callable[[], None] = _ignore_output
        self._settle: Callable[[str, CallAnswer], object] = _ignore_answer

    async def start(self, input: TurnInput) -> None:
        """Start the process, which waits before its exec until `go`. Raises the exceptions of `spawn.start`."""
        env = input.environment(self.launch)
        child = await spawn.start(
            self.launch.argv,
            env=input.confined.prepare(env),
            cwd=input.turn.cwd,
            turn_key=input.turn_key,
            on_line=self._on_line,
            on_output=lambda: self._on_output(),
            on_long_line=self._on_long_line,
            on_error_line=self.link.error_line if isinstance(self.link, link.ErrorListener) else None,
            stdin=True,
            confinement=input.confined.confinement_for(env),
            line_bytes=self._line_bytes + 1,  # so that a line of this length is known to be too long
            stderr_lines=input.limits.stderr_lines,
        )
        self.attach(child)

    def listen(self, listener: Callable[[link.Step], None] | None, on_output: Callable[[], None] | None = None) -> None:
        """Pass the link's steps to `listener` until the next call of this method; None if no turn runs.

        `on_output` is called at any output of the process.
        """
        self._listener = listener or self.on_idle_step
        self._on_output = on_output or _ignore_output

    def go(self) -> None:
        """Let the program begin, and open the conversation with it."""
        self.child.go()
        self._carry_out_all(self.link.open(self._clock.monotonic()))

    @property
    def why_unfit(self) -> str:
        return "" if self.broken is None else self.broken.reason

    # -- the conversation ----------------------------------------------------------------------------------------------

    def do(self, intent: link.Intent) -> None:
        """Pass an intent to the link, unless the agent accepts no more input."""
        if self.broken is None and not self.is_gone:
            self._carry_out_all(self.link.do(intent, self._clock.monotonic()))

    def call(self, call: link.AnsweredIntent, settle: Callable[[str, CallAnswer], object]) -> None:
        self._settle = settle
        self.do(call)

    def wake(self) -> None:
        """Wake the link if the time that it asked for has come."""
        now = self._clock.monotonic()
        if self.link.due is not None and now >= self.link.due and self.broken is None:
            self._carry_out_all(self.link.on_due(now))

    def finish(self, ended: spawn.ProcessEnd, stopped_by: str | None) -> None:
        """Tell the link that the process ended."""
        steps = self.link.end(self.exit_of(ended, stopped_by))
        self._carry_out_all(step for step in steps if not (self._is_cut and isinstance(step, link.Over)))

    def exited_event(self, ended: spawn.ProcessEnd, stopped_by: str | None) -> AgentExited:
        return super().exited_event(ended, stopped_by or (self.why_unfit if self._is_cut else None))

    def exit_of(self, ended: spawn.ProcessEnd, stopped_by: str | None) -> Exit:
        """Return the end of the process as the adapter's `Exit`."""
        return Exit(code=ended.code, signal=ended.signal, stderr_tail=ended.stderr_tail, stopped_by=stopped_by)

    def _on_line(self, line: bytes) -> None:
        if self.broken is None and len(line) <= self._line_bytes:
            self._carry_out_all(self.link.line(line, self._clock.monotonic()))

    def _on_long_line(self) -> None:
        most = self._line_bytes
        self._carry_out_all(
            [link.Broken(reason=f"it sent a line of more than {most} bytes, the limit (limits: line_bytes)")]
        )
        self._is_cut = True
        if self._listener == self.on_idle_step:
            self.child.end(0)

    def _carry_out_all(self, steps: Iterable[link.Step]) -> None:
        """Carry out the steps in order. Further steps that result from them are carried out afterwards."""
        self._steps.extend(steps)
        if self._is_taking:
            return
        self._is_taking = True
        try:
            while self._steps:
                self._carry_out(self._steps.popleft())
        finally:
            self._is_taking = False

    def _carry_out(self, step: link.Step) -> None:
        match step:
            case link.Send():
                self._write(step.data)
            case link.Eof():
                self._write(None)
            case _:
                if isinstance(step, link.Ready):
                    self.ready = True
                elif isinstance(step, link.Broken):
                    self.broken = self.broken or step
                self._listener(step)

    def on_idle_step(self, step: link.Step) -> None:
        """Handle a step that comes when no turn runs in the process.

        An agent that works on its own can't take the next turn. Late lines about the last turn are dropped.
        """
        if isinstance(step, link.Answered):
            self._settle(step.id, answer_of(step))
        if isinstance(step, link.Asked):
            self.do(link.Decide(key=step.key, decision="cancelled"))
        if isinstance(step, link.Asked | link.Stirred):
            self.broken = self.broken or link.Broken(reason=_STRAYED_REASON)

    # -- the bytes -----------------------------------------------------------------------------------------------------

    def _write(self, data: bytes | None) -> None:
        self._out.append(data)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._out:
            data = self._out.popleft()
            if data is None:
                self.child.close_stdin()
            else:
                await self.child.write(data)

    async def quit(self, *, hard: Callable[[], bool]) -> spawn.ProcessEnd:
        if not hard() and self.ready:
            self.do(link.Close())
            until = asyncio.get_running_loop().time() + QUIT_S
            while not (hard() or self.is_gone or self.broken) and asyncio.get_running_loop().time() < until:
                await asyncio.wait({self.ended}, timeout=0.05)
        return await super().quit(hard=hard)

    async def close(self, why: str) -> None:
        self.listen(None)
        if self._writing is not None:
            self._writing.cancel()
        await super().close(why)


def answer_of(step: link.Answered) -> CallAnswer:
    """Return the link's step as the answer to a call."""
    return CallAnswer(ok=step.ok, code=step.code, message=step.message, result=step.result)


def _ignore_answer(call_id: str, answer: CallAnswer) -> None:
    """Ignore the answer, because no call waits for it."""


def _ignore_output() -> None:
    """Ignore the output, because no turn runs."""
