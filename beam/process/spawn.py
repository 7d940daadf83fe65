"""Starts an agent's process under its guard and carries its bytes: the only module that spawns agents.

asyncio's own subprocesses are not used: their lines are limited, and how they wait differs between Python versions.
Nothing here waits for a pid that is not its own. Must not know turns, events or adapters.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal as signals
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct, structs

from beam.errors import BeamError, ConfigError, NotFoundError
from beam.limits import DEFAULT
from beam.process import guard, table, tree
from beam.process.lines import Tail
from beam.process.pipes import Output, Pipe, Started, Status, enlarge, nothing, settle
from beam.process.stdout_file import StdoutFile

EOF_SECONDS = 2.0  # after the guard's end: how long a process out of its reach may keep the agent's output open
WRITE_BYTES = 64 * 1024


class Ended(Struct, frozen=True):
    """How the agent's process ended and what its guard found.

    `signal` is a name ("SIGKILL"). Both `code` and `signal` are None where the guard was killed first. `swept`
    processes outlived the agent and were ended; `left` could not be.
    """

    code: int | None = None
    signal: str | None = None
    stderr_tail: str = ""
    swept: int = 0
    left: int = 0


def marker(turn_key: str) -> str:
    """The name of the variable that every process of the turn carries; a turn runs one agent process at a time."""
    return f"BEAM_TURN_{turn_key}"


async def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    turn_key: str,
    on_line: Callable[[bytes], None],
    on_output: Callable[[], None] = nothing,
    on_long_line: Callable[[], None] = nothing,
    on_error_line: Callable[[bytes], None] | None = None,
    stdin: bool = False,
    stdout_in: Path | None = None,
    grace: float = DEFAULT.grace,
    line_bytes: int = DEFAULT.line_bytes,
    stderr_lines: int = DEFAULT.stderr_lines,
) -> Child:
    """The agent's process, running (its exec succeeded).

    `on_line` gets each line of stdout without its newline; `on_output` is called at any output; `on_long_line` after a
    line that was cut at `line_bytes`; `on_error_line` gets each line of stderr. What a callback raises ends the tree
    and is raised by `Child.wait`. With `stdin` the agent's is a pipe for `feed`, else /dev/null. Stdout is a pipe of 1
    MiB, which makes a fast agent wait; with `stdout_in` an unnamed file in that directory, for an agent that does not
    wait (see `stdout_file.py`). `grace` is for an end that beam did not ask for (its own death). Raises NotFoundError
    (not_installed), ConfigError for `cwd`, BeamError for what can't be executed, and DiskError.
    """
    child = Child(turn_key, Output(on_line, on_output, on_long_line, line_bytes, on_error_line), Tail(stderr_lines))
    try:
        child._spawn(argv, env=env, cwd=cwd, stdin=stdin, stdout_in=stdout_in, grace=grace)
    except (OSError, ValueError) as error:
        raise _refused(error, argv[0], env=env, cwd=cwd) from error
    return await _running(child, argv[0], env=env, cwd=cwd)


async def start_in_terminal(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    turn_key: str,
    columns: int,
    rows: int,
    on_data: Callable[[bytes], None],
    grace: float = DEFAULT.grace,
) -> Child:
    """The agent's process, running on a terminal of its own, which had its size before the program began.

    `on_data` gets what it writes, as it comes; `Child.write` types. Raises as `start` does.
    """
    output = Output(_no_line, nothing, nothing, 1, on_data=on_data)
    child = Child(turn_key, output, Tail(0))
    try:
        child._spawn(argv, env=env, cwd=cwd, stdin=True, stdout_in=None, grace=grace, terminal=(columns, rows))
    except (OSError, ValueError) as error:
        raise _refused(error, argv[0], env=env, cwd=cwd) from error
    return await _running(child, argv[0], env=env, cwd=cwd)


async def _running(child: Child, program: str, *, env: Mapping[str, str], cwd: str) -> Child:
    try:
        started = await child._attach()
    except BaseException:
        child.end(0)
        await child.wait()
        raise
    if started.pid:
        child.pid, child.start_ticks = started.pid, started.start_ticks
        return child
    ended = await child.wait()
    if started.errno:
        raise _refused(OSError(started.errno, os.strerror(started.errno)), program, env=env, cwd=cwd)
    reason = ended.stderr_tail.strip() or "no reason given"
    raise BeamError(f"the guard of {program} did not start: {reason}", subject=program, kind="exec")


class Child:
    """A running agent process. Made by `start`; `pid` and `start_ticks` are the agent's."""

    def __init__(self, turn_key: str, output: Output, tail: Tail) -> None:
        self.pid = 0
        self.start_ticks = 0
        self.guard_pid = 0
        self.guard_start_ticks = 0
        self.stopped_by: str | None = None  # the caller's note: why it ended the child
        self._marker = marker(turn_key)
        self._loop = asyncio.get_running_loop()
        self._status = Status(self._loop)
        self._waiting_to_write: asyncio.Future[None] | None = None
        self._stdin: IO[bytes] | None = None
        self._terminal: IO[bytes] | None = None
        self._output = output
        self._tail = tail

    def interrupt(self, signal: str) -> None:
        """Sends the signal (a name) to the agent's process alone; nothing happens if that is over."""
        self._command(f"interrupt {int(signals.Signals[signal])}")

    def end(self, grace: float) -> None:
        """Ends the whole tree: SIGTERM, then SIGKILL after `grace` seconds. A later call may shorten them."""
        self._command(f"end {grace}")

    async def feed(self, data: bytes) -> None:
        """Writes all of stdin, then closes it. A child that does not read it all is no error."""
        try:
            await self.write(data)
        finally:
            self.close_stdin()

    async def write(self, data: bytes) -> None:
        """Writes to stdin and leaves it open; one writer at a time. A child that does not read it all is no error."""
        rest = memoryview(data)
        while rest and self._stdin and not self._stdin.closed:
            fd = self._stdin.fileno()
            try:
                rest = rest[os.write(fd, rest[:WRITE_BYTES]) :]
            except BlockingIOError:
                await self._writable(fd)
            except OSError:  # it closed its end
                self.close_stdin()

    def reads_keys(self) -> bool:
        """Whether the agent on its terminal reads key by key: until then the system itself edits lines and echoes."""
        import termios

        if self._stdin is None or self._stdin.closed:
            return False
        try:
            return not termios.tcgetattr(self._stdin.fileno())[3] & termios.ICANON
        except termios.error:  # nobody has it open any more
            return False

    def close_stdin(self) -> None:
        """The agent reads end-of-file after what was written."""
        pipe = self._stdin
        if pipe and not pipe.closed:
            self._loop.remove_writer(pipe.fileno())
            pipe.close()
            if self._waiting_to_write and not self._waiting_to_write.done():
                self._waiting_to_write.set_result(None)

    async def wait(self) -> Ended:
        """How it ended, once the guard and all of the tree are gone and all output was delivered.

        Raises what a callback raised. May be called again, also after it was cancelled.
        """
        return await asyncio.shield(self._ended)

    async def _writable(self, fd: int) -> None:
        writable = self._waiting_to_write = self._loop.create_future()
        self._loop.add_writer(fd, settle, writable)
        try:
            await writable
        finally:
            if self._stdin and not self._stdin.closed:
                self._loop.remove_writer(fd)

    def _command(self, text: str) -> None:
        if self._lifeline >= 0:
            with suppress(BrokenPipeError, BlockingIOError):  # the guard is over, or stopped: then `tree.clean` is next
                os.write(self._lifeline, text.encode() + b"\n")

    def _spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdin: bool,
        stdout_in: Path | None,
        grace: float,
        terminal: tuple[int, int] | None = None,
    ) -> None:
        slave = self._open_terminal(*terminal) if terminal else None
        self._file = StdoutFile(self._loop, stdout_in, self._output.feed, self._output.end) if stdout_in else None
        lifeline, self._lifeline = os.pipe()
        self._status_fd, status = os.pipe()
        os.set_blocking(self._lifeline, False)
        holder = os.getpid()
        try:
            self._process = subprocess.Popen(
                guard.command(argv, lifeline=lifeline, status=status, holder=holder, marker=self._marker, grace=grace),
                bufsize=0,
                stdin=slave or (subprocess.PIPE if stdin else subprocess.DEVNULL),
                stdout=slave or (self._file.sink if self._file else subprocess.PIPE),
                stderr=slave or subprocess.PIPE,
                pass_fds=(lifeline, status),
                start_new_session=True,
                env={**env, self._marker: table.GUARD_VALUE.decode()},
                cwd=cwd,
            )
        except BaseException:
            os.close(self._lifeline)
            os.close(self._status_fd)
            if self._file:
                self._file.close()
            if self._terminal and self._stdin:
                self._terminal.close()
                self._stdin.close()
            raise
        finally:
            os.close(lifeline)
            os.close(status)
            if slave is not None:
                os.close(slave)
            if self._file:
                self._file.close_sink()
        self.guard_pid = self._process.pid
        self.guard_start_ticks = tree.start_ticks(self.guard_pid) or 0
        tree.spared.add(self.guard_pid)
        self._stdin = self._stdin or self._process.stdin
        if self._stdin:
            os.set_blocking(self._stdin.fileno(), False)
        if self._process.stdout:
            enlarge(self._process.stdout.fileno())

    def _open_terminal(self, columns: int, rows: int) -> int:
        """A terminal of that size: the agent's end of it."""
        import termios

        master, slave = os.openpty()
        termios.tcsetwinsize(slave, (rows, columns))
        self._terminal = os.fdopen(master, "rb", buffering=0)
        self._stdin = os.fdopen(os.dup(master), "wb", buffering=0)
        return slave

    def _attach(self) -> asyncio.Future[Started]:
        self._output.fail = lambda: self.end(0)
        self._pipes = [Pipe(self._loop, self._status.feed, self._status.end)]
        if not self._terminal:
            self._pipes.append(Pipe(self._loop, self._on_stderr, self._output.end_errors))
        if not self._file:
            self._pipes.append(Pipe(self._loop, self._output.feed, self._output.end))
        self._ended = self._loop.create_task(self._end())
        return self._status.started

    async def _connect(self) -> None:
        status = os.fdopen(self._status_fd, "rb", buffering=0)
        streams = [status, self._process.stderr, self._process.stdout, self._terminal]
        for pipe, file in zip(self._pipes, filter(None, streams), strict=True):
            await self._loop.connect_read_pipe(lambda pipe=pipe: pipe, file)  # type: ignore[misc]

    def _on_stderr(self, data: bytes) -> None:
        self._tail.feed(data)
        self._output.feed_errors(data)

    async def _end(self) -> Ended:
        try:
            await self._connect()
            await self._guard_gone()
            await asyncio.wait([self._pipes[0].closed], timeout=EOF_SECONDS)
            swept, left = self._status.clean or self._clean()
            await asyncio.wait([pipe.closed for pipe in self._pipes], timeout=EOF_SECONDS)
            if self._file:
                self._file.finish()
                await self._file.closed
        finally:
            self._status.end()
            if self._file:
                self._file.close()
            for pipe in self._pipes:
                pipe.close()
            self.close_stdin()
            os.close(self._lifeline)  # the guard ends everything, if it is still there
            self._lifeline = -1
        await asyncio.gather(*(pipe.closed for pipe in self._pipes))
        self._pipes, self._output.fail = [], nothing  # they know this child: without a circle it is freed at once
        if self._output.error:
            raise self._output.error
        return Ended(self._status.code, self._status.signal, self._tail.text(), swept, left)

    async def _guard_gone(self) -> None:
        try:
            fd = os.pidfd_open(self.guard_pid)
        except (AttributeError, OSError):  # macOS, old kernels: the guard alone holds the status pipe
            await self._pipes[0].closed
            await self._loop.run_in_executor(None, self._process.wait)
        else:
            gone = self._loop.create_future()
            self._loop.add_reader(fd, settle, gone)
            try:
                await gone
            finally:
                self._loop.remove_reader(fd)
                os.close(fd)
            self._process.wait()
        tree.spared.discard(self.guard_pid)

    def _clean(self) -> tuple[int, int]:
        """After the guard was killed: what is left of the tree carries the marker or was adopted by this process."""
        agent = structs.replace(tree.this_process(), pid=self.pid, start_ticks=self.start_ticks)
        marked = tree.clean(self._marker, [agent] if self.pid else [])
        adopted = tree.end_orphans(since=self.guard_start_ticks)
        return marked.ended + adopted.ended, len({*marked.left, *adopted.left})


