"""Process trees seen from outside: whether a process is alive, and how to end the processes that a dead holder left.

The functions use `table.py`'s view of the process table. Before each signal to a process, its start time is compared,
so a signal never hits another process that got the same pid. Does not depend on turns, journals or asyncio.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from beam.model.events import Owner
from beam.process import table
from beam.process.table import Process

GUARD_SHARE = 0.7  # the share of the timeout in which a guard that still runs may finish its own cleanup
POLL_SECONDS = 0.004
# One scan can miss every link of a quick chain of forks, and a process that is just being created or executes another
# program. Nothing is left after so many empty scans in a row, if no process was created during any of them. Where
# processes are created all the time, or where that is unknown, so many empty scans in a row are enough.
QUIET_SCANS = 3
EMPTY_SCANS = 50
EMPTY_SCANS_IF_UNKNOWN = 5

# Children of this process in sessions of their own that `end_orphans` must not take for what a dead guard left.
spared_pids: set[int] = set()
_subreaper = False


class CleanupResult(Struct, frozen=True):
    """The result of a cleanup: how many processes were `ended`, and the pids of the processes that are `left`."""

    ended: int = 0
    left: tuple[int, ...] = ()


def start_ticks(pid: int) -> int | None:
    """Return when the process began (see `events.Owner`); None if it is gone or a zombie."""
    row = table.stat_of(pid)
    return row[2] if row and row[3] else None


def this_process() -> Owner:
    """Return this process as the `Owner` that a journal records."""
    pid = os.getpid()
    return Owner(
        pid=pid,
        start_ticks=start_ticks(pid) or 0,
        boot_id=_boot_id(),
        pid_namespace=_pid_namespace(),
        host=os.uname().nodename,
    )


@cache
def _boot_id() -> str:
    return table.read_file("/proc/sys/kernel/random/boot_id").decode("ascii").strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino) if table.LINUX else ""


def is_alive(owner: Owner) -> bool | None:
    """Return whether the process still runs; None if that can't be known from here (another host or pid namespace).

    If this host was restarted since, the process is not alive. An equal boot id means this host, even if the name of
    the host has changed.
    """
    if owner.boot_id != _boot_id() or not owner.boot_id:
        if owner.host != os.uname().nodename:
            return None
        if owner.boot_id and _boot_id():
            return False
    if owner.pid_namespace != _pid_namespace():
        return None
    return start_ticks(owner.pid) == owner.start_ticks


def become_subreaper() -> bool:
    """Make this process a subreaper: it adopts the processes that are left when its guards die.

    Return False if the system has no subreapers.
    """
    global _subreaper
    _subreaper = table.prctl(table.PR_SET_CHILD_SUBREAPER, 1)
    return _subreaper


def end_processes(
    marker: str, owners: Sequence[Owner], *, timeout: float = 5.0, patience: float | None = None
) -> CleanupResult:
    """End the processes `owners`, their descendants, and all processes of this user that carry the marker variable.

    Never ends this process or one of its ancestors. A guard that still runs may finish its own cleanup first: within
    `patience` seconds, or if that is None, within 70 % of `timeout`. An owner on another host or in another pid
    namespace is ignored; `is_alive` returns None for it. Returns after so many scans in a row that found no process as
    the constants above say, or after `timeout` seconds.
    """
    began = time.monotonic()
    hunt = _Cleanup(marker.encode(), {(owner.pid, owner.start_ticks) for owner in owners if is_alive(owner)})
    hunt.let_guards_finish(until=began + (timeout * GUARD_SHARE if patience is None else patience))
    for _ in range(table.FREEZE_ROUNDS):  # so that nothing escapes by a fork, and all descendants are found
        known = len(hunt.seen)
        hunt.signal_all(table.SIGSTOP)
        if len(hunt.seen) == known:
            break
    empty = quiet = 0
    while True:
        known, newest = len(hunt.seen), table.newest_pid()
        struck = hunt.signal_all(table.SIGKILL)
        empty = 0 if struck else empty + 1
        quiet = quiet + 1 if newest and empty and newest == table.newest_pid() else 0
        enough = EMPTY_SCANS if newest else EMPTY_SCANS_IF_UNKNOWN
        if quiet == QUIET_SCANS or empty == enough or time.monotonic() - began > timeout:
            left = tuple(sorted(pid for pid, start in struck if start_ticks(pid) == start))
            return CleanupResult(ended=len(hunt.seen) - len(left), left=left)
        if struck and len(hunt.seen) == known:
            time.sleep(POLL_SECONDS)


class _Cleanup:
    """The processes that have to be ended. `seen` are all of them that were found so far, including those that are
    gone."""

    def __init__(self, marker: bytes, roots: set[Process]) -> None:
        self._marker = marker
        self._roots = roots
        self._own = _self_and_ancestors()
        self.seen: set[Process] = set()

    def signal_all(self, number: int) -> set[Process]:
        """Send the signal `number` to all processes that have to be ended, and return these processes.

        Each process is signalled as soon as it is found, because a process in a chain of forks is gone a moment later.
        """
        struck: set[Process] = set()
        for process, _ in table.marked_processes(self._marker):
            self._signal_once(process, number, struck)
        for process in self._roots | self.seen:
            if start_ticks(process[0]) == process[1]:
                self._signal_once(process, number, struck)
        if struck:
            for process in table.descendants(*(pid for pid, _ in struck)):
                self._signal_once(process, number, struck)
        self.seen |= struck
        return struck

    def let_guards_finish(self, *, until: float) -> None:
        """Ask the guards that still run to end, and wait for them until the monotonic time `until`.

        Stopped guards are woken, too.
        """
        guards = self._guards()
        self.seen |= guards
        for process in guards:
            table.send_signal(process, table.SIGTERM)
            table.send_signal(process, table.SIGCONT)
        while guards and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            guards = self._guards()

    def _guards(self) -> set[Process]:
        return {
            process
            for process, value in table.marked_processes(self._marker)
            if value == table.GUARD_VALUE and process[0] not in self._own
        }

    def _signal_once(self, process: Process, number: int, struck: set[Process]) -> None:
        if process[0] not in self._own and process not in struck:
            table.send_signal(process, number)
            struck.add(process)


def end_orphans(*, since: int, timeout: float = 5.0) -> CleanupResult:
    """End the children that this process adopted after a guard was killed, and then those that it adopts from them.

    A child counts as adopted if it began at `since` (the guard's start ticks) or later, runs in another session than
    this process (as the tree of a guard always does), and is not in `spared_pids`. Does nothing if this process is not
    a subreaper.
    """
    if not _subreaper:
        return CleanupResult()
    began = time.monotonic()
    session = os.getsid(0)
    ended: set[int] = set()
    empty = 0
    while True:
        known = len(ended)
        adopted = set()
        for pid in table.children():
            row = table.stat_of(pid)
            if row and row[1] != session and row[2] >= since and pid not in spared_pids:
                adopted.add(pid)
                _kill_group(pid)  # all of it at once: a chain of forks can be too quick for single signals
                if row[3]:
                    ended.add(pid)
                    table.send_signal((pid, row[2]), table.SIGKILL)
                _reap(pid)
        empty = 0 if adopted else empty + 1
        if empty == 2 or time.monotonic() - began > timeout:
            return CleanupResult(ended=len(ended - adopted), left=tuple(sorted(adopted)))
        if len(ended) == known:
            time.sleep(POLL_SECONDS / 4)


def _kill_group(child: int) -> None:
    """Kill the process group of a child that runs in another session.

    The pid can't belong to another process, because the child is not reaped before.
    """
    try:
        os.killpg(os.getpgid(child), table.SIGKILL)
    except (PermissionError, ProcessLookupError):
        return


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # someone else waited for it


def _self_and_ancestors() -> set[int]:
    pid = os.getpid()
    lineage = {pid}
    while pid > 1 and (row := table.stat_of(pid)):
        pid = row[0]
        lineage.add(pid)
    return lineage
