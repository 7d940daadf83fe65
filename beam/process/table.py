"""The process table of this machine: parents, children and markers. Also sends signals safely to one process.

The guard runs this module, too. So the module may import nothing of beam, and only the cheapest modules of the standard
library (`signal` costs 8 ms of CPU, `ctypes` 5). On Linux it reads /proc, on macOS it runs ps; `LINUX` says which.
(Never tested on macOS.)
"""

from __future__ import annotations

import errno
import posix
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable, Iterator
else:
    import _signal

LINUX = sys.platform == "linux"
GUARD_VALUE = b"guard"  # the marker's value in a guard's own environment; in other processes it is 1
FREEZE_ROUNDS = 3
SIGKILL, SIGTERM, SIGSTOP, SIGCONT = _signal.SIGKILL, _signal.SIGTERM, _signal.SIGSTOP, _signal.SIGCONT
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

Process = tuple[int, int]  # (pid, start ticks): no two processes ever have the same


def read_file(path: str) -> bytes:
    """Return the content of a small file; b"" if the file can't be read (the process is gone, or belongs to another
    user)."""
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := posix.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        posix.close(fd)


def stat_of(pid: int) -> tuple[int, int, int, bool] | None:
    """Return (parent pid, session id, start ticks, is alive) of a process; None if there is no such process.

    A zombie counts as alive only while it has other threads. On macOS the session id is always 0.
    """
    if not LINUX:
        row = _ps().get(pid)
        return row and (row[0], 0, row[1], True)
    fields = read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    alive = fields[0] not in (b"Z", b"X") or int(fields[17]) > 1
    return int(fields[1]), int(fields[3]), int(fields[19]), alive


def pids() -> list[int]:
    """Return the pids of all visible processes, the newest first, so that a process that forks endlessly is found.

    Pids above `newest_pid` are from before the numbers wrapped.
    """
    if not LINUX:
        return sorted(_ps(), reverse=True)
    found = [int(name) for name in posix.listdir("/proc") if name.isdigit()]
    newest = newest_pid()
    return sorted(found, key=lambda pid: (pid > newest > 0, -pid))


def newest_pid() -> int:
    """Return the pid that the kernel gave last to a process or a thread of this pid namespace; 0 if unknown."""
    last = read_file("/proc/loadavg").rpartition(b" ")[2].strip() if LINUX else b""
    return int(last) if last.isdigit() else 0


def children() -> list[int]:
    """Return the pids of this process's own children, including zombies.

    Scans all processes only if the kernel has no list of children.
    """
    me = posix.getpid()
    if not LINUX or not posix.access(f"/proc/self/task/{me}/children", posix.R_OK):
        return [pid for pid in pids() if (row := stat_of(pid)) and row[0] == me]
    lists = [read_file(f"/proc/self/task/{thread}/children") for thread in posix.listdir("/proc/self/task")]
    return [int(pid) for pid in b" ".join(lists).split()]


def descendants(*roots: int) -> set[Process]:
    """Return the living descendants of the processes `roots`, without `roots` themselves."""
    below: dict[int, list[tuple[int, int, bool]]] = {}
    for pid in pids():
        if row := stat_of(pid):
            below.setdefault(row[0], []).append((pid, row[2], row[3]))
    found: set[Process] = set()
    seen = set(roots)
    queue = list(roots)
    while queue:
        for pid, start, alive in below.get(queue.pop(), ()):
            if pid not in seen:
                seen.add(pid)
                queue.append(pid)
                if alive:
                    found.add((pid, start))
    return found


def environment_of(pid: int) -> list[bytes]:
    """Return the environment with which the process was started, as `NAME=value` entries.

    The list is empty if the environment can't be read, and always on macOS.
    """
    return read_file(f"/proc/{pid}/environ").split(b"\0") if LINUX else []


def ancestor_environments(most: int) -> Iterator[list[bytes]]:
    """Yield the environment with which each ancestor of this process was started, beginning with the parent.

    Yields at most `most` environments.
    """
    pid = posix.getpid()
    for _ in range(most):
        row = stat_of(pid)
        if row is None or row[0] <= 1:
            return
        pid = row[0]
        yield environment_of(pid)


