"""A real program on a real terminal, under its guard."""

from __future__ import annotations

import asyncio
import os
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from beam.base.errors import NotFoundError
from beam.process import spawn
from beam.pty_adapter.screen import Screen
from beam.pty_adapter.terminal import Terminal, environment, open_terminal, typable

ENV = {"PATH": os.environ["PATH"], "COLORTERM": "truecolor", "TMUX": "x", "LINES": "3"}


def test_the_callers_own_terminal_is_not_described_to_the_agent() -> None:
    assert environment(ENV) == {"PATH": ENV["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}


@pytest.mark.parametrize(
    ("text", "keys"),
    [("a\r\nb\rc", "a\nb\nc"), ("\x1b[201~x\x03", "[201~x"), ("tab\there", "tab\there"), ("\x9b31m", "31m")],
)
def test_no_text_can_end_its_paste_or_press_a_key(text: str, keys: str) -> None:
    assert typable(text) == keys


def test_what_is_being_typed_when_the_terminal_is_closed_is_given_up() -> None:
    written: list[bytes] = []

    class Deaf:
        async def write(self, data: bytes) -> None:
            written.append(data)
            await asyncio.Event().wait()

    async def main() -> None:
        terminal = Terminal(Screen(90, 20), lambda: None)
        terminal.on_started(cast(spawn.Child, Deaf()))
        typing = [asyncio.create_task(terminal.press(key)) for key in "ab"]
        while not written:
            await asyncio.sleep(0)
        async with asyncio.timeout(5) as limit:
            await terminal.close()
            await asyncio.gather(*typing)
        assert not limit.expired()

    asyncio.run(main())
    assert written == [b"a"]


def on_terminal(
    tmp_path: Path, code: str, scene: Callable[[Terminal], Awaitable[None]], *, argv: tuple[str, ...] = ()
) -> tuple[Terminal, spawn.ProcessEnd]:
    """The program on a terminal of 90 x 20, until the scene and it are over."""

    async def run() -> tuple[Terminal, spawn.ProcessEnd]:
        terminal = await open_terminal(
            argv or (sys.executable, "-c", code),
            env=ENV,
            cwd=str(tmp_path),
            turn_key=uuid.uuid4().hex,
            screen=Screen(90, 20),
            on_output=lambda: None,
        )
        try:
            terminal.child.go()
            await scene(terminal)
        finally:
            terminal.child.end(1.0)
            ended = await terminal.child.wait()
            await terminal.close()
        return terminal, ended

    return asyncio.run(run())


async def shows(terminal: Terminal, text: str, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while text not in terminal.screen.view().text:
        assert time.monotonic() < deadline, terminal.screen.view().text
        await asyncio.sleep(0.01)


@pytest.mark.acceptance
def test_the_program_sees_a_terminal_of_that_size_from_its_first_moment(tmp_path: Path) -> None:
    code = "import os, sys; print(os.get_terminal_size(), sys.stdin.isatty(), os.tcgetpgrp(0) > 0)"

    async def scene(terminal: Terminal) -> None:
        await shows(terminal, "columns=90, lines=20) True True")
        await terminal.child.wait()

    _, ended = on_terminal(tmp_path, code, scene)
    assert (ended.code, ended.left) == (0, 0)


@pytest.mark.acceptance
def test_control_c_reaches_the_program_once(tmp_path: Path) -> None:
    code = (
        "import signal, time\nn = 0\ndef hit(*a):\n    global n\n    n += 1\nsignal.signal(2, hit)\n"
        "print('up', flush=True)\n"
        "t = time.monotonic()\nwhile time.monotonic() - t < 1.5: time.sleep(0.05)\nprint('hits', n, flush=True)\n"
    )

    async def scene(terminal: Terminal) -> None:
        await shows(terminal, "up")
        await terminal.press("\x03")
        await shows(terminal, "hits 1")

    on_terminal(tmp_path, code, scene)


@pytest.mark.acceptance
def test_queries_are_answered_and_raw_mode_is_seen(tmp_path: Path) -> None:
    code = (
        "import sys, tty, os\ntty.setraw(0)\nos.write(1, b'\\x1b[6n')\nanswer = os.read(0, 20)\n"
        "print(repr(answer), end='', flush=True)\nos.read(0, 1)\n"
    )

    async def scene(terminal: Terminal) -> None:
        assert not terminal.reads_keys() or terminal.screen.bytes
        await shows(terminal, "[1;1R")
        assert terminal.reads_keys()
        assert terminal.foreground_group() > 0
        await terminal.press("q")
        await terminal.child.wait()

    _, ended = on_terminal(tmp_path, code, scene)
    assert ended.code == 0


@pytest.mark.acceptance
def test_200_kb_arrive_verbatim_while_the_program_writes(tmp_path: Path) -> None:
    code = (
        "import os, sys, tty, hashlib\ntty.setraw(0)\nos.write(1, b'\\x1b[?2004h')\ngot = b''\n"
        "while b'\\x1b[201~' not in got:\n    got += os.read(0, 4096); os.write(1, b'.' * 2000)\n"
        "text = got[6:-6]\n"
        "os.write(1, b'\\x1b[2J\\x1b[H%d %s' % (len(text), hashlib.sha256(text).hexdigest()[:12].encode()))\n"
        "os.read(0, 1)\n"
    )
    text = "".join(f"line {number} ─ 日本 🙂\tx\n" for number in range(7500))
    import hashlib

    data = text.encode()

    async def scene(terminal: Terminal) -> None:
        deadline = time.monotonic() + 10
        while not terminal.screen.bracketed_paste:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        await terminal.paste(text)
        await shows(terminal, f"{len(data)} {hashlib.sha256(data).hexdigest()[:12]}", 30)

    assert len(data) > 200_000
    on_terminal(tmp_path, code, scene)


@pytest.mark.acceptance
def test_what_the_program_left_behind_is_ended_with_it(tmp_path: Path) -> None:
    async def scene(terminal: Terminal) -> None:
        await shows(terminal, "left")

    script = "setsid sleep 300 & nohup sleep 300 >/dev/null 2>&1 & echo left; exec sleep 300"
    _, ended = on_terminal(tmp_path, "", scene, argv=("bash", "-c", script))
    assert ended.left == 0


@pytest.mark.acceptance
def test_a_program_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    async def scene(terminal: Terminal) -> None:
        raise AssertionError("it ran")

    with pytest.raises(NotFoundError, match="no-such-program"):
        on_terminal(tmp_path, "", scene, argv=("no-such-program",))
