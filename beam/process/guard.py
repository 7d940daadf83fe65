"""The guard: one small process above each agent process, which reliably ends the whole process tree.

The guard runs in a session of its own (see `command`) and ends everything when the agent exits, when the holder asks
for it, or when the holder dies. On Linux the guard is a subreaper: a process that was orphaned, moved to another
session or lost its environment is still a descendant of the guard, and ECHILD from `waitpid` proves that none is left.
A process that was started elsewhere on the agent's behalf is found by the marker, an environment variable that all
processes of the turn carry.

The agent's process is forked early and waits before its exec. The holder knows its pid, and releases it only when the
permission to act is on disk. If the holder dies before that, the guard starts nothing, and leaves a file that says so
for the next holder.

The lifeline is a pipe from the holder. Its end means that the holder died. Its lines are the holder's commands: `go`,
`interrupt SIGNAL` (to the agent's process alone) and `end GRACE`. The status pipe leads to the holder. Its lines are
`held PID START_TICKS`, then `running` or `failed ERRNO` (only `failed` if the fork failed), then `exited CODE SIGNAL`
(one of the two is `-`), then `clean SWEPT LEFT MS`. The guard passes SIGINT on to the agent alone; SIGTERM and SIGHUP
make the guard end everything. The guard exits with the agent's exit code, or with 128 + the number of the signal that
ended the agent.

The guard's instructions come in an unnamed file, so that its command line contains no text of the agent's or of beam's.
So a kill by pattern (`pkill -f`) hits the intended processes, and not the guard, which has to clean up after them.

The guard is a program of its own. It imports nothing of beam but `table` (its child also imports `landlock` if the
agent is confined), and only the cheapest modules of the standard library, because every agent process pays for them.
macOS has no subreaper and no parent-death signal, so there the guard records its descendants twice a second. (Never
tested on macOS.)
"""

from __future__ import annotations

import errno
import posix
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Sequence
else:
    import _signal

if TYPE_CHECKING or __package__:
    from beam.process import table
else:  # the guard itself: see `command`
    import table

SWEEP_SECONDS = 5.0
LEFTOVER_GRACE = 0.25  # after the agent's own exit: time for helpers that are just ending
HOLDER_GRACE = 2.0  # after the holder's death, so that everything is gone within 5 s of it
CHASE_SECONDS = 0.02
CHAIN_SECONDS = 0.2  # the same, while new children keep appearing
EXIT_NOT_STARTED = 125

EXEC_SECONDS = 1.0  # how long an end waits for the report of an exec that is under way

_BOOT = (
    "import posix, sys; fd = int(sys.argv[1]); told = posix.pread(fd, posix.fstat(fd).st_size, 0).split(b'\\0'); "
    "posix.close(fd); exec(told.pop(0)); import guard; guard.main(told)"
)
_GO = b"g"
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"  # for an agent whose environment has none


def command(instructions: int) -> list[str]:
    """Return the command line of a guard, to be run by `sys.executable`.

    `instructions` is the descriptor of a file that contains the result of `encode_instructions`. The holder makes the
    guard a session leader, and passes on this descriptor and the descriptors that the instructions name. The guard's
    own environment is the agent's, with the marker set to `table.GUARD_VALUE`.

    The guard is imported, not run as a script, because an import uses cached bytecode: that saves 5 ms of CPU. On Linux
    the interpreter is not named by its path, because the path may contain any text (`.../venvs/beam/bin/python`), which
    a kill by pattern could match.
    """
    name = "/proc/self/exe" if table.LINUX else sys.executable
    return [name, "-I", "-S", "-c", _BOOT, str(instructions)]


def encode_instructions(
    argv: Sequence[bytes],
    *,
    lifeline: int,
    status: int,
    holder: int,
    marker: bytes,
    grace: float,
    unstarted: bytes = b"",
    confined: bytes = b"",
) -> bytes:
    """Return the guard's instructions as bytes, whose parts are separated by NUL.

    The instructions contain the agent's command line `argv`, the descriptors `lifeline` and `status`, the pid of the
    holder, the name of the marker variable, and the grace period in seconds. `unstarted` is the path of the file to
    create if the agent was never started (empty: no file). `confined` says what the agent may not change, as encoded by
    `landlock.encode_paths` (empty: no confinement). Raises ValueError if a part contains a NUL.
    """
    numbers = (str(lifeline).encode(), str(status).encode(), str(holder).encode())
    words = [_source_of_modules().encode(), *numbers, marker, str(grace).encode(), unstarted, confined, *argv]
    if any(b"\0" in keyword for keyword in words):
        raise ValueError("embedded null byte")
    return b"\0".join(words)