def marker_of(pid: int, name: bytes) -> bytes | None:
    """Return the variable's value in the environment with which the process was started; None if the variable is not
    set.

    On macOS the value is always b"1".
    """
    if not LINUX:
        return b"1" if b" " + name + b"=" in _ps_environment(pid) else None
    found = (b"\0" + read_file(f"/proc/{pid}/environ")).partition(b"\0" + name + b"=")
    return found[2].partition(b"\0")[0] if found[1] else None


def marked_processes(name: bytes) -> Iterator[tuple[Process, bytes]]:
    """Yield each living process of this user that carries the variable, and the variable's value, as soon as it is
    found."""
    uid = posix.getuid()
    for pid in pids():
        try:
            if LINUX and posix.stat(f"/proc/{pid}").st_uid != uid:
                continue
        except OSError:
            continue
        value = marker_of(pid, name)
        if value is not None and (row := stat_of(pid)) and row[3]:
            yield (pid, row[2]), value


def send_signal(process: Process, signal: int) -> bool:
    """Send a signal to this process, but never to another process that got the same pid later.

    Return False if the process is gone or may not be signalled.
    """
    pid, start = process
    try:
        fd = posix.pidfd_open(pid)
    except AttributeError:
        fd = -1
    except OSError as error:
        if error.errno != errno.ENOSYS:
            return False
        fd = -1
    try:
        row = stat_of(pid)
        if row is None or row[2] != start:
            return False
        if fd >= 0:
            _signal.pidfd_send_signal(fd, signal)
        else:
            posix.kill(pid, signal)
        return True
    except OSError:
        return False
    finally:
        if fd >= 0:
            posix.close(fd)


def prctl(option: int, value: int) -> bool:
    """Call prctl(2). Return False if the kernel refuses the call, or if the system has no prctl."""
    return LINUX and libc(b"prctl")(option, value, 0, 0, 0) == 0


def libc(name: bytes) -> Callable[..., int]:
    """Return a function of the C library as a callable that takes ints and bytes and returns an int.

    Importing `_ctypes` without `ctypes` saves 3 ms of CPU.
    """
    try:
        import _ctypes

        address = _ctypes.dlsym(_ctypes.dlopen(None, 2), name.decode())  # type: ignore[arg-type]
        call = _ctypes.call_cdeclfunction
    except (ImportError, AttributeError):
        import ctypes

        plain = getattr(ctypes.CDLL(None), name.decode())
        return lambda *arguments: int(plain(*arguments))
    return lambda *arguments: int(call(address, arguments))


def _ps() -> dict[int, tuple[int, int]]:
    """Return pid -> (parent pid, start time in microseconds), as ps reports it on macOS. (Never tested.)

    ps reports whole seconds.
    """
    found: dict[int, tuple[int, int]] = {}
    for line in _program_output(["/bin/ps", "-axo", "pid=,ppid=,state=,lstart="]).splitlines():
        fields = line.decode("ascii", "replace").split(None, 3)
        if len(fields) == 4 and not fields[2].startswith("Z"):
            try:
                start = int(time.mktime(time.strptime(fields[3].strip(), "%a %b %d %H:%M:%S %Y"))) * 1_000_000
            except ValueError:
                continue
            found[int(fields[0])] = int(fields[1]), start
    return found


def _ps_environment(pid: int) -> bytes:
    """Return the command line and environment of a process, as ps reports them on macOS. (Never tested.)

    The environment is missing for Apple's own programs.
    """
    return _program_output(["/bin/ps", "-p", str(pid), "-wwE", "-o", "command="])


def _program_output(argv: list[str]) -> bytes:
    source, sink = posix.pipe()
    env = {b"PATH": b"/usr/bin:/bin", b"LC_ALL": b"C"}
    child = posix.posix_spawn(argv[0], argv, env, file_actions=[(posix.POSIX_SPAWN_DUP2, sink, 1)])
    posix.close(sink)
    parts = []
    while part := posix.read(source, 65536):
        parts.append(part)
    posix.close(source)
    posix.waitpid(child, 0)
    return b"".join(parts)
