"""The process of an agent on its terminal: its screen, its viewers, and the recording of its turn.

It may live for one turn or for many. Does not depend on turns, or on the meaning of the screen.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from beam.agents.base import Launch
from beam.base import files
from beam.base.clock import Clock
from beam.model.screen_profile import Profile
from beam.process import spawn
from beam.pty_adapter.cast import Recorder
from beam.pty_adapter.picture import Painter, repaint
from beam.pty_adapter.screen import Screen
from beam.pty_adapter.terminal import Terminal as Window
from beam.pty_adapter.terminal import open_terminal
from beam.turns.input import TurnInput
from beam.turns.process import AgentProcess
from beam.turns.terminal.viewers import Viewers

QUIT_S = 3.0
KEY_S = 0.15  # between two keys
_WRITE_KEYS_S = 0.6  # how long it may take to write the keys


class TerminalProcess(AgentProcess):
    """One process on its terminal."""

    def __init__(self, launch: Launch, profile: Profile, input: TurnInput) -> None:
        super().__init__(launch, input)
        self.profile = profile
        self.screen = Screen(profile.columns, profile.rows)
        self.fed = asyncio.Event()
        self.marks_prompt = False  # whether the program marked its prompt before its first message
        self.window: Window
        self.viewers: Viewers
        self._recorder: Recorder | None = None
        self._opened = contextlib.ExitStack()
        self._is_open = False

    @classmethod
    async def open(cls, launch: Launch, profile: Profile, input: TurnInput) -> TerminalProcess:
        """Start the process, which waits before its exec until it is released, and return it.

        The process starts before a message is sent, because its actions before anything is typed belong to no message.
        Raises the exceptions of `spawn.start`.
        """
        process = cls(launch, profile, input)
        env = input.environment(launch)
        process.window = await open_terminal(
            launch.argv,
            env=input.confined.prepare(env),
            cwd=input.turn.cwd,
            confinement=input.confined.confinement_for(env),
            turn_key=input.turn_key,
            screen=process.screen,
            on_output=process._on_output,
        )
        process.viewers = Viewers(process.window, process._report_typing)
        process._is_open = True
        process.attach(process.window.child)
        return process

    @property
    def is_watched(self) -> bool:
        return bool(self.viewers.count)

    async def open_to_viewers(self, socket: Path) -> None:
        """Let viewers connect to the terminal. If that fails, the process continues without viewers."""
        with contextlib.suppress(OSError):
            if not self.viewers.is_open:
                await self.viewers.open(socket)

    async def quit(self, *, hard: Callable[[], bool]) -> spawn.ProcessEnd:
        """End the program by the keys that make it quit, then end the process; return how it ended.

        The keys are skipped once `hard` returns True.
        """
        keys = self.profile.quit
        read_keys = self.window.reads_keys()
        for key in keys:
            if hard() or self.is_gone or (read_keys and not self.window.reads_keys()):
                break  # another ^C would end a program that is quitting already, before its last output
            await self.press(key)
            await asyncio.wait({self.ended}, timeout=KEY_S)
        until = asyncio.get_running_loop().time() + QUIT_S
        while keys and not (hard() or self.is_gone) and asyncio.get_running_loop().time() < until:
            await asyncio.wait({self.ended}, timeout=KEY_S)
        return await super().quit(hard=hard)

    async def press(self, keys: str) -> bool:
        """Type the keys; return whether all were written.

        A program that does not read its input accepts only a limited number of keys.
        """
        try:
            async with asyncio.timeout(_WRITE_KEYS_S):
                await self.window.press(keys)
        except TimeoutError:
            return False
        return True

    async def close(self, why: str) -> None:
        self.child.end(0)
        self.stop_recording()
        await self.viewers.close(why)
        await self.window.close()
        await super().close(why)

    def drop(self) -> None:
        self.stop_recording()
        super().drop()

    # -- the recording -------------------------------------------------------------------------------------------------

    def start_recording(self, path: Path, *, title: str, clock: Clock) -> None:
        """Record what the program writes and what is typed, from now on, as an asciicast. Raises DiskError."""
        self.stop_recording()
        files.make_directory(path.parent)
        with files.disk_action("write", path):
            handle = files.open_to_write(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            file = self._opened.enter_context(os.fdopen(handle, "w+b"))
            self._recorder = Recorder(
                file,
                columns=self.screen.columns,
                rows=self.screen.rows,
                title=title,
                timestamp=clock.now_ns() // 1_000_000_000,
                now=clock.monotonic,
            )
        if self.screen.bytes:
            self._write_recording(
                lambda recorder: recorder.record_output(repaint(Painter(self.screen).picture()).encode())
            )
        self.window.on_data = lambda data: self._write_recording(lambda recorder: recorder.record_output(data))
        self.window.on_keys = lambda data: self._write_recording(lambda recorder: recorder.record_typed(data))

    def mark(self, text: str) -> None:
        """Add a mark to the recording for something that is not visible on the screen."""
        self._write_recording(lambda recorder: recorder.mark(text))

    def stop_recording(self) -> None:
        """End and complete the recording."""
        self._write_recording(Recorder.end)
        self._recorder = None
        with contextlib.suppress(OSError):
            self._opened.close()

    def _write_recording(self, say: Callable[[Recorder], None]) -> None:
        """Write to the recording. If that fails, the recording ends, and the turn continues."""
        if self._recorder is None:
            return
        try:
            say(self._recorder)
        except OSError as error:
            self._recorder = None
            self.notice(f"the recording ends here: {error.strerror}")

    def _report_typing(self, user: str) -> None:
        self.notice(f"{user} types into its terminal (beam attach)")

    def _on_output(self) -> None:
        self.fed.set()
        if self._is_open:
            self.viewers.wake()