def _source_of_modules() -> str:
    """Return Python source that makes `guard` and what it imports importable in the guard. If agents may write the
    files of these modules, the source contains their code."""
    from beam.base import own_program

    names = ("beam.process.table", "beam.process.landlock", "beam.process.guard")
    held = own_program.held.source_of(*names) if own_program.held is not None else None
    return held or f"sys.path.append({__file__.rpartition('/')[0]!a})"


class Guard:
    """The state of a guard: one agent process, and the processes that it left."""

    def __init__(self, *, status: int, holder: int, marker: bytes, grace: float) -> None:
        self.grace = grace
        self.deadline: float | None = None  # monotonic; None until the end is wanted
        self.status = status
        self.holder = holder
        self.marker = marker
        self.me = posix.getpid()
        self._group = posix.getpgrp()
        self.on_terminal = posix.isatty(0)
        self.agent = 0
        self.is_released = False  # whether the agent was released to its exec, and the system did not refuse that
        self.failure = 0  # the errno with which the agent's exec failed
        self.report = -1  # the descriptor for the result of the exec: an errno, or end-of-file for success
        self._gate = -1
        self._has_heard = False
        self.exited: int | None = None  # the agent's wait status
        self.sweeping = False
        self.swept: set[int] = set()  # pids of what outlived the agent
        self.known: set[table.Process] = set()  # macOS: descendants seen so far, which may be orphans by now

    def send_status_line(self, text: str) -> None:
        """Write one line to the status pipe. Does nothing if the holder is gone."""
        try:
            posix.write(self.status, text.encode() + b"\n")
        except OSError:
            return

    def fork_agent(self, argv: list[bytes], env: dict[bytes, bytes], confined: bytes = b"") -> None:
        """Fork the agent's process, which waits before its exec until `release_agent`. Raises OSError."""
        gate, self._gate = posix.pipe()
        self.report, sink = posix.pipe()
        every = _signal.valid_signals()
        _signal.pthread_sigmask(_signal.SIG_BLOCK, every)
        self.agent = posix.fork()
        if self.agent == 0:
            try:
                posix.close(self._gate)
                wait_for_go(gate, guard=self.me)
                become_agent(argv, env, confined=confined)
            except OSError as error:
                posix.write(sink, str(error.errno or 0).encode())
            finally:
                posix._exit(127)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
        posix.close(gate)
        posix.close(sink)
        row = table.stat_of(self.agent)
        self.send_status_line(f"held {self.agent} {row[2] if row else 0}")

    def release_agent(self) -> None:
        """Release the agent's process to its exec, if the holder still lives and no end was requested."""
        if self.deadline is None and not self.is_released and posix.getppid() == self.holder:
            try:
                posix.write(self._gate, _GO)
            except OSError:  # somebody ended it already
                return
            self.is_released = True

    def report_exec_result(self, seconds: float | None = None) -> None:
        """Report the result of the agent's exec to the holder, once.

        If the exec is still under way, wait for its result (for at most `seconds`, if given).
        """
        if self.is_released and not self._has_heard:
            if seconds is not None and not select.select([self.report], [], [], seconds)[0]:
                return
            self._has_heard = True
            self.failure = int(posix.read(self.report, 16) or b"0")
            self.is_released = not self.failure
            self.send_status_line(f"failed {self.failure}" if self.failure else "running")

    def reap(self) -> bool:
        """Collect ended children; return True when no child is left (on Linux: no descendant)."""
        while True:
            try:
                pid, status = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.agent and self.exited is None:
                self.exited = status
                self.report_exec_result()
                if not self.failure:
                    code = posix.waitstatus_to_exitcode(status)
                    self.send_status_line(f"exited {code} -" if code >= 0 else f"exited - {-code}")
            elif self.sweeping and posix.WIFSIGNALED(status):
                self.swept.add(pid)

    def interrupt(self, signal: int) -> None:
        """Send the signal to the agent's process alone. Does nothing if the process has ended."""
        if self.exited is None:
            try:
                posix.kill(self.agent, signal)
            except PermissionError:
                return

    def targets(self, *, childless: bool) -> set[table.Process]:
        """Return the processes that have to be ended: living descendants, and living processes that carry the marker.

        `childless` says that the guard has no children. On Linux it then has no descendants either, and looks for none.
        """
        found = {process for process, _ in table.marked_processes(self.marker)}
        if not (childless and table.LINUX):
            found |= table.descendants(self.me, *(pid for pid, _ in self.known))
        if not table.LINUX:
            self.known |= found
        found = {process for process in found if process[0] not in (self.me, self.holder)}
        self.swept |= {pid for pid, _ in found if pid != self.agent}
        return found

    def check_holder(self) -> None:
        """Record the current descendants, and end everything if the holder is gone. Needed on macOS only. (Never
        tested.)"""
        self.known |= table.descendants(self.me, *(pid for pid, _ in self.known))
        if posix.getppid() != self.holder and self.deadline is None:
            self.end(min(self.grace, HOLDER_GRACE))

    def end(self, grace: float) -> None:
        """Ask all processes to end, once, and set the time at which they are killed: `grace` seconds from now.

        A later call can only make that time earlier. Before the agent's exec nothing runs that could use the time, so
        it is 0.
        """
        self.report_exec_result(EXEC_SECONDS)
        if not self.is_released:  # nothing runs that could use the time
            grace = 0.0
        wanted = time.monotonic() + grace
        if self.deadline is None and grace > 0:
            for process in self.targets(childless=False):
                table.send_signal(process, _signal.SIGTERM)
                table.send_signal(process, _signal.SIGCONT)  # a stopped process does not even see SIGTERM
        self.deadline = wanted if self.deadline is None else min(self.deadline, wanted)

    def on_signals(self, signals: bytes) -> None:
        """Handle signals that the guard received. `signals` contains one byte, the number of the signal, for each."""
        for signal in signals:
            if signal == _signal.SIGINT and not self.on_terminal:  # a terminal's ^C reaches the agent directly
                self.interrupt(signal)
            elif signal in (_signal.SIGTERM, _signal.SIGHUP):
                self.end(self.grace)

    def on_command(self, line: bytes) -> None:
        """Carry out the command in one line from the lifeline."""
        keyword, _, value = line.partition(b" ")
        if keyword == b"go":
            self.release_agent()
        elif keyword == b"interrupt":
            self.interrupt(int(value))
        elif keyword == b"end":
            self.end(float(value))

    def kill(self) -> int:
        """Kill all processes and return how many are left, after 5 s at most.

        Stops all processes first, so that none can escape by forking.
        """
        deadline = time.monotonic() + SWEEP_SECONDS
        frozen: set[table.Process] = set()
        rounds = empty = 0
        self.sweeping = True
        childless = self.reap()
        while True:
            targets = self.targets(childless=childless)
            if rounds < table.FREEZE_ROUNDS and (new := targets - frozen):
                rounds += 1
                frozen |= new
                for process in new:
                    table.send_signal(process, _signal.SIGSTOP)
                continue
            for process in targets:
                table.send_signal(process, _signal.SIGKILL)
            childless = self._kill_children()
            empty = empty + 1 if childless and not targets else 0
            if empty == 2:
                return 0
            if time.monotonic() > deadline:
                return len(targets)
            if childless and targets:
                time.sleep(0.002)

    def _kill_children(self) -> bool:
        """Kill the guard's children as they appear, faster than a chain of forks can grow.

        Return True once no child is left; return False if some are left after a fraction of a second. On a busy
        machine, each process of a chain may be gone before it is signalled. So its process group is killed, too: the
        kernel signals all processes of a group at once, and a fork that is under way in the group fails.
        """
        began = time.monotonic()
        seen: set[int] = set()
        while not self.reap():
            arrived = set(table.children()) - seen
            for pid in arrived:
                try:
                    group = posix.getpgid(pid)  # a child keeps its pid and its group until it is reaped here
                    if group != self._group:
                        posix.killpg(group, _signal.SIGKILL)
                    posix.kill(pid, _signal.SIGKILL)
                except (PermissionError, ProcessLookupError):  # another user's by now (sudo)
                    continue
            seen |= arrived
            if time.monotonic() - began > (CHAIN_SECONDS if arrived else CHASE_SECONDS):
                return False
            if not arrived:
                time.sleep(0.0005)
        return True


