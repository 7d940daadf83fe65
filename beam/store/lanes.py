"""An index of the lanes of an agent that may have work left: one empty file per lane, so that finished lanes need not
be scanned.

A process that publishes into a lane adds the lane to the index before it publishes, and again afterwards. The lane's
holder removes the lane from the index when no work is left. If a holder is killed before it does so, a process that
looks for abandoned lanes removes the lane. A file too many costs one check, and a missing file would hide work, so only
additions are synced. Does not depend on what a turn is.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from beam.base import files
from beam.base.errors import DiskError
from beam.model.message import PLAIN
from beam.root.paths import AgentPaths
from beam.store import control

_INDEX_NAME = "lanes"


def index_folder(agent: AgentPaths) -> Path:
    """Return the index directory of the agent; for a lane, that of the lane's agent."""
    return (agent.dir if agent.lane is None else agent.dir.parent.parent) / _INDEX_NAME


def has_work_left(paths: AgentPaths) -> bool:
    """Return whether a message or a request in the lane is not handled yet."""
    return bool(
        files.names(paths.queue / "new") or files.names(paths.queue / "cur") or control.waiting_names(paths.control)
    )


def add_to_index(lane: AgentPaths) -> None:
    """Add the lane to the index, durably. The directories of the lane must exist."""
    assert lane.lane is not None
    path = index_folder(lane) / lane.lane
    if not path.parent.is_dir():
        files.make_directory(path.parent)
        files.sync_directory(path.parent.parent)
    with files.disk_action("write", path):
        try:
            _make_file(path)
        except FileExistsError:
            return
    files.sync_directory(path.parent)


def _make_file(path: Path) -> None:
    """Create the empty file of a lane. Its modification time is 0, which means that `claim_retry` has not returned True
    yet. Raises OSError, including FileExistsError."""
    handle = files.open_to_write(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        os.utime(handle, ns=(0, 0))
    finally:
        os.close(handle)


def remove_from_index(lane: AgentPaths) -> None:
    """Remove the lane from the index unless something was just published into it.

    Only the lane's holder may call this; if the lane has no holder, any process may. A process that publishes at the
    same time adds the lane again afterwards.
    """
    assert lane.lane is not None
    with contextlib.suppress(OSError, DiskError):  # the lane then stays in the index, and is checked once more
        if not has_work_left(lane):
            (index_folder(lane) / lane.lane).unlink(missing_ok=True)
            if has_work_left(lane):
                add_to_index(lane)


def indexed_lanes(agent: AgentPaths) -> list[AgentPaths]:
    """Return the lanes that may have work left, oldest first."""
    names = files.names(index_folder(agent))
    return [lane for name in names if PLAIN.match(name) and (lane := agent.lane_of(name)).dir.is_dir()]


def claim_retry(lane: AgentPaths, now_ns: int, *, after_s: float) -> bool:
    """Return True for the lane at most once in `after_s` seconds.

    The modification time of the lane's file is the time of the last True.
    """
    assert lane.lane is not None
    path = index_folder(lane) / lane.lane
    try:
        if 0 <= now_ns - path.lstat().st_mtime_ns < after_s * 1e9:
            return False
        os.utime(path, ns=(now_ns, now_ns), follow_symlinks=False)
    except OSError:  # the lane is finished, or has no file yet
        return lane.dir.is_dir()
    return True
