"""The spool: a directory with notifications as files. Files in `new/` wait, files in `done/` were delivered, and files
in `dead/` were given up.

A notification has one file for each target. The file's name is derived from the target and the notification's id, so
that a notification is never stored twice. A file names its target only by a key. So somebody who can write in this
directory can't make beam run a command, or post to a URL, that is not configured.
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
from beam.secrets.redact import redact_event

LOCK, LOG = "lock", "log"  # of the process that delivers
NEW, DONE, DEAD = "new", "done", "dead"
MAX_WAITING, _MAX_KEPT = 1000, 500
_LARGEST = 64 << 10
_ENDING = ".json"


class Item(Struct, frozen=True, kw_only=True):
    """One notification for one target. `target` is the key of the target. `tries` is the number of tries so far, and
    `error` says why the last try failed."""

    v: int = 1
    target: str
    notification: Notification
    tries: int = 0
    error: str = ""


class TryResult(Struct, frozen=True, kw_only=True):
    """The result of one try to deliver a notification. `error` is "" if the notification was delivered. `again` says
    whether another try may succeed, and `wait_s` is the shortest pause in seconds before that try."""

    error: str = ""
    again: bool = True
    wait_s: float = 0


def put(directory: Path, target: NotifyTarget, notification: Notification) -> bool:
    """Add a notification for this target. Return False if the spool has it already. Raises DiskError if too many
    notifications wait or the file can't be written."""
    if not target.reply:
        notification = msgspec.structs.replace(notification, reply=None)
    name = f"{target.key}-{sha256(notification.id.encode()).hexdigest()[:24]}{_ENDING}"
    if any((directory / box / name).exists() for box in (NEW, DONE, DEAD)):
        return False
    for folder in (directory, *(directory / box for box in (NEW, DONE, DEAD))):
        files.make_directory(folder)
    if len(waiting_names(directory)) >= MAX_WAITING:
        raise DiskError(f"{MAX_WAITING} notifications wait in {directory}", "look at: beam notify list")
    item, _ = redact_event(Item(target=target.key, notification=notification))  # the folder's name may hold a secret
    files.replace(directory / NEW / name, msgspec.json.encode(item))
    return True


def waiting_names(directory: Path) -> list[str]:
    """Return the names of the files of waiting notifications, sorted."""
    return file_names(directory, NEW)


def file_names(directory: Path, box: str) -> list[str]:
    return sorted(name for name in files.names(directory / box) if name.endswith(_ENDING) and not name.startswith("."))


def read(directory: Path, name: str, box: str = NEW) -> Item | None:
    """Return the notification in this file; None if the file is gone or invalid."""
    try:
        return typed_values.decode(files.read(directory / box / name, _LARGEST), Item)
    except (OSError, BeamError, ValueError, RecursionError):
        return None


def mark_delivered(directory: Path, name: str) -> None:
    """Move the file of a waiting notification to `done/`. Raises DiskError."""
    _move(directory, name, DONE)


def give_up(directory: Path, name: str, item: Item | None) -> None:
    """Move the file of a waiting notification to `dead/`. If `item` is given, store it in the file first, because it
    contains the reason. Raises DiskError."""
    if item is not None:
        files.replace(directory / NEW / name, msgspec.json.encode(redact_event(item)[0]))
    _move(directory, name, DEAD)


def _move(directory: Path, name: str, box: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        files.move(directory / NEW / name, directory / box / name)
    _prune(directory / box)


def _prune(folder: Path) -> None:
    """Remove the oldest files of the folder if it contains more than 500."""
    names = files.names(folder)
    if len(names) <= _MAX_KEPT:
        return
    with contextlib.suppress(OSError):
        oldest = sorted((folder / name for name in names), key=lambda path: path.lstat().st_mtime_ns)
        for path in oldest[: len(names) - _MAX_KEPT]:
            path.unlink(missing_ok=True)
