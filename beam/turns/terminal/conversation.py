"""The conversation of one turn on a screen: waits for the agent, types the message once, and reads the answer.

Does not depend on the start or the end of the process.
"""

from __future__ import annotations

import asyncio

from beam.agents.base import Verdict
from beam.base.faults import crash_point
from beam.model.screen_profile import Profile
from beam.pty_adapter import typing
from beam.pty_adapter.turn_end import State
from beam.turns.engine import Engine
from beam.turns.input import TurnInput
from beam.turns.terminal.dialogs import Dialogs
from beam.turns.terminal.process import TerminalProcess
from beam.turns.terminal.reading import reply_on_screen
from beam.turns.terminal.session import TerminalSession
from beam.turns.terminal.verdict import stalled_verdict

LATE_PAINT_S = 1.0  # the last paint may come after everything says that the turn is over
KEPT_READY_S = 10.0  # until a kept agent shows that it takes a message; else a new one is started
ECHO_DELAY_S = 0.3  # after a viewer's key, until its echo is seen
_FOR_EVER_S = 1e9


def is_command(profile: Profile, text: str) -> bool:
    """Return whether the agent's screen would take the text for a command. The sender must also be allowed to give
    commands."""
    return bool(profile.special) and text.startswith("/") and "\n" not in text


class Conversation:
    """One message and its answer on a screen. `typed`: typing the message has begun. `command`: the text is a command
    of the agent's own screen. `reply` is the answer as the screen shows it. `failed` says why the agent did not take
    the message, None if it did."""

    def __init__(
        self, input: TurnInput, engine: Engine, process: TerminalProcess, session: TerminalSession, dialogs: Dialogs
    ) -> None:
        self.typed = False
        self.command = False
        self.reply = ""
        self.failed: Verdict | None = None
        self.input = input
        self.engine = engine
        self.process = process
        self.session = session
        self.dialogs = dialogs
        self.end = session.end
        self.segments: list[typing.Segment] = []

    async def run(self) -> None:
        """Run the conversation, from the start-up dialogs to the end of the turn."""
        is_free = False
        while not is_free:
            if not await self._reach_state(State.READY):
                return
            await self._wait_for_free_composer()
            is_free = self.session.is_over or self.end.state is State.READY  # a viewer's message may ask something
        with self.process.viewers.hold_keys():
            if self.session.is_over or not await self._type_message():
                return
        crash_point("prompt.written")
        if await self._reach_state(State.DONE):
            self.reply = self._reply()  # read now: some agents clear their screen when they quit
            if not self.reply and not self.end.profile.at_cursor:
                await self.session.wait_for(lambda: bool(self._reply()), LATE_PAINT_S)
                self.reply = self._reply()

    async def _type_message(self) -> bool:
        """Type the message and send it; return whether the agent took it."""
        text = self.input.turn.text
        self.typed = True
        self.engine.record_prompt_sent(len(text.encode("utf-8", "replace")))
        self.process.mark("typing")
        try:
            self.command = self.input.commands and is_command(self.process.profile, text)
            self.segments = await typing.type_message(self.session, self.end, text, command=self.command)
        except typing.NotTakenError as error:
            if not self.end.ended and not self.session.is_stopped:
                self.failed = stalled_verdict(str(error), self.session.seen)
            return False
        self.process.mark("sent")
        return True

    async def is_ready_again(self) -> bool:
        """Return whether a kept agent can take a message. Waits while the agent works or viewers are connected."""
        wanted = (State.READY, State.WAITING)
        while not await self.session.until(lambda: self.end.state in wanted, KEPT_READY_S):
            if self.session.is_over or not (self.end.reading.busy or self.process.viewers.count):
                return False
        return self.end.state is State.READY or self.end.reading.dialog is not None

    async def _wait_for_free_composer(self) -> None:
        """Wait until the agent's input field is free: no viewer types, and no viewer has left half a message in it."""
        viewers, loop = self.process.viewers, asyncio.get_running_loop()

        def is_free() -> bool:
            if viewers.typed_at is None:
                return True
            is_empty = self.end.reading.idle or not self.end.profile.prompt
            return is_empty and loop.time() - viewers.typed_at > ECHO_DELAY_S

        await self.session.until(is_free, _FOR_EVER_S)

    async def _reach_state(self, wanted: State) -> bool:
        """Wait until the agent is in the state `wanted`, and answer its dialogs meanwhile.

        Return False if the turn ends first.
        """
        while True:
            await self.session.until(lambda: self.end.state in (wanted, State.WAITING) or self.session.is_over, 3600.0)
            if self.end.state is wanted:
                return True
            if self.session.is_over or not await self.dialogs.answer():
                return False

    def _reply(self) -> str:
        """Return the answer as the screen shows it."""
        mark = self.session.prompt_mark
        return reply_on_screen(self.end, self.process.screen, self.input.turn.text, self.segments, mark)
