"""Removes files that are no longer needed (finished files) from a root. Messages that wait or run, outcomes that were
not read yet, and the files of held agents are kept."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from beam.base import files
from beam.base.directory_tree import remove_tree
from beam.base.errors import DiskError
from beam.broker.asking.follow import held_briefly
from beam.broker.holder import registry
from beam.broker.inbox.context import RootContext
from beam.model.state import CLOSED, DEAD, State
from beam.process import owned
from beam.root.paths import REMOVED_PREFIX, AgentPaths, RootPaths
from beam.store import control, lanes
from beam.store.lock import try_lock
from beam.store.queue import BOXES, Queue
from beam.store.segment import read_state, segments
from beam.store.thread import file_name

DAY_S = 24 * 3600.0
_IMAGE = re.compile(rb'images/([0-9a-f]{32}\.[a-z]{3,4})"')
_LONGEST_PATH = 3000  # bytes of a path; with one more name, it is still not too long
_MOMENT_S = 3600.0  # a temporary file older than this was left behind
RemovedKind = Literal[
    "lane", "segment", "dead letter", "thread", "log", "scratch", "left behind", "recording", "snapshots"
]


class RemovedFile(Struct, frozen=True, kw_only=True):
    """A file or directory that was removed, or with `dry_run` would be removed: its path relative to the root, its kind
    (`what`), its size (bytes) and its age (seconds)."""

    path: str
    what: RemovedKind
    bytes: int
    age_s: float


class CollectResult(Struct, frozen=True, kw_only=True):
    """The result of `collect`: the removed files, the agents that were skipped because a process holds them, and the
    root's size afterwards (bytes)."""

    removed: tuple[RemovedFile, ...]
    held: tuple[str, ...]
    bytes: int


class _Candidate(Struct, frozen=True):
    found: RemovedFile
    remove: Callable[[], bool]


def collect(
    context: RootContext,
    *,
    older_than: float = 30 * DAY_S,
    keep_bytes: int | None = None,
    dead: bool = False,
    dry_run: bool = False,
) -> CollectResult:
    """Remove finished files older than `older_than` seconds.

    With `keep_bytes`, also remove younger finished files, the oldest first, until the root has at most that size. Dead
    letters are removed only with `dead`. With `dry_run`, nothing is removed. Raises DiskError, CorruptError.
    """
    home = context.home
    removed: list[RemovedFile] = []
    held: list[str] = []
    size = _size(home.root)

    def remove_candidate(candidate: _Candidate) -> None:
        nonlocal size
        if dry_run or candidate.remove():
            removed.append(candidate.found)
            size -= candidate.found.bytes

    now = context.clock.now_ns() / 1e9
    with contextlib.ExitStack() as locks:
        candidates = [*_root_candidates(home, now)]
        for name in home.agents():
            for paths in (home.agent(name), *home.agent(name).lanes()):
                lock = try_lock(paths.lock)
                if lock is None:
                    held.append(_name(paths))
                    continue
                locks.enter_context(held_briefly(context, paths, lock))
                candidates += _agent_candidates(home, paths, now, dead=dead)
        candidates += _thread_candidates(home, now)
        for candidate in candidates:
            if candidate.found.age_s > (_MOMENT_S if candidate.found.what == "left behind" else older_than):
                remove_candidate(candidate)
        done = set(removed)
        left = [one for one in candidates if one.found not in done and one.found.what != "left behind"]
        for candidate in sorted(left, key=lambda one: -one.found.age_s) if keep_bytes is not None else ():
            if keep_bytes is not None and size > keep_bytes:
                remove_candidate(candidate)
    return CollectResult(removed=tuple(removed), held=tuple(held), bytes=size)


def _name(paths: AgentPaths) -> str:
    return paths.agent if paths.lane is None else f"{paths.agent} (once {paths.lane})"


def _size(path: Path) -> int:
    """Return the size of this file, or of all files below this directory, in bytes."""
    total = 0
    with files.disk_action("read", path):
        for each in _walk(path):
            with contextlib.suppress(FileNotFoundError):
                found = each.lstat()
                total += 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return total


def _walk(path: Path) -> Iterator[Path]:
    """Yield the path and everything below it, except entries that other processes remove meanwhile. A directory whose
    path is nearly too long for the system is not entered, because an agent may nest directories without limit."""
    yield path
    waiting = [path] if not path.is_symlink() else []
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = list(entries)
        except OSError:  # it is a file, or gone
            continue
        for entry in found:
            yield Path(entry.path)
            if len(os.fsencode(entry.path)) < _LONGEST_PATH and entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))


