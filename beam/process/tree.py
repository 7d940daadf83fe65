"""Processes and what is below them, seen from outside: who is alive, and how to end what a dead holder left.

Plain functions over `table.py`'s view of the process table; must not know turns, journals or asyncio. Every signal goes
through a pidfd after the start was compared, so that a pid given to another process in the meantime is never hit.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from beam.events import Owner
from beam.process import table
from beam.process.table import Process

GUARD_SHARE = 0.7  # of the time to clean: how long a guard that is still at work may finish it
POLL_SECONDS = 0.004

# Children of this process in sessions of their own that `end_orphans` must not take for what a dead guard left.
spared: set[int] = set()
_subreaper = False


class Cleaned(Struct, frozen=True):
    """How many processes were found and are gone now, and the pids of those that are not."""

    ended: int = 0
    left: tuple[int, ...] = ()


def start_ticks(pid: int) -> int | None:
    """When the process began (see `events.Owner`); None if it is gone or a zombie."""
    row = table.stat_of(pid)
    return row[2] if row and row[3] else None


def this_process() -> Owner:
    """This process, as a journal names it."""
    pid = os.getpid()
    return Owner(
        pid=pid,
        start_ticks=start_ticks(pid) or 0,
        boot_id=_boot_id(),
        pid_namespace=_pid_namespace(),
        host=socket.gethostname(),
    )


@cache
def _boot_id() -> str:
    return table.read("/proc/sys/kernel/random/boot_id").decode("ascii").strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino) if table.LINUX else ""


def is_alive(owner: Owner) -> bool | None:
    """Whether the process still runs; None where it can't be known from here (another host or pid namespace).

    A host that was restarted since runs it no more. An equal boot id is this host, whatever it was called then.
    """
    if owner.boot_id != _boot_id() or not owner.boot_id:
        if owner.host != socket.gethostname():
            return None
        if owner.boot_id and _boot_id():
            return False
    if owner.pid_namespace != _pid_namespace():
        return None
    return start_ticks(owner.pid) == owner.start_ticks


def become_subreaper() -> bool:
    """Makes this process adopt what its dead guards leave; False where the system has no such thing."""
    global _subreaper
    _subreaper = table.prctl(table.PR_SET_CHILD_SUBREAPER, 1)
    return _subreaper


def clean(marker: str, owners: Sequence[Owner], *, timeout: float = 5.0) -> Cleaned:
    """Ends the recorded processes, what is below them, and this user's processes that carry the marker variable.

    Never this process or one above it. A guard that is still at work may first finish. An owner of another host or pid
    namespace is left alone: ask `is_alive`. Returns when two looks in a row found nothing, or after `timeout` seconds.
    """
    roots = {(owner.pid, owner.start_ticks) for owner in owners if is_alive(owner)}
    name = marker.encode()
    own = _lineage()

    def find() -> set[Process]:
        carrying = table.marked(name).keys()
        alive = {(pid, start) for pid, start in roots if start_ticks(pid) == start}
        return {process for process in _with_below(alive | carrying) if process[0] not in own}

    def at_work() -> set[Process]:
        return {process for process, value in table.marked(name).items() if value == table.GUARD_VALUE} - own_processes

    own_processes = {process for process in table.marked(name) if process[0] in own}
    return _end(find, at_work, timeout=timeout)


def end_orphans(*, since: int, timeout: float = 5.0) -> Cleaned:
    """Ends the children that this process adopted after a guard was killed, and what is below them.

    A child of this process counts if it began at `since` (the guard's start ticks) or later, lives in another session
    (the tree of a guard always does) and is not in `spared`. Does nothing in a process that is no subreaper.
    """
    if not _subreaper:
        return Cleaned()
    me, session = os.getpid(), os.getsid(0)
    adopted: set[int] = set()

    def find() -> set[Process]:
        alive: set[Process] = set()
        for pid in table.pids():
            row = table.stat_of(pid)
            if row is None or row[0] != me or row[1] == session or row[2] < since or pid in spared:
                continue
            adopted.add(pid)
            if row[3]:
                alive.add((pid, row[2]))
        return _with_below(alive)

    cleaned = _end(find, set, timeout=timeout)
    for pid in adopted:
        _reap(pid)
    return cleaned


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # someone else waited for it


def _with_below(roots: set[Process]) -> set[Process]:
    return roots | table.descendants(*(pid for pid, _ in roots)) if roots else roots


def _lineage() -> set[int]:
    pid = os.getpid()
    lineage = {pid}
    while pid > 1 and (row := table.stat_of(pid)):
        pid = row[0]
        lineage.add(pid)
    return lineage


def _end(find: Callable[[], set[Process]], at_work: Callable[[], set[Process]], *, timeout: float) -> Cleaned:
    began = time.monotonic()
    seen = find()
    _let_guards_finish(at_work, until=began + timeout * GUARD_SHARE)
    empty = 0
    while True:
        targets = find() | {process for process in seen if start_ticks(process[0]) == process[1]}
        targets |= _freeze(find, targets - seen)
        seen |= targets
        for process in targets:
            table.send(process, signal.SIGKILL)
        empty = 0 if targets else empty + 1
        if empty == 2 or time.monotonic() - began > timeout:
            left = tuple(sorted(pid for pid, start in targets if start_ticks(pid) == start))
            return Cleaned(ended=len(seen) - len(left), left=left)
        if targets:
            time.sleep(POLL_SECONDS)


def _let_guards_finish(at_work: Callable[[], set[Process]], *, until: float) -> None:
    for process in at_work():
        table.send(process, signal.SIGTERM)
        table.send(process, signal.SIGCONT)
    while time.monotonic() < until and at_work():
        time.sleep(5 * POLL_SECONDS)


def _freeze(find: Callable[[], set[Process]], new: set[Process]) -> set[Process]:
    frozen: set[Process] = set()
    for _ in range(table.FREEZE_ROUNDS):
        for process in new:
            table.send(process, signal.SIGSTOP)
        frozen |= new
        new = find() - frozen
        if not new:
            break
    return frozen
