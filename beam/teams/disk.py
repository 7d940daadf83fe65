"""Finds and reads the files of Claude Code's teams: configurations, inboxes, tasks, sessions.

Reading has no side effects: no file is written or locked, and no access time changes. Does not depend on the content of
the files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from beam.base import files
from beam.base.errors import DiskError

Kind = Literal["config", "inbox", "task", "session"]
SMALL = ("teams", "tasks", "sessions")  # files that are written whole, and read whole
FOLDERS = (*SMALL, "projects")
_PID_DIGITS = 10
LARGEST = 16 * 1024 * 1024  # an inbox that nobody empties has a few MiB; its parsed values take ten times as much
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Signature = tuple[int, int, int]  # mtime in nanoseconds, size, inode


class TeamFile(Struct, frozen=True):
    """The meaning of a path. `group` is the name of the team or task list ("" for a session). `name` is the name of the
    inbox, the task's id, or the session's pid ("" for a configuration)."""

    kind: Kind
    home: str
    group: str
    name: str
    path: str


class FileSnapshot(Struct, frozen=True):
    """The content of a file at one moment.

    `data` is None if the file is missing or larger than the limit (`is_large`). `at_ns` is the time when the file was
    last written or, for a missing file, the time when it was found missing.
    """

    file: TeamFile
    data: bytes | None
    at_ns: int
    is_large: bool = False


def printable(name: str) -> str:
    """Return a file's name as text that can be encoded as UTF-8. Bytes that can't be decoded are replaced."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def is_own_list(home: str, name: str) -> bool:
    """Return whether a task list belongs to a single session and not to a team: the list is named after a session id,
    and there is no team directory of the same name."""
    return _UUID.fullmatch(name) is not None and not os.path.isdir(f"{home}/teams/{name}")  # noqa: PTH112


def team_file_of(home: str, path: str) -> TeamFile | None:
    """Return the configuration, inbox, task or session that the path belongs to; None for any other path (a lock,
    temporary file, directory or transcript)."""
    parts = path[len(home) + 1 :].split("/")
    last = parts[-1]
    if not last.endswith(".json") or last.startswith("."):
        return None
    name = printable(last[:-5])
    match parts:
        case ["teams", team, "config.json"]:
            return TeamFile("config", home, printable(team), "", path)
        case ["teams", team, "inboxes", _]:
            return TeamFile("inbox", home, printable(team), name, path)
        case ["tasks", group, _] if not is_own_list(home, group):
            return TeamFile("task", home, printable(group), name, path)
        case ["sessions", _] if name.isascii() and name.isdigit() and len(name) <= _PID_DIGITS:
            return TeamFile("session", home, "", name, path)
    return None


def read(file: TeamFile, now_ns: int) -> tuple[FileSnapshot, Signature | None]:
    """Return the file's current content, and its signature. A file that can't be read, or is not a regular file, counts
    as missing: its signature is None."""
    try:
        handle = files.open_to_read(file.path, follow=True, quietly=True)
    except (OSError, DiskError):
        return FileSnapshot(file, None, now_ns), None
    try:
        found = os.fstat(handle)
        data = files.read_content(handle, found.st_size, LARGEST)
    except OSError:
        return FileSnapshot(file, None, now_ns), None
    finally:
        os.close(handle)
    snapshot = FileSnapshot(file, data, found.st_mtime_ns, is_large=data is None)
    return snapshot, (found.st_mtime_ns, found.st_size, found.st_ino)


def names(path: str) -> list[str]:
    """Return the names in a directory; [] if it can't be read."""
    return [entry.name for entry in entries(path)]


def entries(path: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a directory; none if it can't be read."""
    try:
        with os.scandir(path) as found:
            yield from found
    except OSError:
        return


def identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of what is at the path; None if there is nothing."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a text
    except OSError:
        return None
    return found.st_dev, found.st_ino


def small_files(home: str, groups: frozenset[str] | None = None) -> Iterator[tuple[TeamFile, Signature]]:
    """Yield (file, signature) for each configuration, inbox, task and session of a home. With `groups`, only the files
    of the named teams and task lists are included, and no sessions."""
    folders = []
    for group in names(f"{home}/teams") if groups is None else sorted(groups):
        folders += [f"{home}/teams/{group}", f"{home}/teams/{group}/inboxes"]
    lists = names(f"{home}/tasks") if groups is None else sorted(groups)
    folders += [f"{home}/tasks/{group}" for group in lists if not is_own_list(home, group)]
    if groups is None:
        folders.append(f"{home}/sessions")
    for folder in folders:
        for entry in entries(folder):
            file = team_file_of(home, entry.path)
            if file is None:
                continue
            try:
                found = entry.stat()
            except OSError:
                continue
            yield file, (found.st_mtime_ns, found.st_size, found.st_ino)


def natural_key(path: str) -> tuple[str, int, str]:
    """Return a sort key that puts the numbered files of a directory in numeric order."""
    folder, _, name = path.rpartition("/")
    return folder, len(name), name