def wait_for_go(gate: int, *, guard: int) -> None:
    """Wait in the new child until the guard releases it; end the child if that never happens.

    Every signal but SIGKILL is blocked until then, because the child still has the guard's signal handlers.
    """
    table.prctl(table.PR_SET_PDEATHSIG, _signal.SIGKILL)
    if posix.getppid() != guard or posix.read(gate, 1) != _GO:
        posix._exit(EXIT_NOT_STARTED)


def become_agent(argv: list[bytes], env: dict[bytes, bytes], *, confined: bytes = b"") -> None:
    """Turn the new child into the agent's process by an exec, after applying the confinement in `confined`.

    Never returns. Raises OSError if the exec or the confinement fails.
    """
    if not posix.isatty(0):
        posix.setpgid(0, 0)  # a kill(0) of the agent's must not hit the guard
    _signal.set_wakeup_fd(-1)
    for signal in _signal.valid_signals():
        if signal not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(signal, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    if confined:
        _confine(confined)
    if b"/" in argv[0]:
        posix.execve(argv[0], argv, env)
    denied: OSError | None = None
    for folder in env.get(b"PATH", DEFAULT_PATH).split(b":"):
        if not folder:
            continue
        try:
            posix.execve(folder + b"/" + argv[0], argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            denied = error
    raise denied or FileNotFoundError(errno.ENOENT, "not on the PATH")


def _confine(value: bytes) -> None:
    if TYPE_CHECKING or __package__:
        from beam.process import landlock
    else:
        import landlock
    landlock.confine_encoded(value)


def _ignore(signal: int, frame: object) -> None:
    """Ignore a signal. Unlike SIG_IGN, a handler is not inherited through exec."""


def _wake_on_signals() -> int:
    source, sink = posix.pipe()
    posix.set_blocking(source, False)
    posix.set_blocking(sink, False)
    _signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
    for signal in (_signal.SIGCHLD, _signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGWINCH):
        _signal.signal(signal, _ignore)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    return source


def _exit_descriptor(pid: int) -> int:
    """Return a descriptor that becomes readable when the process ends; -1 if the system has no such descriptor.

    Exits if the process has already ended.
    """
    try:
        return int(posix.pidfd_open(pid))
    except AttributeError:
        return -1
    except OSError as error:
        if error.errno == errno.ESRCH:
            posix._exit(EXIT_NOT_STARTED)
        return -1


def _wait(guard: Guard, *, lifeline: int, wakeup: int, holder: int) -> None:
    """Wait until no process is left, or until an end was requested and its grace period is over."""
    poll = select.poll()
    for fd in (lifeline, wakeup, holder, guard.report):
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    partial_line = b""
    while True:
        childless = guard.reap()
        if guard.exited is not None and not childless:
            guard.end(min(guard.grace, LEFTOVER_GRACE))
        rest = None if guard.deadline is None else guard.deadline - time.monotonic()
        if childless or (rest is not None and rest <= 0):
            return
        if not table.LINUX:
            guard.check_holder()
            rest = min(0.5, rest or 0.5)
        for fd, _ in poll.poll(None if rest is None else rest * 1000 + 1):
            if fd == wakeup:
                guard.on_signals(posix.read(wakeup, 4096))
            elif fd == lifeline and (data := posix.read(lifeline, 4096)):
                *lines, partial_line = (partial_line + data).split(b"\n")
                for line in lines:
                    guard.on_command(line)
            elif fd == guard.report:
                poll.unregister(fd)
                guard.report_exec_result()
            else:
                poll.unregister(fd)
                guard.end(min(guard.grace, HOLDER_GRACE))


def main(instructions: list[bytes]) -> None:
    """Run the agent to its end, and exit with the agent's exit code. `instructions` are the parts of the result of
    `encode_instructions`."""
    lifeline, status, holder_pid = (int(keyword) for keyword in instructions[:3])
    marker, unstarted, confined, argv = instructions[3], instructions[5], instructions[6], instructions[7:]
    if posix.fstat(lifeline).st_mode & 0o170000 != 0o010000:
        posix._exit(EXIT_NOT_STARTED)  # not a FIFO: the number belongs to something else here
    posix.set_inheritable(lifeline, False)
    posix.set_inheritable(status, False)
    guard = Guard(status=status, holder=holder_pid, marker=marker, grace=float(instructions[4]))
    try:
        wakeup = _wake_on_signals()
        if posix.isatty(0):  # a session's leader that opens a terminal makes it the session's: ^C and job control work
            posix.close(posix.open(posix.ttyname(0), posix.O_RDWR))
        table.prctl(table.PR_SET_CHILD_SUBREAPER, 1)
        holder = _exit_descriptor(holder_pid)
        if posix.getppid() != holder_pid:
            posix._exit(EXIT_NOT_STARTED)
        null = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
        guard.fork_agent(argv, {**posix.environ, marker: b"1"}, confined)
    except OSError as error:
        guard.send_status_line(f"failed {error.errno or 0}")
        posix._exit(EXIT_NOT_STARTED)
    for fd in (0, 1, 2):
        posix.dup2(null, fd)
    _wait(guard, lifeline=lifeline, wakeup=wakeup, holder=holder)
    began = time.monotonic()
    left = guard.kill()
    if not guard.is_released:
        _create_unstarted_file(unstarted)
    guard.send_status_line(f"clean {len(guard.swept)} {left} {int((time.monotonic() - began) * 1000)}")
    code = posix.waitstatus_to_exitcode(guard.exited) if guard.exited is not None else -_signal.SIGKILL
    if not guard.is_released:
        code = EXIT_NOT_STARTED
    posix._exit(code if code >= 0 else 128 - code)


def _create_unstarted_file(path: bytes) -> None:
    """Create the file that says that the agent was never started.

    If the file can't be created, the next holder does not know whether the agent was started.
    """
    if path:
        try:
            posix.close(posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC, 0o600))
        except OSError:
            return