def _last_written(path: Path, now: float) -> float:
    """Return when the path, or anything below it, was last written. Return `now` if something was removed meanwhile,
    because then another process still uses the path."""
    try:
        return max(each.lstat().st_mtime for each in _walk(path))
    except FileNotFoundError:
        return now


def _candidate(
    home: RootPaths, path: Path, what: RemovedKind, now: float, remove: Callable[[], bool] | None = None
) -> _Candidate:
    def unlink() -> bool:
        if path.is_dir() and not path.is_symlink():
            return _remove_tree(path)
        files.remove(path)
        return True

    with files.disk_action("read", path):
        newest = _last_written(path, now)
    found = RemovedFile(
        path=os.path.relpath(path, home.root), what=what, bytes=_size(path), age_s=round(max(0.0, now - newest), 3)
    )
    return _Candidate(found, remove or unlink)


# -- what is over ------------------------------------------------------------------------------------------------------


def _root_candidates(home: RootPaths, now: float) -> Iterator[_Candidate]:
    for name in files.names(home.root):
        if name.startswith(".") and name.endswith(".tmp") and not owned.is_owner_alive(home.root / name):
            yield _candidate(home, home.root / name, "left behind", now)
    for name in files.names(home.root / "agents"):
        if name.startswith(REMOVED_PREFIX):
            path = home.root / "agents" / name
            yield _candidate(home, path, "left behind", now, partial(_remove_tree, path))
    if home.snapshots.exists():
        path = home.snapshots
        yield _candidate(home, path, "snapshots", now, partial(_remove_tree, path) if path.is_dir() else None)
    log = registry.log_path(home)
    for path in (log, log.with_name(f"{log.name}.1")):
        if path.exists() and (path != log or registry.running_broker(home) is None):
            yield _candidate(home, path, "log", now)


def _thread_candidates(home: RootPaths, now: float) -> Iterator[_Candidate]:
    """Yield the usage files of threads that have no message left, because no agent can continue such a thread."""
    names = set(files.names(home.threads))
    if not names:
        return
    for agent in home.agents():
        for paths in (home.agent(agent), *home.agent(agent).lanes()):
            names.difference_update(_threads_in(paths))
    for name in sorted(names):
        yield _candidate(home, home.threads / name, "thread", now)


def _threads_in(paths: AgentPaths) -> Iterator[str]:
    queue = Queue(paths.queue, paths.put_lock)
    for entry in (entry for box in BOXES for entry in queue.entries(box)):
        with contextlib.suppress(FileNotFoundError, DiskError):  # the file just moved, or is no message
            message = queue.read(entry)
            yield file_name(message.thread or message.id)


def _agent_candidates(home: RootPaths, paths: AgentPaths, now: float, *, dead: bool) -> Iterator[_Candidate]:
    """Yield the finished files of an agent or lane. The caller has its lock."""
    state = read_state(paths.journal)
    if paths.lane is not None and _is_over(paths, state, dead=dead):
        what: RemovedKind = "lane" if state.known else "left behind"  # no message ever arrived in that lane
        yield _candidate(home, paths.dir, what, now, partial(_remove_lane, paths, dead=dead))
        return
    if dead and not control.waiting_names(paths.control):
        for name in files.names(paths.queue / "dead"):
            yield _candidate(home, paths.queue / "dead" / name, "dead letter", now)
    age, named_in = float("inf"), _images_by_segment(paths)
    for name in _old_segments(paths, state):
        segment = _candidate(home, paths.journal / name, "segment", now)
        age = min(age, segment.found.age_s)  # no segment is removed before an older one
        size, remove = segment.found.bytes, segment.remove
        if images := [paths.images / image for image, last in named_in.items() if last == name]:
            size += sum(map(_size, images))
            remove = partial(_remove_in_order, (paths.journal / name, *images))
        yield _Candidate(structs.replace(segment.found, age_s=age, bytes=size), remove)
    for name, last in named_in.items():
        if not last:
            yield _candidate(home, paths.images / name, "left behind", now)
    if paths.log.exists():
        yield _candidate(home, paths.log, "log", now)
    for name in files.names(paths.dir / "casts"):
        yield _candidate(home, paths.dir / "casts" / name, "recording", now)
    if state.open_turn is None:
        for name in files.names(home.turns_of(paths)):
            path = home.turns_of(paths) / name
            yield _candidate(home, path, "scratch", now, partial(_remove_tree, path))
    yield from _temporary_file_candidates(home, paths, now)


