"""A turn's access to an agent's screen: passes views to the state machine (`TurnEnd`), and types keys.

Does not depend on the other parts of a turn.
"""

from __future__ import annotations

import asyncio

from beam.agents.base import Verdict
from beam.pty_adapter import typing
from beam.pty_adapter.screen import Signal, View
from beam.pty_adapter.turn_end import TurnEnd
from beam.turns.engine import Engine
from beam.turns.terminal.process import TerminalProcess
from beam.turns.terminal.reading import TranscriptReader

TICK_S = 0.05
FRAME_S = 0.25  # the longest that an unfinished frame is left out
READ_S = 0.1  # between two reads of the transcript


class TerminalSession:
    """Types and waits on the terminal of `process` during one turn, as its `KeyPort`."""

    def __init__(self, engine: Engine, process: TerminalProcess, end: TurnEnd) -> None:
        self.end = end
        self.reader: TranscriptReader | None = None
        self.transcript_verdict: Verdict | None = None  # the transcript's, once it has said that the turn is over
        self.seen = View(())
        self.prompt_mark: Signal | None = None
        self._engine = engine
        self._process = process
        self._screen = process.screen
        self._clock = engine.clock
        self._seen_bytes = -1
        self._framed_at = self._clock.monotonic()
        self._read_at = 0.0

    @property
    def is_stopped(self) -> bool:
        """Return whether a request or a timeout asks the turn to end."""
        return self._engine.is_stopped

    @property
    def is_over(self) -> bool:
        """Return whether nothing more may be typed in this turn."""
        return self.end.ended or self.is_stopped

    # -- the keys ------------------------------------------------------------------------------------------------------

    async def press(self, keys: str) -> None:
        with self._process.viewers.hold_keys():
            await self._process.window.press(keys)

    async def paste(self, text: str) -> None:
        await self._process.window.paste(text)

    def reads_keys(self) -> bool:
        return self._process.window.reads_keys()

    def takes_pastes(self) -> bool:
        return self._screen.bracketed_paste

    def view(self) -> View:
        return self.seen

    def now(self) -> float:
        return self._clock.monotonic()

    async def until(self, claim: typing.Claim, seconds: float) -> bool:
        return await self.wait_for(lambda: claim() or self.is_over, seconds) and claim()

    async def wait_for(self, claim: typing.Claim, seconds: float) -> bool:
        """Wait until `claim` returns True, for at most `seconds`; return whether it did.

        Unlike `until`, this does not return early when the turn is over.
        """
        deadline = self._clock.monotonic() + seconds
        while not claim():
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(min(left, TICK_S)):
                    await self._process.fed.wait()
                await asyncio.sleep(min(left, 0.01))
            except TimeoutError:
                pass
            self.tick()
        return True

    # -- the screen and the transcript ---------------------------------------------------------------------------------

    def tick(self) -> None:
        """Check the screen, the transcript and the viewers for changes."""
        self._process.fed.clear()
        now = self._clock.monotonic()
        signals = self._screen.take_signals()
        for signal in signals:
            if signal.number == 133 and signal.text[:1] == "A":
                self.prompt_mark = signal
        whole = not self._screen.is_drawing or now - self._framed_at > FRAME_S
        if not self._screen.is_drawing:
            self._framed_at = now
        if self._seen_bytes != self._screen.bytes:
            self.seen, self._seen_bytes = self._screen.view(), self._screen.bytes
            self._engine.record_sign_of_life()
        self.end.record_signals(signals, now)
        window = self._process.window
        self.end.look(self.seen, now, whole=whole, reads_keys=window.reads_keys(), foreground=window.foreground_group())
        if now - self._read_at >= READ_S:
            self._read_at = now
            self.read()

    def read(self) -> None:
        """Read the transcript's new lines: they become events and evidence."""
        if self.reader is None:
            return
        self.reader.read()
        if self.reader.state:
            self.end.report_state(self.reader.state, self._clock.monotonic(), error=self.reader.error)
            if self.transcript_verdict is None and self.end.ended and self.end.via == "history":
                self.transcript_verdict = self.reader.verdict()  # text that the agent writes when it quits is no answer