def _no_line(line: bytes) -> None:
    """A terminal has no lines."""


def _refused(error: OSError | ValueError, program: str, *, env: Mapping[str, str], cwd: str) -> BeamError:
    number = error.errno if isinstance(error, OSError) else None
    if not os.path.isdir(cwd):  # noqa: PTH112 - cwd may be any text
        return ConfigError(f"the folder {cwd} does not exist", "set another `cwd:` or make it", subject=cwd)
    if number == errno.ENOENT:
        from shutil import which

        if which(program, path=env.get("PATH")):
            return NotFoundError(
                f"{program} names an interpreter that is not there", "install it", subject=program, kind="not_installed"
            )
        return NotFoundError(
            f"{program} was not found", "install it, or give its path", subject=program, kind="not_installed"
        )
    if number == errno.E2BIG:
        return BeamError(
            f"the arguments and environment of {program} are too long for this system",
            "send a shorter text, or use an agent that reads its prompt from stdin",
            subject=program,
            kind="exec",
        )
    if number == errno.ENOEXEC:
        return BeamError(
            f"{program} is not a program of this machine", "is its first line `#!…`?", subject=program, kind="exec"
        )
    if number in (errno.EACCES, errno.EPERM):
        return BeamError(f"{program} may not be executed", f"chmod +x {program}", subject=program, kind="exec")
    reason = os.strerror(number) if number else str(error)
    return BeamError(f"{program} could not be started: {reason}", subject=program, kind="exec")
