"""Process trees seen from outside: who is alive, and how to end what a dead holder left.

Plain functions over `table.py`'s view of the process table; does not depend on turns, journals or asyncio. Every signal
goes through a pidfd after the start was compared, so that a pid given to another process in the meantime is never hit.
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

GUARD_SHARE = 0.7  # of the time to clean: how long a guard that is still at work may finish it
POLL_SECONDS = 0.004
EMPTY_SCANS = 5  # in a row, until nothing is left: one scan can miss every link of a quick chain of forks

# Children of this process in sessions of their own that `end_orphans` must not take for what a dead guard left.
spared: set[int] = set()
_subreaper = False


class Cleaned(Struct, frozen=True):
    """How many processes were found and are gone now, and the pids of those that are not."""

    ended: int = 0
    left: tuple[int, ...] = ()


def start_ticks(pid: int) -> int | None:
    """Return when the process began (see `events.Owner`); None if it is gone or a zombie."""
    row = table.stat_of(pid)
    return row[2] if row and row[3] else None


def this_process() -> Owner:
    """Return this process, as a journal names it."""
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
    return table.read("/proc/sys/kernel/random/boot_id").decode("ascii").strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino) if table.LINUX else ""


def is_alive(owner: Owner) -> bool | None:
    """Return whether the process still runs; None if that can't be known from here (another host or pid namespace).

    A process of a host that was restarted since is not alive. An equal boot id means this host, whatever it was called
    then.
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
    """Make this process adopt what its dead guards leave; return False if the system has no such thing."""
    global _subreaper
    _subreaper = table.prctl(table.PR_SET_CHILD_SUBREAPER, 1)
    return _subreaper


def clean(marker: str, owners: Sequence[Owner], *, timeout: float = 5.0, patience: float | None = None) -> Cleaned:
    """End the recorded processes, what is below them, and this user's processes that carry the marker variable.

    Never ends this process or one above it. A guard that is still at work may finish first: within `patience` seconds
    if given, else within most of `timeout`. An owner of another host or pid namespace is left alone: use `is_alive`.
    Returns when `EMPTY_SCANS` scans in a row found nothing, or after `timeout` seconds.
    """
    began = time.monotonic()
    hunt = _Cleanup(marker.encode(), {(owner.pid, owner.start_ticks) for owner in owners if is_alive(owner)})
    hunt.let_guards_finish(until=began + (timeout * GUARD_SHARE if patience is None else patience))
    for _ in range(table.FREEZE_ROUNDS):  # so that nothing forks away, and what is below the marked ones is seen
        known = len(hunt.seen)
        hunt.strike(table.SIGSTOP)
        if len(hunt.seen) == known:
            break
    empty = 0
    while True:
        known = len(hunt.seen)
        struck = hunt.strike(table.SIGKILL)
        empty = 0 if struck else empty + 1
        if empty == EMPTY_SCANS or time.monotonic() - began > timeout:
            left = tuple(sorted(pid for pid, start in struck if start_ticks(pid) == start))
            return Cleaned(ended=len(hunt.seen) - len(left), left=left)
        if struck and len(hunt.seen) == known:
            time.sleep(POLL_SECONDS)


class _Cleanup:
    """What has to be ended, and every process that ever was in that set."""

    def __init__(self, marker: bytes, roots: set[Process]) -> None:
        self._marker = marker
        self._roots = roots
        self._own = _lineage()
        self.seen: set[Process] = set()

    def strike(self, number: int) -> set[Process]:
        """Signal all processes that are found, each immediately: one in a chain of forks is gone a moment later."""
        struck: set[Process] = set()
        for process, _ in table.marked(self._marker):
            self._hit(process, number, struck)
        for process in self._roots | self.seen:
            if start_ticks(process[0]) == process[1]:
                self._hit(process, number, struck)
        if struck:
            for process in table.descendants(*(pid for pid, _ in struck)):
                self._hit(process, number, struck)
        self.seen |= struck
        return struck

    def let_guards_finish(self, *, until: float) -> None:
        """Wake guards, tell them to end, and wait for them."""
        guards = self._guards()
        self.seen |= guards
        for process in guards:
            table.send(process, table.SIGTERM)
            table.send(process, table.SIGCONT)
        while guards and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            guards = self._guards()

    def _guards(self) -> set[Process]:
        return {
            process
            for process, value in table.marked(self._marker)
            if value == table.GUARD_VALUE and process[0] not in self._own
        }

    def _hit(self, process: Process, number: int, struck: set[Process]) -> None:
        if process[0] not in self._own and process not in struck:
            table.send(process, number)
            struck.add(process)


def end_orphans(*, since: int, timeout: float = 5.0) -> Cleaned:
    """End the children that this process adopted after a guard was killed, and so everything below them.

    A child of this process counts if it began at `since` (the guard's start ticks) or later, runs in another session
    (the tree of a guard always does) and is not in `spared`. Does nothing in a process that is no subreaper.
    """
    if not _subreaper:
        return Cleaned()
    began = time.monotonic()
    session = os.getsid(0)
    ended: set[int] = set()
    empty = 0
    while True:
        known = len(ended)
        adopted = set()
        for pid in table.children():
            row = table.stat_of(pid)
            if row and row[1] != session and row[2] >= since and pid not in spared:
                adopted.add(pid)
                _kill_group(pid)  # all of it at once: a chain of forks can be too quick for single signals
                if row[3]:
                    ended.add(pid)
                    table.send((pid, row[2]), table.SIGKILL)
                _reap(pid)
        empty = 0 if adopted else empty + 1
        if empty == 2 or time.monotonic() - began > timeout:
            return Cleaned(ended=len(ended - adopted), left=tuple(sorted(adopted)))
        if len(ended) == known:
            time.sleep(POLL_SECONDS / 4)


def _kill_group(child: int) -> None:
    """Kill the process group of a child in another session; the child keeps its pid until it is reaped here."""
    try:
        os.killpg(os.getpgid(child), table.SIGKILL)
    except (PermissionError, ProcessLookupError):
        return


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # someone else waited for it


def _lineage() -> set[int]:
    pid = os.getpid()
    lineage = {pid}
    while pid > 1 and (row := table.stat_of(pid)):
        pid = row[0]
        lineage.add(pid)
    return lineage
