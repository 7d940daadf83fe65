"""An agent on its own terminal: its guarded process, its screen, and the keys typed to it.

The agent's output is always read, its queries are answered immediately, and typed keys keep their order. Does not
depend on profiles, turns, or the meaning of a screen.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence

from beam.process import spawn
from beam.process.confinement import Confinement
from beam.pty_adapter.screen import Screen

TERMINAL_VARIABLES = {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
REMOVED_VARIABLES = (
    "COLORTERM",
    "LC_ALL",
    "LINES",
    "COLUMNS",
    "TMUX",
    "STY",
    "TERM_PROGRAM",
    "KITTY_WINDOW_ID",
    "WT_SESSION",
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WRITTEN_AT_ONCE = 1024


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program on this terminal. Variables that describe the caller's terminal are
    removed."""
    return {name: value for name, value in env.items() if name not in REMOVED_VARIABLES} | TERMINAL_VARIABLES


def typable(text: str) -> str:
    """Return the text without control characters other than line feeds and tabs. No character in it can end a paste or
    act as a key."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _do_nothing(data: bytes) -> None:
    """Ignore the data. This is the callback while no viewer is attached."""


class Terminal:
    """A running agent and its screen. Call `open_terminal` to create one."""

    def __init__(self, screen: Screen, on_output: Callable[[], None]) -> None:
        self.screen = screen
        self.child: spawn.Child
        self.on_data: Callable[[bytes], None] = _do_nothing  # gets what the agent writes, as it comes
        self.on_keys: Callable[[bytes], None] = _do_nothing  # gets what beam types; no answers to queries
        self._on_output = on_output
        self._waiting: list[bytes] = []
        self._more = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._writer: asyncio.Task[None] | None = None

    def show(self, data: bytes) -> None:
        """Draw output of the agent on the screen, send it to the viewer, and answer queries in it."""
        self.on_data(data)
        self.screen.feed(data)
        if replies := self.screen.take_replies():
            self._queue_bytes(replies)
        self._on_output()

    async def press(self, keys: str) -> None:
        """Type keys, report them to the callback `on_keys`, and return when they are written."""
        data = keys.encode("utf-8", "replace")
        self.on_keys(data)
        await self.type(data)

    async def type(self, data: bytes) -> None:
        """Type the keys of a viewer, without a call of `on_keys`. Return when they are written."""
        self._queue_bytes(data)
        await self._empty.wait()

    async def paste(self, text: str) -> None:
        """Type the text as one paste if the agent takes pastes, otherwise as plain keys."""
        clean = typable(text)
        await self.press(f"\x1b[200~{clean}\x1b[201~" if self.screen.bracketed_paste else clean)

    def reads_keys(self) -> bool:
        """Return whether the agent reads single keys (raw mode) and not whole lines."""
        return self.child.reads_keys()

    def foreground_group(self) -> int:
        """Return the process group in the foreground of the terminal; 0 if it is unknown."""
        return self.child.foreground_group()

    async def close(self) -> None:
        """Stop typing; keys that are not written yet are dropped."""
        if self._writer is not None:
            self._writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writer
        self._empty.set()

    def on_started(self, child: spawn.Child) -> None:
        """Record the started process. Keys can be typed from now on."""
        self.child = child
        self._writer = asyncio.get_running_loop().create_task(self._write())

    def _queue_bytes(self, data: bytes) -> None:
        self._waiting.append(data)
        self._empty.clear()
        self._more.set()

    async def _write(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                data = self._waiting.pop(0)
                for at in range(0, len(data), _WRITTEN_AT_ONCE):
                    await self.child.write(data[at : at + _WRITTEN_AT_ONCE])
                    await asyncio.sleep(0)  # what it answers is read in between
            self._empty.set()


async def open_terminal(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    confinement: Confinement | None = None,
    turn_key: str,
    screen: Screen,
    on_output: Callable[[], None],
) -> Terminal:
    """Start the agent on a terminal of the screen's size. The agent's program is not executed until `child.go` is
    called.

    Raises the errors of `spawn.start`.
    """
    terminal = Terminal(screen, on_output)
    child = await spawn.start_in_terminal(
        argv,
        env=environment(env),
        cwd=cwd,
        confinement=confinement,
        turn_key=turn_key,
        columns=screen.columns,
        rows=screen.rows,
        on_data=terminal.show,
    )
    terminal.on_started(child)
    return terminal
