"""Notifications as files: those in `new/` wait, those in `done/` were delivered, those in `dead/` were given up.

A notification has one file for each target. The file's name is derived from the target and the notification's id, so
that no notification is there twice. A file holds only the key of its target, so that somebody who can write here can't
make beam run a command, or post to a place, that is not configured.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
from msgspec import Struct

from beam.base import files, typed_values
from beam.base.digest import sha256
from beam.base.errors import BeamError, DiskError
from beam.model.notification import Notification, NotifyTarget

LOCK, LOG = "lock", "log"  # of the process that delivers
NEW, DONE, DEAD = "new", "done", "dead"
MOST_WAITING, _MOST_KEPT = 1000, 500
_LARGEST = 64 << 10
_ENDING = ".json"


class Item(Struct, frozen=True, kw_only=True):
    """One notification for one target. `error` is why the last try failed, `tries` the number of tries."""

    v: int = 1
    target: str
    notification: Notification
    tries: int = 0
    error: str = ""


class Tried(Struct, frozen=True, kw_only=True):
    """How one try ended. `error` is "" if it was delivered; `again`: another try may succeed, after `wait_s`."""

    error: str = ""
    again: bool = True
    wait_s: float = 0


def put(directory: Path, target: NotifyTarget, notification: Notification) -> bool:
    """Add a notification for that target; return whether it is new. Raises DiskError."""
    if not target.reply:
        notification = msgspec.structs.replace(notification, reply=None)
    name = f"{target.key}-{sha256(notification.id.encode()).hexdigest()[:24]}{_ENDING}"
    if any((directory / box / name).exists() for box in (NEW, DONE, DEAD)):
        return False
    for folder in (directory, *(directory / box for box in (NEW, DONE, DEAD))):
        files.make_directory(folder)
    if len(waiting(directory)) >= MOST_WAITING:
        raise DiskError(f"{MOST_WAITING} notifications wait in {directory}", "look at: beam notify list")
    files.replace(directory / NEW / name, msgspec.json.encode(Item(target=target.key, notification=notification)))
    return True


def waiting(directory: Path) -> list[str]:
    """Return the names of the notifications that wait, sorted."""
    return listed(directory, NEW)


def listed(directory: Path, box: str) -> list[str]:
    return sorted(name for name in files.names(directory / box) if name.endswith(_ENDING) and not name.startswith("."))


def read(directory: Path, name: str, box: str = NEW) -> Item | None:
    """Return that notification; None if it is gone, or is no notification."""
    try:
        return typed_values.decode(files.read(directory / box / name, _LARGEST), Item)
    except (OSError, BeamError, ValueError, RecursionError):
        return None


def mark_delivered(directory: Path, name: str) -> None:
    """Move a notification to those that were delivered. Raises DiskError."""
    _move(directory, name, DONE)


def give_up(directory: Path, name: str, item: Item | None) -> None:
    """Move a notification to those that were given up, and store the known reason. Raises DiskError."""
    if item is not None:
        files.replace(directory / NEW / name, msgspec.json.encode(item))
    _move(directory, name, DEAD)


def _move(directory: Path, name: str, box: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        files.move(directory / NEW / name, directory / box / name)
    _prune(directory / box)


def _prune(folder: Path) -> None:
    """Remove the oldest files beyond what is kept."""
    names = files.names(folder)
    if len(names) <= _MOST_KEPT:
        return
    with contextlib.suppress(OSError):
        oldest = sorted((folder / name for name in names), key=lambda path: path.lstat().st_mtime_ns)
        for path in oldest[: len(names) - _MOST_KEPT]:
            path.unlink(missing_ok=True)
