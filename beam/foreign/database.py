"""Reads rows of another program's SQLite database; never writes to the database.

A query runs for a limited number of steps. While it runs, SQLite holds a shared lock, which does not block the writers
of a database in WAL mode.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from urllib.parse import quote

from beam.base import files
from beam.base.errors import DiskError
from beam.model.limits import MIB

_STEPS_PER_CHECK = 1000  # of SQLite's virtual machine between two checks of the limit
_MAX_CHECKS = 20_000
_MAX_S = 10.0  # one step of a view can take as long as its author likes
_VALUE_BYTES = 16 * MIB
_ROWS_BYTES = 256 * MIB
_LOCK_TIMEOUT_MS = 200
_FORMATS_AT, _WAL_FORMATS = 18, b"\2\2"  # in the header of a database: the versions of its write and read format


def rows(path: str, query: str, *, since_ms: int, session: str = "") -> list[tuple[int, bytes]]:
    """Return the rows (time in ms, JSON) that the query selects. `since_ms` and `session` are the query's parameters.
    Return [] if the file is not an SQLite database, belongs to another user, takes too many steps or too much time, or
    has a row that is too large. What does not fit into a limit of all rows together is left out."""
    import sqlite3

    try:
        found = os.lstat(path)
    except OSError:
        return []
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return []
    found_rows: list[tuple[int, bytes]] = []
    looks = size = 0
    until = time.monotonic() + _MAX_S

    def is_over_limit() -> bool:
        nonlocal looks
        looks += 1
        return looks > _MAX_CHECKS or time.monotonic() > until

    options = "mode=ro&immutable=1" if _is_at_rest(path) else "mode=ro"
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(path)}?{options}", uri=True, timeout=_LOCK_TIMEOUT_MS / 1000)
        ) as open_:
            open_.execute("PRAGMA query_only=ON")
            open_.set_progress_handler(is_over_limit, _STEPS_PER_CHECK)
            open_.execute("PRAGMA trusted_schema=OFF")
            open_.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
            open_.text_factory = bytes
            for at, row in open_.execute(query, {"since": since_ms, "session": session}):
                if isinstance(at, int) and isinstance(row, bytes):
                    size += len(row)
                    if size > _ROWS_BYTES:
                        break
                    found_rows.append((at, row))
            return found_rows
    except (sqlite3.Error, OSError):
        return []


def _is_at_rest(path: str) -> bool:
    """Return whether the database is in WAL mode and no program has it open. SQLite would create its `-wal` and `-shm`
    files beside it, also to read, and leave them there."""
    if os.path.lexists(f"{path}-wal"):
        return False
    try:
        with files.open_reader(path) as file:
            return file.read(_FORMATS_AT + len(_WAL_FORMATS))[_FORMATS_AT:] == _WAL_FORMATS
    except (OSError, DiskError):
        return False
