"""Agents in memory: `spawn.start` without a process, for unit tests of turns.

A program is a function that runs in a thread of its own, with streams like those of a process. It can be ended
wherever it reads, writes or sleeps. No time passes but where everything waits for it.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from beam.base.clock import SystemClock
from beam.process import spawn, tree
from beam.process.pipes import Output, Tail
from tests.support import lines, tui

_FIRST_PID = 2**22 + 1  # over all that the kernel gives
TICKS = 7
_WRITE_S = 0.0001
T = TypeVar("T")


class Killed(BaseException):
    """The program was ended while it ran."""


class Streams:
    """What a program has: `sys.stdin`, `sys.stdout`, `sys.stderr` and `time.sleep` of its own, and a folder."""

    def __init__(self, child: Child, argv: Sequence[str], cwd: str) -> None:
        self.argv = list(argv)
        self.cwd = cwd
        self.stdin = child.read()
        self.stdout = Stream(child, child.output.feed)
        self.stderr = Stream(child, child.wrote_error)
        self.sleep = child.sleep
        self.exit = sys.exit
        self.child = child


Program = Callable[[Streams], object]


class Stream:
    """A stream that the agent writes to."""

    def __init__(self, child: Child, feed: Callable[[bytes], None]) -> None:
        self._child, self._feed = child, feed
        self._held = ""

    def write(self, text: str) -> int:
        self._held += text
        return len(text)

    def flush(self) -> None:
        data, self._held = self._held.encode(), ""
        if data:
            self._child.say(self._feed, data)


class Child:
    """A program in a thread, as `spawn.Child` shows one. `graces` and `signals` say how it was asked to end.

    The thread and the event loop take turns: each waits while the other runs. So nothing here happens at random.
    """

    guard_was_killed = False

    def __init__(self, memory: Memory, argv: Sequence[str], output: Output, tail: Tail, cwd: str) -> None:
        self.pid = memory.next_pid()
        self.start_ticks = TICKS
        self.guard_pid = self.pid + 1
        self.guard_start_ticks = TICKS
        self.stopped_by: str | None = None
        self.output, self._tail = output, tail
        self.graces: list[float] = []
        self.signals: list[str] = []
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._in: deque[bytes | None] = deque()  # null: the end
        self._timer: asyncio.TimerHandle | None = None
        self._signal = "SIGTERM"
        self.is_raw = False
        self._is_closed = self._is_killed = self._waits_for_input = False
        self._over: asyncio.Future[spawn.ProcessEnd] = self._loop.create_future()
        self._program, self._argv, self._cwd = memory.program(argv), argv, cwd
        self._thread: threading.Thread | None = None
        self._goes_on, self._gives_way = threading.Semaphore(0), threading.Semaphore(0)
        self._next: Callable[[], object] = lambda: None  # what the loop does once the program waits

    # -- what beam does with it ----------------------------------------------------------------------------------------

    def go(self) -> None:
        if not self._over.done():
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
            self._loop.call_soon(self._resume)

    async def wait_for_exec(self) -> bool:
        return True

    async def feed(self, data: bytes) -> None:
        await self.write(data)
        self.close_stdin()

    async def write(self, data: bytes) -> None:
        self._put(data)

    def close_stdin(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._put(None)

    def interrupt(self, signal: str) -> None:
        self.signals.append(signal)

    def end(self, grace: float) -> None:
        self.graces.append(grace)
        if self._is_killed or self._over.done():
            return
        self._is_killed = True
        if self._thread is None:
            self._ended(spawn.ProcessEnd(signal=self._signal))
        else:
            self._loop.call_soon(self._resume)

    def kill(self) -> None:
        """What a SIGKILL from elsewhere does."""
        self._signal = "SIGKILL"
        self.end(0)

    def reads_keys(self) -> bool:
        return self.is_raw and not self._over.done()

    def foreground_group(self) -> int:
        return 0

    async def wait(self) -> spawn.ProcessEnd:
        return await asyncio.shield(self._over)

    def _put(self, data: bytes | None) -> None:
        self._in.append(data)
        if self._waits_for_input:
            self._waits_for_input = False
            if self._timer is not None:
                self._timer.cancel()
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        """Lets the program run until it waits again, and does what it waits for."""
        if self._over.done():
            return
        self._goes_on.release()
        self._gives_way.acquire()
        self._next()

    # -- what the program does, in its thread --------------------------------------------------------------------------

    def _wait(self, then: Callable[[], object]) -> None:
        self._next = then
        self._gives_way.release()
        self._goes_on.acquire()
        if self._is_killed:
            raise Killed

    def read(self) -> Iterator[str]:
        """The lines that it is given."""
        rest = b""
        while True:
            while not self._in:
                self._wait(self._ask_for_input)
            data = self._in.popleft()
            if data is None:
                break
            *whole, rest = (rest + data).split(b"\n")
            yield from (line.decode() + "\n" for line in whole)
        if rest:
            yield rest.decode()

    def take(self, timeout: float | None) -> bytes:
        """What is typed next; nothing once it takes longer."""
        if not self._in:
            self._wait(lambda: self._ask_for_input(timeout))
        data = self._in.popleft() if self._in else b""
        return data or b""

    def _ask_for_input(self, timeout: float | None = None) -> None:
        self._waits_for_input = True
        if timeout is not None:
            self._timer = self._loop.call_later(timeout, self._time_is_up)

    def _time_is_up(self) -> None:
        if self._waits_for_input:
            self._waits_for_input = False
            self._resume()

    def say(self, feed: Callable[[bytes], None], data: bytes) -> None:
        def deliver() -> None:
            feed(data)
            self._loop.call_later(_WRITE_S, self._resume)

        self._wait(deliver)

    def sleep(self, seconds: float) -> None:
        self._wait(lambda: self._loop.call_later(seconds, self._resume))

    def monotonic(self) -> float:
        return self._loop.time()

    def wrote_error(self, data: bytes) -> None:
        self._tail.feed(data)
        self.output.feed_errors(data)

    def _run(self) -> None:
        self._goes_on.acquire()
        ended = spawn.ProcessEnd(code=0)
        streams = Streams(self, self._argv, self._cwd)
        try:
            if not self._is_killed:
                self._program(streams)
        except SystemExit as error:
            if isinstance(error.code, str):
                streams.stderr.write(f"{error.code}\n")
            ended = spawn.ProcessEnd(code=1 if isinstance(error.code, str) else error.code or 0)
        except Exception:
            streams.stderr.write(traceback.format_exc())
            ended = spawn.ProcessEnd(code=1)
        except Killed:
            ended = spawn.ProcessEnd(signal=self._signal)
        with suppress(Killed):
            streams.stdout.flush()
            streams.stderr.flush()
        self._next = lambda: self._ended(ended)
        self._gives_way.release()

    def _ended(self, ended: spawn.ProcessEnd) -> None:
        self.output.end()
        self.output.end_errors()
        self._memory.alive.discard(self.pid)
        self._over.set_result(spawn.ProcessEnd(code=ended.code, signal=ended.signal, stderr_tail=self._tail.text()))


class _Jumps(selectors.DefaultSelector):
    """Waits for no time: the loop's clock jumps to what is due next."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            return super().select(5)
        self.now += max(timeout, 1e-6)
        return found


