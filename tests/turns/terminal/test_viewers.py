"""Who looks at an agent's terminal: through the real socket, at a real program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from beam.process import table
from beam.pty_adapter.picture import Runs
from beam.pty_adapter.screen import Screen
from beam.pty_adapter.terminal import open_terminal
from beam.turns.terminal import viewers as viewing
from beam.turns.terminal.nearby import short_path
from beam.turns.terminal.viewers import Bye, Frame, Keys, ViewerMessage, Viewers, typing_file

pytestmark = pytest.mark.acceptance
ECHO = "import sys\nprint('up', flush=True)\nfor line in sys.stdin: print('got', line.strip(), flush=True)\n"
LINES = "b'x' * 78 + b'\\r\\n'"
# Connects, types, and prints what it is told; with an argument, from a grandchild without an environment.
STRANGER = """
import os, socket, subprocess, sys
if len(sys.argv) > 2:
    sys.exit(subprocess.run(["/usr/bin/env", "-i", sys.executable, "-c", sys.argv[2], sys.argv[1]]).returncode)
peer = socket.socket(socket.AF_UNIX)
peer.settimeout(3)
peer.connect(sys.argv[1])
data = b""
try:
    peer.send(b'{"type":"keys","data":"c3RvbGVuDQ=="}\\n')
except BrokenPipeError:
    pass
try:
    while part := peer.recv(65536):
        data += part
except OSError:
    pass
