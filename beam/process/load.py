"""The load of a turn's processes: their number and their memory. Known on Linux only."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from beam.model.events import Owner
from beam.process import table, tree


class Load(Struct, frozen=True):
    """The number of living processes, and their resident memory in bytes. Shared pages count for each process."""

    processes: int
    rss_bytes: int


def load_of_trees(owners: Sequence[Owner]) -> Load | None:
    """Return the load of these processes and all their descendants. Processes that have ended do not count.

    Return None if the load is unknown.
    """
    if not table.LINUX or any(tree.is_alive(owner) is None for owner in owners):
        return None
    roots = {owner.pid for owner in owners if tree.is_alive(owner)}
    pids = roots | {pid for pid, _ in table.descendants(*roots)} if roots else roots
    sizes = [size for size in map(rss_bytes, pids) if size is not None]
    return Load(len(sizes), sum(sizes))


def rss_bytes(pid: int) -> int | None:
    """Return the resident memory of one process; None if it is gone, or the system does not say."""
    fields = table.read_file(f"/proc/{pid}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 and fields[1] != b"0" else None