class Loop(asyncio.SelectorEventLoop):
    """An event loop in which time passes only where everything waits for it, and then at once."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.now


def cat(streams: Streams) -> None:
    """Prints what it reads."""
    for line in streams.stdin:
        streams.stdout.write(line)
    streams.stdout.flush()


def wait(streams: Streams) -> None:
    """Waits as long as its argument says."""
    streams.sleep(float(streams.argv[1]))


def python(streams: Streams) -> None:
    """Runs the program of `python -c`, which may print, sleep and exit."""

    def out(*words: object, file: object = None, flush: bool = False) -> None:
        stream = streams.stderr if file is streams.stderr else streams.stdout
        stream.write(" ".join(map(str, words)) + "\n")
        stream.flush()

    ours = {"sys": streams, "time": streams}
    builtins = vars(__import__("builtins")) | {"print": out, "__import__": lambda name, *_: ours[name]}
    exec(streams.argv[2], {"__builtins__": builtins})


class Console(tui.Console):
    """A terminal in memory."""

    def __init__(self, streams: Streams) -> None:
        self._child = streams.child
        self.cwd = streams.cwd
        self.sleep = streams.sleep  # type: ignore[assignment]
        self.monotonic = streams.child.monotonic  # type: ignore[assignment]

    def read(self, timeout: float | None) -> bytes:
        return self._child.take(timeout)

    def write(self, data: bytes) -> None:
        self._child.say(self._child.output.feed, data)

    def leave(self, code: int) -> None:
        raise SystemExit(code)

    def run(self, manner: str) -> None:
        self._child.is_raw = True
        tui.Tui(manner, self).run()
        self._child.is_raw = False


def agent_on_a_terminal(streams: Streams) -> None:
    """The agent of `tui`."""
    tui.run(streams.argv[streams.argv.index(tui.__file__) + 1], Console(streams))


def agent_of_lines(streams: Streams) -> None:
    """The agent of `lines`."""
    program = lines.Program(
        streams.argv[2:],
        streams.stdin,
        streams.stdout,  # type: ignore[arg-type]
        streams.stderr,  # type: ignore[arg-type]
        streams.sleep,
        streams.cwd,
    )
    program.run()


class Memory:
    """All agents of one test. `programs` are found by the words of a command line, joined with blanks, that they begin
    with; `children` are those that were started, `given` with what."""

    def __init__(self) -> None:
        self.programs: dict[str, Program] = {"cat": cat, "sleep": wait, f"{sys.executable} -c": python}
        self.children: list[Child] = []
        self.given: list[dict[str, Any]] = []
        self.alive = set[int]()
        self._start_ticks, self._kill = tree.start_ticks, os.kill
        self._loop: asyncio.AbstractEventLoop | None = None

    def next_pid(self) -> int:
        pid = _FIRST_PID + 2 * len(self.children)
        self.alive.add(pid)
        return pid

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_line: Callable[[bytes], None],
        on_output: Callable[[], None] = lambda: None,
        on_long_line: Callable[[], None] = lambda: None,
        on_error_line: Callable[[bytes], None] | None = None,
        line_bytes: int = 1 << 20,
        piece_bytes: int = 0,
        stderr_lines: int = 100,
        **given: Any,
    ) -> Child:
        """As `spawn.start`; what else it is given is only kept."""
        output = Output(on_line, on_output, on_long_line, line_bytes, on_error_line, piece_bytes=piece_bytes)
        child = Child(self, argv, output, Tail(stderr_lines), given["cwd"])
        self.children.append(child)
        self.given.append({"argv": tuple(argv), "line_bytes": line_bytes, "stderr_lines": stderr_lines, **given})
        return child

    async def start_in_terminal(
        self, argv: Sequence[str], *, on_data: Callable[[bytes], None], cwd: str, **given: Any
    ) -> Child:
        """As `spawn.start_in_terminal`; what else it is given is only kept."""
        output = Output(lambda _: None, lambda: None, lambda: None, 1, on_data=on_data)
        child = Child(self, argv, output, Tail(0), cwd)
        self.children.append(child)
        self.given.append({"argv": tuple(argv), "cwd": cwd, **given})
        return child

    def kill(self, pid: int, number: int) -> None:
        """As `os.kill`, also of these."""
        if pid < _FIRST_PID:
            self._kill(pid, number)
        elif number:
            next(child for child in self.children if child.pid == pid).kill()

    def program(self, argv: Sequence[str]) -> Program:
        """The program that this command line starts."""
        for file, found in ((lines.__file__, agent_of_lines), (tui.__file__, agent_on_a_terminal)):
            if file in argv:
                return found
        text = " ".join(argv)
        return next(program for words, program in self.programs.items() if text.startswith(words))

    def start_ticks(self, pid: int) -> int | None:
        """As `tree.start_ticks`, also of these."""
        if pid >= _FIRST_PID:
            return TICKS if pid in self.alive else None
        return self._start_ticks(pid)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Puts itself in place of processes."""
        monkeypatch.setattr(spawn, "start", self.start)
        monkeypatch.setattr(tree, "start_ticks", self.start_ticks)
        monkeypatch.setattr(spawn, "start_in_terminal", self.start_in_terminal)
        monkeypatch.setattr(os, "kill", self.kill)
        monkeypatch.setattr(SystemClock, "monotonic", lambda _: self.now())
        monkeypatch.setattr(asyncio, "run", self.run)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """As `asyncio.run`, on a loop whose time jumps."""
        with asyncio.Runner(loop_factory=Loop) as runner:
            self._loop = runner.get_loop()
            return runner.run(main)

    def now(self) -> float:
        """The time of the loop."""
        return 0.0 if self._loop is None else self._loop.time()


IN_MEMORY = [pytest.param(True, id="in memory"), pytest.param(False, id="process", marks=pytest.mark.acceptance)]
PROCESS_ALONE = pytest.mark.parametrize("memory", IN_MEMORY[1:], indirect=True)
MEMORY_ALONE = pytest.mark.parametrize("memory", IN_MEMORY[:1], indirect=True)