print(data.decode())
"""
FLOOD = f"import os\nfor _ in range(30): os.write(1, ({LINES}) * 800)\nprint('over', flush=True)\nos.read(0, 1)\n"


class Viewer:
    """One viewer, at the other end of the socket."""

    here: ClassVar[list[Viewer]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, directory: Path) -> None:
        self.reader = reader
        self.writer = writer
        self.directory = directory
        self.nonces: list[str] = []
        self.rows: dict[int, Runs] = {}
        self.bye: str | None = None

    @classmethod
    async def come(cls, path: Path) -> Viewer:
        with short_path(path.parent) as short:
            ends = await asyncio.open_unix_connection(str(short / path.name), limit=1 << 24)
        viewer = cls(*ends, path.parent)
        cls.here.append(viewer)
        return viewer

    async def go(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def look(self) -> None:
        line = await asyncio.wait_for(self.reader.readline(), 20)
        told = msgspec.json.decode(line, type=ViewerMessage)
        if isinstance(told, Frame):
            self.rows |= told.changed
            if told.nonce is not None:
                self.nonces.append(told.nonce)
        elif isinstance(told, Bye):
            self.bye = told.why

    async def sees(self, text: str) -> None:
        while text not in "\n".join("".join(run.text for run in self.rows[row]) for row in sorted(self.rows)):
            await self.look()

    def show_that_it_may_type(self) -> None:
        file = typing_file(self.directory, self.nonces[0])
        assert file is not None
        file.touch()

    def type(self, text: str, *, shows: bool = True) -> None:
        if shows:
            self.show_that_it_may_type()
        self.writer.write(msgspec.json.encode(Keys(data=text.encode())) + b"\n")


def scene(tmp_path: Path, code: str, play: Callable[[Viewers, Path], Awaitable[None]]) -> list[str]:
    """The program and its viewers; who was said to type."""
    said: list[str] = []

    async def run() -> None:
        viewers: Viewers | None = None  # the program may say something before there are any
        terminal = await open_terminal(
            (sys.executable, "-c", code),
            env={"PATH": os.environ["PATH"]},
            cwd=str(tmp_path),
            turn_key=uuid.uuid4().hex,
            screen=Screen(80, 24),
            on_output=lambda: viewers.wake() if viewers else None,
        )
        viewers = Viewers(terminal, said.append)
        terminal.child.go()
        try:
            await viewers.open(tmp_path / "terminal.sock")
            await play(viewers, tmp_path / "terminal.sock")
        finally:
            for viewer in Viewer.here:
                await viewer.go()
            Viewer.here.clear()
            terminal.child.end(0)
            await viewers.close("it is over")
            await terminal.child.wait()
            await terminal.close()

    asyncio.run(run())
    return said


def test_each_sees_the_screen_and_what_any_of_them_types(tmp_path: Path) -> None:
    async def play(viewers: Viewers, path: Path) -> None:
        one, two = await Viewer.come(path), await Viewer.come(path)
        await one.sees("up")
        await two.sees("up")
        assert viewers.count == 2
        one.type("hello\r")
        await two.sees("got hello")
        await one.sees("got hello")
        one.type("again\r")
        await two.sees("got again")

    assert len(scene(tmp_path, ECHO, play)) == 1


def test_the_socket_is_for_this_user_and_goes_with_the_terminal(tmp_path: Path) -> None:
    async def play(viewers: Viewers, path: Path) -> None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        viewer = await Viewer.come(path)
        await viewer.sees("up")
        await viewers.close("because")
        await viewer.look()
        assert viewer.bye == "because"

    scene(tmp_path, ECHO, play)
    assert not (tmp_path / "terminal.sock").exists()


def test_a_root_that_lies_deep_has_its_socket_all_the_same(tmp_path: Path) -> None:
    async def play(viewers: Viewers, path: Path) -> None:
        await (await Viewer.come(path)).sees("up")

    deep = tmp_path.joinpath(*["a-long-name-of-a-directory"] * 6)
    deep.mkdir(parents=True)
    scene(deep, ECHO, play)


def test_what_a_dead_holder_left_is_no_hindrance(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "terminal.sock"))

    async def play(viewers: Viewers, path: Path) -> None:
        await (await Viewer.come(path)).sees("up")

    scene(tmp_path, ECHO, play)


def test_one_that_does_not_read_holds_up_nobody_and_sees_the_newest_picture_later(tmp_path: Path) -> None:
    async def play(viewers: Viewers, path: Path) -> None:
        slow, quick = await Viewer.come(path), await Viewer.come(path)
        await quick.sees("over")
        await slow.sees("over")

    scene(tmp_path, FLOOD, play)


def test_while_beam_types_their_keys_wait(tmp_path: Path) -> None:
    async def play(viewers: Viewers, path: Path) -> None:
        viewer = await Viewer.come(path)
        await viewer.sees("up")
        with viewers.hold_keys():
            viewer.type("mine\r")
            await asyncio.sleep(0.1)
            await viewers._window.press("beam's\r")
            await viewer.sees("got beam's")
            assert viewers.typed_at is None
        await viewer.sees("got mine")
        shown = viewers._window.screen.view().text
        assert shown.index("got beam's") < shown.index("got mine")

    scene(tmp_path, ECHO, play)


@pytest.mark.parametrize("nonsense", [b"hello\n", b'{"type":"keys","data":7}\n', b"x" * 200_000, b'{"type":"frame"}\n'])
def test_one_that_talks_nonsense_is_let_go_and_the_rest_goes_on(tmp_path: Path, nonsense: bytes) -> None:
    async def play(viewers: Viewers, path: Path) -> None:
        bad, good = await Viewer.come(path), await Viewer.come(path)
        bad.writer.write(nonsense)
        while await bad.reader.read(65536):
            pass
        await good.sees("up")
        good.type("still\r")
        await good.sees("got still")

    scene(tmp_path, ECHO, play)


# -- who may type ------------------------------------------------------------------------------------------------------


async def told_to_a_stranger(path: Path, *words: str, **env: str) -> str:
    command = (sys.executable, "-c", STRANGER, str(path), *words)
    ended = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("words", [(), (STRANGER,)], ids=["with the marker", "below one with the marker"])
def test_a_process_of_an_agents_turn_sees_nothing_of_a_terminal_and_types_nothing(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    async def play(viewers: Viewers, path: Path) -> None:
        person = await Viewer.come(path)
        await person.sees("up")
        told = await told_to_a_stranger(path, *words, BEAM_TURN_abc="1")
        assert "belongs to an agent's turn" in told and '"frame"' not in told
        person.type("mine\r")
        await person.sees("got mine")
        assert "stolen" not in viewers._window.screen.view().text

    assert len(scene(tmp_path, ECHO, play)) == 1


def test_who_can_make_no_file_in_the_agents_directory_types_nothing(tmp_path: Path) -> None:
    async def play(viewers: Viewers, path: Path) -> None:
        told = await told_to_a_stranger(path)
        assert '"frame"' in told and "only a person types" in told
        one, other = await Viewer.come(path), await Viewer.come(path)
        await one.sees("up")
        await other.sees("up")
        one.show_that_it_may_type()  # the file is of that connection alone
        other.type("stolen\r", shows=False)
        while other.bye is None:
            await other.look()
        assert "only a person types" in other.bye
        one.type("mine\r", shows=False)
        await one.sees("got mine")
        one.type("again\r", shows=False)
        await one.sees("got again")
        assert "stolen" not in viewers._window.screen.view().text
        assert [file.name for file in path.parent.iterdir()] == ["terminal.sock"]

    assert len(scene(tmp_path, ECHO, play)) == 1


MARKED = b"BEAM_TURN_abc=guard"
PROCESSES: dict[int, tuple[int, list[bytes]]] = {  # pid: the parent, and the environment
    10: (1, []),
    11: (10, [b"HOME=/h", b"XBEAM_TURN_abc=1"]),
    20: (10, [b"HOME=/h", MARKED]),
    21: (20, []),
    22: (21, []),
    23: (20, [b"BEAM_TURN_abc=1"]),
    31: (30, []),
    41: (40, []),
    **{pid: (pid - 1, []) for pid in range(1011, 1100)},
    1010: (20, []),
}


@pytest.mark.parametrize(
    ("pid", "said"),
    [
        (0, None),
        (10, None),
        (11, None),
        (20, "belongs to an agent's turn"),
        (22, "belongs to an agent's turn"),
        (23, "belongs to an agent's turn"),
        (31, "can't be seen any more"),
        (41, None),
        (1060, "belongs to an agent's turn"),
        (1099, "too many others above it"),
        (99, "can't be seen any more"),
    ],
)
def test_who_may_attach_is_decided_by_the_process_and_all_above_it(
    pid: int, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pid: int, number: int) -> None:
        assert number == 0
        raise PermissionError if pid == 40 else ProcessLookupError  # 40 is another user's, and hidden

    monkeypatch.setattr(os, "kill", kill)
    rows = {pid: (parent, 0, 0, True) for pid, (parent, _) in PROCESSES.items()}
    monkeypatch.setattr(table, "stat_of", rows.get)
    monkeypatch.setattr(table, "environment_of", lambda pid: PROCESSES[pid][1])
    why = viewing._refusal_reason(pid)
    assert why is None if said is None else why is not None and said in why


def test_only_the_first_picture_has_the_name_of_the_file(tmp_path: Path) -> None:
    async def play(viewers: Viewers, path: Path) -> None:
        viewer = await Viewer.come(path)
        await viewer.sees("up")
        viewer.type("hello\r")
        await viewer.sees("got hello")
        assert len(viewer.nonces) == 1

    scene(tmp_path, ECHO, play)


@pytest.mark.parametrize("nonce", ["", "../" * 8 + "12345678", "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n"])
def test_what_is_no_nonce_names_no_file(tmp_path: Path, nonce: str) -> None:
    assert typing_file(tmp_path, nonce) is None