def _images_by_segment(paths: AgentPaths) -> dict[str, str]:
    """Return the last journal segment that names each image file, by the file's name; "" for a file that no segment
    names."""
    found = dict.fromkeys((name for name in files.names(paths.images) if not name.startswith(".")), "")
    for segment in segments(paths.journal) if found else ():
        rest = b""
        for data in files.read_pieces(paths.journal / segment):
            *_, rest = (text := rest + data).rpartition(b"\n")
            for image in _IMAGE.findall(text):
                name = image.decode()
                if name in found:
                    found[name] = segment
    return found


def _remove_in_order(paths: tuple[Path, ...]) -> bool:
    """Remove these paths in order: first a journal segment, then its images. So no segment ever names an image that is
    gone."""
    for path in paths:
        files.remove(path)
    return True


def _temporary_file_candidates(home: RootPaths, paths: AgentPaths, now: float) -> Iterator[_Candidate]:
    """Yield temporary files, which remain if their writer died. `collect` removes such a file after an hour, because a
    living writer publishes its file sooner."""
    for folder in (paths.dir, paths.journal, paths.images):
        for name in files.names(folder):
            if name.startswith(".") and name.endswith(".tmp"):
                path = folder / name
                remove = partial(_remove_tree, path) if path.is_dir() else None
                yield _candidate(home, path, "left behind", now, remove)
    for folder in (paths.queue / "tmp", paths.control / "tmp"):
        for name in files.names(folder):
            yield _candidate(home, folder / name, "left behind", now)
    for name in files.names(lanes.index_folder(paths)) if paths.lane is None else ():
        if not (paths.dir / "once" / name).is_dir():
            yield _candidate(home, lanes.index_folder(paths) / name, "left behind", now)
    for name in files.names(paths.dir / "once") if paths.lane is None else ():
        if name.startswith(REMOVED_PREFIX):
            path = paths.dir / "once" / name
            yield _candidate(home, path, "left behind", now, partial(_remove_tree, path))


def _is_over(paths: AgentPaths, state: State, *, dead: bool) -> bool:
    """Return whether a lane can be removed: its message has an outcome or never arrived, and its queue has no file that
    is still needed."""
    boxes = ("new", "cur") if dead else ("new", "cur", "dead")
    return (
        state.is_over()
        and not any(files.names(paths.queue / box) for box in (*boxes, "tmp"))
        and not control.waiting_names(paths.control)
    )


def _old_segments(paths: AgentPaths, state: State) -> list[str]:
    """Return the names of the oldest journal segments, up to the first segment that is still needed.

    The newest segment is needed, and so is every segment with the outcome of a message that is not closed or whose file
    still exists.
    """
    names = segments(paths.journal)
    queue = Queue(paths.queue, paths.put_lock)
    here = {entry.id for box in ("new", "cur", "dead") for entry in queue.entries(box)}
    wanted = [
        known.outcome_seq
        for message_id, known in state.known.items()
        if known.outcome_seq is not None and (message_id in here or known.phase not in (CLOSED, DEAD))
    ]
    first = min(wanted, default=state.seq + 1)
    following = [int(name[:-6]) for name in names[1:]]
    return [name for name, next_first in zip(names, following, strict=False) if next_first <= first]


# -- removing ----------------------------------------------------------------------------------------------------------


def _remove_tree(path: Path) -> bool:
    with files.disk_action("remove", path):
        remove_tree(path)
    return True


def _remove_lane(paths: AgentPaths, *, dead: bool) -> bool:
    """Move the lane away so that nobody can publish into it, check it once more, and remove it. If it is needed after
    all, move it back and return False."""
    away = paths.dir.with_name(f"{REMOVED_PREFIX}{paths.lane}")
    files.move(paths.dir, away)
    moved = AgentPaths(paths.agent, away, paths.lane)
    try:
        is_over = _is_over(moved, read_state(moved.journal), dead=dead)
    except DiskError:
        is_over = False
    if not is_over:
        files.move(away, paths.dir)
        return False
    (lanes.index_folder(paths) / paths.dir.name).unlink(missing_ok=True)
    return _remove_tree(away)
