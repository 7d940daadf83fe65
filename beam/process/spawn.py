"""Starts an agent's process under its guard and transfers its bytes: the only module that starts agents.

The process waits before its exec until the caller releases it. It can be ended even if its guard is stuck or dead.
asyncio's own subprocesses are not used, because they limit the length of lines, and because they wait for processes
differently in each Python version. This module waits only for processes that it has started itself. Does not depend on
turns, events or adapters.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal as signals
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct, structs

from beam.base import files, own_program
from beam.base.errors import PASSING, BeamError, DiskError, ShortageError
from beam.model.settings import DEFAULT_LIMITS
from beam.process import guard, table, tree
from beam.process.pipes import GuardStatus, HeldProcess, Output, Pipe, Tail, do_nothing, enlarge_pipe, set_done
from beam.process.program import check_executable, start_error

if TYPE_CHECKING:
    from beam.process.confinement import Confinement
    from beam.process.stdout_file import StdoutFile

EOF_SECONDS = 2.0  # after the guard's end: how long a process out of its reach may keep the agent's output open
WRITE_BYTES = 64 * 1024
START_SECONDS = 30.0  # until the guard is at work; a busy machine takes long to start an interpreter
WEDGED_SECONDS = 5.0  # after the grace period of an end: a guard that still runs then counts as stuck
LOOK_SECONDS = 5.0  # between two checks whether the agent still runs
POLL_SECONDS = 0.01


class ProcessEnd(Struct, frozen=True):
    """How the agent's process ended, and what its guard found.

    `signal` is a name ("SIGKILL"). Both `code` and `signal` are None if the guard was killed first. `swept` is the
    number of processes that outlived the agent and were ended. `left` is the number of processes that could not be
    ended.
    """

    code: int | None = None
    signal: str | None = None
    stderr_tail: str = ""
    swept: int = 0
    left: int = 0


def marker_name(turn_key: str) -> str:
    """Return the name of the environment variable that every process of the turn carries.

    All agent processes of a turn share this name, because a turn runs only one of them at a time.
    """
    return f"BEAM_TURN_{turn_key}"


async def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    turn_key: str,
    on_line: Callable[[bytes], None],
    on_output: Callable[[], None] = do_nothing,
    on_long_line: Callable[[], None] = do_nothing,
    on_error_line: Callable[[bytes], None] | None = None,
    stdin: bool = False,
    stdout_in: Path | None = None,
    confinement: Confinement | None = None,
    grace: float = DEFAULT_LIMITS.grace,
    unstarted: Path | None = None,
    line_bytes: int = DEFAULT_LIMITS.line_bytes,
    piece_bytes: int = 0,
    stderr_lines: int = DEFAULT_LIMITS.stderr_lines,
) -> Child:
    """Start the agent's process, which waits before its exec until `Child.go`.

    `on_line` is called with each line of stdout, `on_error_line` with each line of stderr, without the newline.
    `on_output` is called at any output. `on_long_line` is called after a line of stdout was cut off at `line_bytes`
    bytes. With `piece_bytes`, `on_line` gets a line of stdout that is longer in pieces (see `LineSplitter`). If a
    callback raises an exception, the process tree is ended, and `Child.wait` raises the exception.

    With `stdin`, the agent's stdin is a pipe for `Child.feed` and `Child.write`, otherwise /dev/null. Stdout is a pipe
    of 1 MiB, so an agent that writes faster than beam reads has to wait. With `stdout_in`, stdout is an unnamed file in
    that directory, for an agent that drops output and does not wait (see `stdout_file.py`). With `confinement`, neither
    the agent nor a process that it starts can change the protected paths; if the system can't enforce that, the agent
    is not started. `grace` is the time in seconds until the processes are killed in an end that beam did not ask for,
    such as after beam's own death. `unstarted` is the path of a file that the guard creates if the agent was never
    executed. `stderr_lines` is how many last lines of stderr `ProcessEnd.stderr_tail` has.

    Raises NotFoundError (kind not_installed), ConfigError if `cwd` does not exist, BeamError if the program can't be
    executed, ShortageError if the cause is temporary, and DiskError. An error that only the exec reveals is raised by
    `Child.wait`.
    """
    output = Output(on_line, on_output, on_long_line, line_bytes, on_error_line, piece_bytes=piece_bytes)
    child = Child(turn_key, output, Tail(stderr_lines))
    try:
        child._spawn(
            argv,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout_in=stdout_in,
            confinement=confinement,
            grace=grace,
            unstarted=unstarted,
        )
    except (OSError, ValueError, DiskError) as error:
        raise start_error(error, argv[0], env=env, cwd=cwd) from error
    return await _wait_until_held(child, argv[0])


async def start_in_terminal(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    turn_key: str,
    columns: int,
    rows: int,
    on_data: Callable[[bytes], None],
    confinement: Confinement | None = None,
    grace: float = DEFAULT_LIMITS.grace,
) -> Child:
    """Start the agent's process on a terminal of its own.

    `columns` and `rows` are the size of the terminal, which is set before the program begins. `on_data` is called with
    the bytes that the agent writes, as they come. `Child.write` types into the terminal. All else is as described at
    `start`, including the errors.
    """
    output = Output(_ignore_line, do_nothing, do_nothing, 1, on_data=on_data)
    child = Child(turn_key, output, Tail(0))
    try:
        child._spawn(
            argv,
            env=env,
            cwd=cwd,
            stdin=True,
            stdout_in=None,
            confinement=confinement,
            grace=grace,
            terminal=(columns, rows),
        )
    except (OSError, ValueError) as error:
        raise start_error(error, argv[0], env=env, cwd=cwd) from error
    return await _wait_until_held(child, argv[0])


async def _wait_until_held(child: Child, program: str) -> Child:
    held: HeldProcess | None = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                held = await child._attach()
    finally:
        if held is None:
            child.end(0)
            await child.wait()
    if held is not None and held.pid:
        child.pid, child.start_ticks = held.pid, held.start_ticks
        return child
    if held is None:
        raise ShortageError(f"the guard of {program} was not at work within {START_SECONDS:g} s", subject=program)
    child.end(0)
    ended = await child.wait()  # raises what the guard said
    reason = ended.stderr_tail.strip()
    lacks = [os.strerror(number) for number in PASSING] + ["MemoryError"]
    failure = f"the guard of {program} did not start: {reason or 'no reason given'}"
    if child.guard_was_killed or any(word in reason for word in lacks):
        raise ShortageError(failure, subject=program)
    raise BeamError(failure, subject=program, kind="exec")


class Child:
    """An agent's process. Made by `start`; `pid` and `start_ticks` are the agent's."""

    def __init__(self, turn_key: str, output: Output, tail: Tail) -> None:
        self.pid = 0
        self.start_ticks = 0
        self.guard_pid = 0
        self.guard_start_ticks = 0
        self.stopped_by: str | None = None  # the caller's note: why it ended the child
        self._marker = marker_name(turn_key)
        self._loop = asyncio.get_running_loop()
        self._status = GuardStatus(self._loop)
        self._waiting_to_write: asyncio.Future[None] | None = None
        self._file: StdoutFile | None = None
        self._stdin: IO[bytes] | None = None
        self._terminal: IO[bytes] | None = None
        self._output = output
        self._tail = tail
        self._refuse: Callable[[OSError], BeamError]
        self._overdue: asyncio.TimerHandle | None = None
        self._given_up: asyncio.Future[None] = self._loop.create_future()
        self._cleaned: tuple[int, int] | None = None  # by this process, in place of the guard: ended, left

    @property
    def guard_was_killed(self) -> bool:
        """Return whether a signal ended the guard."""
        return (self._process.returncode or 0) < 0

    def go(self) -> None:
        """Release the agent to its exec: from now on the agent may act. Does nothing if an end was requested before."""
        self._send_command("go")

    async def wait_for_exec(self) -> bool:
        """Return whether the agent was executed, as soon as that is known."""
        return await asyncio.shield(self._status.executed)

    def interrupt(self, signal: str) -> None:
        """Send the signal (a name) to the agent's process alone. Does nothing if the process has ended."""
        self._send_command(f"interrupt {int(signals.Signals[signal])}")

    def end(self, grace: float) -> None:
        """End the whole process tree: send SIGTERM now, and SIGKILL after `grace` seconds. Returns immediately.

        A later call may shorten that time. If the guard is not done 5 s after that time, this process kills the guard
        and ends the tree itself.
        """
        self._send_command(f"end {grace}")
        self._expect_end(grace)

    async def feed(self, data: bytes) -> None:
        """Write all the data to stdin, then close it. A child that does not read all of it is not an error."""
        try:
            await self.write(data)
        finally:
            self.close_stdin()

    async def write(self, data: bytes) -> None:
        """Write to stdin and leave it open. A child that does not read all the data is not an error.

        Only one task at a time may write.
        """
        rest = memoryview(data)
        while rest and self._stdin and not self._stdin.closed:
            fd = self._stdin.fileno()
            try:
                rest = rest[os.write(fd, rest[:WRITE_BYTES]) :]
            except BlockingIOError:
                await self._wait_until_writable(fd)
            except OSError:  # it closed its end
                self.close_stdin()

    def reads_keys(self) -> bool:
        """Return whether the agent has switched its terminal to single keys.

        Before that, the system itself lets the user edit a line, and echoes it.
        """
        import termios

        if self._stdin is None or self._stdin.closed:
            return False
        try:
            return not termios.tcgetattr(self._stdin.fileno())[3] & termios.ICANON
        except termios.error:  # nobody has it open any more
            return False

    def foreground_group(self) -> int:
        """Return the process group in the foreground of the agent's terminal; 0 if it is unknown."""
        if self._stdin is None or self._stdin.closed:
            return 0
        try:
            return os.tcgetpgrp(self._stdin.fileno())
        except OSError:
            return 0

    def close_stdin(self) -> None:
        """Close stdin: the agent reads end-of-file after what was written."""
        pipe = self._stdin
        if pipe and not pipe.closed:
            self._loop.remove_writer(pipe.fileno())
            pipe.close()
            if self._waiting_to_write and not self._waiting_to_write.done():
                self._waiting_to_write.set_result(None)

    async def wait(self) -> ProcessEnd:
        """Return how the agent's process ended, once the guard and the process tree are gone and all output was
        delivered.

        Raises the exception of a callback that failed, or an error of `start` if the system refused to execute the
        program. May be called again, also after a call was cancelled.
        """
        return await asyncio.shield(self._ended)

    async def _wait_until_writable(self, fd: int) -> None:
        writable = self._waiting_to_write = self._loop.create_future()
        self._loop.add_writer(fd, set_done, writable)
        try:
            await writable
        finally:
            if self._stdin and not self._stdin.closed:
                self._loop.remove_writer(fd)

    def _send_command(self, text: str) -> None:
        if self._lifeline >= 0:
            with suppress(BrokenPipeError, BlockingIOError):  # the guard is gone, or stuck: see `_end_stuck_guard`
                os.write(self._lifeline, text.encode() + b"\n")
            self._process.send_signal(signals.SIGCONT)  # somebody may have stopped it

    def _expect_end(self, grace: float) -> None:
        """Set the time at which the guard counts as stuck: after `grace` seconds and a margin.

        If an earlier time is set already, that one stays.
        """
        if self._lifeline < 0:
            return
        when = self._loop.time() + grace + WEDGED_SECONDS
        if self._overdue is not None:
            when = min(when, self._overdue.when())
            self._overdue.cancel()
        self._overdue = self._loop.call_at(when, self._end_stuck_guard)

    def _end_stuck_guard(self) -> None:
        """End the guard, if it still runs, and its whole process tree. Called when the guard counts as stuck."""
        if self._process.poll() is not None:
            return
        self._cleaned = self._end_leftovers(patience=0.0)
        if tree.start_ticks(self.guard_pid) is not None:  # not even SIGKILL ended it
            self._process.returncode = -signals.SIGKILL
            set_done(self._given_up)

    def _spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdin: bool,
        stdout_in: Path | None,
        confinement: Confinement | None,
        grace: float,
        unstarted: Path | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> None:
        self._refuse = partial(start_error, program=argv[0], env=env, cwd=cwd)
        check_executable(argv[0], env=env, cwd=cwd)
        with ExitStack() as of_the_guard, ExitStack() as ours:  # close the pipes; `ours` only if no guard starts
            slave = self._open_terminal(*terminal, of_the_guard, ours) if terminal else None
            if stdout_in:
                from beam.process.stdout_file import StdoutFile

                self._file = StdoutFile(self._loop, stdout_in, self._output.feed, self._output.end)
                ours.callback(self._file.close)
                of_the_guard.callback(self._file.close_sink)
            lifeline, self._lifeline = _pipe(of_the_guard, ours)
            status, self._status_fd = reversed(_pipe(ours, of_the_guard))
            os.set_blocking(self._lifeline, False)
            instructions = _unnamed_file(
                guard.encode_instructions(
                    [os.fsencode(word) for word in argv],
                    lifeline=lifeline,
                    status=status,
                    holder=os.getpid(),
                    marker=self._marker.encode(),
                    grace=grace,
                    unstarted=os.fsencode(unstarted) if unstarted else b"",
                    confined=confinement.encoded if confinement else b"",
                )
            )
            of_the_guard.callback(os.close, instructions)
            self._process = subprocess.Popen(
                guard.command(instructions),
                executable=own_program.executable(),
                bufsize=0,
                stdin=slave or (subprocess.PIPE if stdin else subprocess.DEVNULL),
                stdout=slave or (self._file.sink if self._file else subprocess.PIPE),
                stderr=slave or subprocess.PIPE,
                pass_fds=(lifeline, status, instructions),
                start_new_session=True,
                env={**env, self._marker: table.GUARD_VALUE.decode()},
                cwd=cwd,
            )
            ours.pop_all()
        own_program.wait_until_held()  # meanwhile the guard starts
        self.guard_pid = self._process.pid
        self.guard_start_ticks = tree.start_ticks(self.guard_pid) or 0
        tree.spared_pids.add(self.guard_pid)
        self._stdin = self._stdin or self._process.stdin
        if self._stdin:
            os.set_blocking(self._stdin.fileno(), False)
        if self._process.stdout:
            enlarge_pipe(self._process.stdout.fileno())

    def _open_terminal(self, columns: int, rows: int, of_the_guard: ExitStack, ours: ExitStack) -> int:
        """Open a terminal of that size and return the descriptor of the agent's end."""
        import termios

        try:
            master, slave = os.openpty()
        except OSError as error:
            if error.errno == errno.ENOSPC:  # all that the kernel gives (`kernel.pty.max`) are in use
                raise OSError(errno.EAGAIN, "no terminal is left") from error
            raise
        of_the_guard.callback(os.close, slave)
        self._terminal = ours.enter_context(os.fdopen(master, "rb", buffering=0))
        termios.tcsetwinsize(slave, (rows, columns))
        self._stdin = ours.enter_context(os.fdopen(os.dup(master), "wb", buffering=0))
        return slave

    def _attach(self) -> asyncio.Future[HeldProcess]:
        self._output.fail = lambda: self.end(0)
        self._pipes = [Pipe(self._loop, self._status.feed, self._status.end)]
        if not self._terminal:
            self._pipes.append(Pipe(self._loop, self._on_stderr, self._output.end_errors))
        if not self._file:
            self._pipes.append(Pipe(self._loop, self._output.feed, self._output.end))
        self._ended = self._loop.create_task(self._wait_for_end())
        return self._status.held

    async def _connect(self) -> None:
        status = os.fdopen(self._status_fd, "rb", buffering=0)
        streams = [status, self._process.stderr, self._process.stdout, self._terminal]
        for pipe, file in zip(self._pipes, filter(None, streams), strict=True):
            await self._loop.connect_read_pipe(lambda pipe=pipe: pipe, file)  # type: ignore[misc]

    def _on_stderr(self, data: bytes) -> None:
        self._tail.feed(data)
        self._output.feed_errors(data)

    async def _wait_for_end(self) -> ProcessEnd:
        try:
            await self._connect()
            await self._wait_for_guard()
            await asyncio.wait([self._pipes[0].closed], timeout=EOF_SECONDS)
            swept, left = self._status.clean or self._cleaned or self._end_leftovers()
            await asyncio.wait([pipe.closed for pipe in self._pipes], timeout=EOF_SECONDS)
            if self._file:
                self._file.finish()
                await self._file.closed
        finally:
            if self._overdue is not None:
                self._overdue.cancel()
            self._status.end()
            if self._file:
                self._file.close()
            for pipe in self._pipes:
                pipe.close()
            self.close_stdin()
            os.close(self._lifeline)  # the guard ends everything, if it is still there
            self._lifeline = -1
        await asyncio.gather(*(pipe.closed for pipe in self._pipes))
        self._pipes, self._output.fail = (
            [],
            do_nothing,
        )  # they refer to this child: without a cycle it is freed immediately
        if self._output.error:
            raise self._output.error
        if self._status.errno:
            raise self._refuse(OSError(self._status.errno, os.strerror(self._status.errno)))
        return ProcessEnd(self._status.code, self._status.signal, self._tail.text(), swept, left)

    async def _wait_for_guard(self) -> None:
        """Wait until the guard's process has ended, or until it is known that not even SIGKILL ends it."""
        looking = self._loop.create_task(self._wait_for_agent())
        gone = self._loop.create_future()
        try:
            fd = os.pidfd_open(self.guard_pid) if self._process.returncode is None else -1
        except (AttributeError, OSError):  # macOS, old kernels, no descriptor left
            fd = -1
        if fd >= 0:
            self._loop.add_reader(fd, set_done, gone)
        else:
            gone = self._pipes[0].closed  # the guard alone holds this pipe
        try:
            await asyncio.wait([gone, self._given_up], return_when=asyncio.FIRST_COMPLETED)
            while self._process.poll() is None:
                await asyncio.sleep(POLL_SECONDS)
        finally:
            looking.cancel()
            if fd >= 0:
                self._loop.remove_reader(fd)
                os.close(fd)
        tree.spared_pids.discard(self.guard_pid)

    async def _wait_for_agent(self) -> None:
        """Wait for the agent's end, then set the time at which the guard counts as stuck if it has not noticed that
        end."""
        await asyncio.shield(self._status.held)
        while not self.pid or tree.start_ticks(self.pid) == self.start_ticks:
            await asyncio.sleep(LOOK_SECONDS)
        self._process.send_signal(signals.SIGCONT)
        self._expect_end(guard.LEFTOVER_GRACE)

    def _end_leftovers(self, *, patience: float | None = None) -> tuple[int, int]:
        """End the processes that the guard left: below it, with the marker, or adopted by this process.

        Return how many were ended, and how many are left.
        """
        here = tree.this_process()
        known = ((self.guard_pid, self.guard_start_ticks), (self.pid, self.start_ticks))
        owners = [structs.replace(here, pid=pid, start_ticks=ticks) for pid, ticks in known if pid]
        marked = tree.end_processes(self._marker, owners, patience=patience)
        adopted = tree.end_orphans(since=self.guard_start_ticks)
        return marked.ended + adopted.ended, len({*marked.left, *adopted.left})


def _pipe(reads: ExitStack, writes: ExitStack) -> tuple[int, int]:
    """Return the read end and the write end of a new pipe. `reads` closes the read end, `writes` the write end."""
    source, sink = os.pipe()
    reads.callback(os.close, source)
    writes.callback(os.close, sink)
    return source, sink


def _unnamed_file(data: bytes) -> int:
    """Return a descriptor of an unnamed file with this content."""
    try:
        fd = os.memfd_create("told")
    except (AttributeError, OSError) as error:  # macOS, old kernels
        if isinstance(error, OSError) and error.errno in PASSING:
            raise
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        files.write_all(fd, data)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _ignore_line(line: bytes) -> None:
    """Ignore a line. Never called, because a terminal's output is not split into lines."""
