"""An agent alive on its terminal: its process, its screen, who looks at it, and the recording of its turn.

It may live for one turn or for many. Must not know what a turn is, or what the screen means.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from beam.agents.base import Launch
from beam.base import files
from beam.base.clock import Clock
from beam.model import events
from beam.model.screen_profile import Profile
from beam.process import spawn
from beam.process.confinement import Confinement
from beam.pty_adapter.cast import Recorder
from beam.pty_adapter.picture import Painter, repaint
from beam.pty_adapter.screen import Screen
from beam.pty_adapter.terminal import Terminal as Window
from beam.pty_adapter.terminal import open_terminal
from beam.turns.terminal.viewers import Viewers

QUIT_S = 3.0
GRACE_S = 1.0
KEY_S = 0.15  # between two keys
_TYPED_S = 0.6  # until a key has left


class Living:
    """One process on its terminal. `turn` is the number of the turn that started it, `fresh_session_id` what it was
    given for a new session, `scratch` where the files are that it was started with; `notice` gets what the journal
    should say of its viewers."""

    def __init__(
        self, launch: Launch, profile: Profile, *, cwd: str, turn: int, fresh_session_id: str, scratch: Path
    ) -> None:
        self.launch = launch
        self.profile = profile
        self.cwd = cwd
        self.turn = turn
        self.fresh_session_id = fresh_session_id
        self.scratch = scratch
        self.screen = Screen(profile.columns, profile.rows)
        self.fed = asyncio.Event()
        self.window: Window
        self.viewers: Viewers
        self.ended: asyncio.Task[spawn.Ended]
        self.notice: Callable[[str], None] = _nobody
        self._recorder: Recorder | None = None
        self._opened = contextlib.ExitStack()
        self._is_open = False

    @classmethod
    async def open(
        cls,
        launch: Launch,
        profile: Profile,
        *,
        env: Mapping[str, str],
        cwd: str,
        confinement: Confinement | None = None,
        turn: int,
        turn_key: str,
        fresh_session_id: str,
        scratch: Path,
    ) -> Living:
        """The process, held until `go`. Raises what `spawn.start` raises."""
        living = cls(launch, profile, cwd=cwd, turn=turn, fresh_session_id=fresh_session_id, scratch=scratch)
        living.window = await open_terminal(
            launch.argv,
            env=env,
            cwd=cwd,
            confinement=confinement,
            turn_key=turn_key,
            screen=living.screen,
            on_output=living._changed,
        )
        living.viewers = Viewers(living.window, living._typed_by)
        living._is_open = True
        living.ended = asyncio.create_task(living.window.child.wait())
        return living

    def go(self) -> None:
        """The program begins. What it does before it is typed to, it does at each start: no message is meant by it."""
        self.window.child.go()

    @property
    def gone(self) -> bool:
        """Whether its process has ended."""
        return self.ended.done()

    def started(self, *, since: int | None) -> events.AgentStarted:
        """What the journal says of it; `since`: the turn that started it, null for this one."""
        child = self.window.child
        return events.AgentStarted(
            pid=child.pid,
            start_ticks=child.start_ticks,
            guard_pid=child.guard_pid,
            guard_start_ticks=child.guard_start_ticks,
            argv=self.launch.argv,
            cwd=self.cwd,
            since=since,
        )

    def exited(self, ended: spawn.Ended, stopped_by: str | None) -> events.AgentExited:
        """What the journal says of its end."""
        return events.AgentExited(
            pid=self.window.child.pid,
            code=ended.code,
            signal=ended.signal,
            stopped_by=stopped_by,
            swept=ended.swept,
        )

    async def show(self, socket: Path) -> None:
        """Lets others look at it. Where that can't be, it goes on unseen."""
        with contextlib.suppress(OSError):
            if not self.viewers.is_open:
                await self.viewers.open(socket)

    async def quit(self, *, hard: Callable[[], bool]) -> spawn.Ended:
        """How it ended, asked to quit by its keys first; `hard` says whether there is no time for that."""
        keys = self.profile.quit
        read_keys = self.window.reads_keys()
        for key in keys:
            if hard() or self.gone or (read_keys and not self.window.reads_keys()):
                break  # one that leaves already would be ended by another ^C, before its last words
            await self.press(key)
            await asyncio.wait({self.ended}, timeout=KEY_S)
        until = asyncio.get_running_loop().time() + QUIT_S
        while keys and not (hard() or self.gone) and asyncio.get_running_loop().time() < until:
            await asyncio.wait({self.ended}, timeout=KEY_S)
        self.window.child.end(0 if hard() else GRACE_S)
        return await asyncio.shield(self.ended)

    async def press(self, keys: str) -> bool:
        """Types the keys; whether they have left: a program that does not read takes no more at some time."""
        try:
            async with asyncio.timeout(_TYPED_S):
                await self.window.press(keys)
        except TimeoutError:
            return False
        return True

    async def close(self, why: str) -> None:
        """Nothing is typed, shown or recorded any more; the process has ended, or will at once."""
        self.window.child.end(0)
        self.stop_recording()
        await self.viewers.close(why)
        await self.window.close()
        with contextlib.suppress(Exception):  # who waited for its end was told
            await asyncio.shield(self.ended)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def drop(self) -> None:
        """The same, for a holder that can't wait: its guard ends it."""
        self.window.child.end(0)
        self.stop_recording()
        asyncio.get_running_loop().create_task(self.close("its holder let it go"))

    # -- the recording -------------------------------------------------------------------------------------------------

    def record(self, path: Path, *, title: str, clock: Clock) -> None:
        """Records what it writes and what is typed, from now on, as an asciicast. Raises DiskError."""
        self.stop_recording()
        files.make_directory(path.parent)
        with files.disk("write", path):
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
            self._tell(lambda recorder: recorder.wrote(repaint(Painter(self.screen).picture()).encode()))
        self.window.on_data = lambda data: self._tell(lambda recorder: recorder.wrote(data))
        self.window.on_keys = lambda data: self._tell(lambda recorder: recorder.typed(data))

    def mark(self, text: str) -> None:
        """Something happened that one does not see."""
        self._tell(lambda recorder: recorder.mark(text))

    def stop_recording(self) -> None:
        """The recording is whole."""
        self._tell(Recorder.end)
        self._recorder = None
        with contextlib.suppress(OSError):
            self._opened.close()

    def _tell(self, say: Callable[[Recorder], None]) -> None:
        """A recording that can't be written ends there: the turn is worth more."""
        if self._recorder is None:
            return
        try:
            say(self._recorder)
        except OSError as error:
            self._recorder = None
            self.notice(f"the recording ends here: {error.strerror}")

    def _typed_by(self, user: str) -> None:
        self.notice(f"{user} types into its terminal (beam attach)")

    def _changed(self) -> None:
        self.fed.set()
        if self._is_open:
            self.viewers.changed()


def _nobody(text: str) -> None:
    """Has no journal."""
