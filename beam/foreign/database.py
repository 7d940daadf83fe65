"""Reads rows of another program's SQLite database; never writes to the database.

A query runs for a limited number of steps. While it runs, SQLite holds a shared lock, which does not block the writers
of a database in WAL mode.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Sequence
from urllib.parse import quote

from beam.base import files
from beam.base.errors import DiskError
from beam.foreign.unreadable import UnreadableError
from beam.model.settings import MIB

_STEPS_PER_CHECK = 1000  # of SQLite's virtual machine between two checks of the limit
_MAX_CHECKS = 20_000
_MAX_S = 10.0  # one step of a view can take as long as its author likes
_VALUE_BYTES = 16 * MIB
_ROWS_BYTES = 256 * MIB
_ROW_BYTES = 512  # what a row takes in memory, however little it says
_LOCK_TIMEOUT_MS = 200
NO_ROW = b"?"
_FORMATS_AT, _WAL_FORMATS = 18, b"\2\2"  # in the header of a database: the versions of its write and read format


def rows(path: str, queries: Sequence[str], *, since_ms: int, session: str = "") -> list[tuple[int, bytes]]:
    """Return the rows (time in ms, JSON) that the queries select. `since_ms` and `session` are their parameters. A
    query for a table or a column that the database does not have is left out. `NO_ROW` is in the place of a row of
    another form, and of all that do not fit into a limit of all rows together.

    Raises UnreadableError if the file is not an SQLite database of this user, if none of the queries fits it, if one
    takes too many steps or too much time, or if a row is too large.
    """
    import sqlite3

    try:
        status = os.lstat(path)
    except OSError:
        raise UnreadableError("a database that can't be opened") from None
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise UnreadableError("no database of this user")
    looks = size = 0
    until = time.monotonic() + _MAX_S

    def is_over_limit() -> bool:
        nonlocal looks
        looks += 1
        return looks > _MAX_CHECKS or time.monotonic() > until

    options = "mode=ro&immutable=1" if _is_at_rest(path) else "mode=ro"
    found: list[tuple[int, bytes]] = []
    fits = False
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(path)}?{options}", uri=True, timeout=_LOCK_TIMEOUT_MS / 1000)
        ) as open_:
            open_.execute("PRAGMA query_only=ON")
            open_.set_progress_handler(is_over_limit, _STEPS_PER_CHECK)
            # Not `PRAGMA trusted_schema=OFF`: Kilo's indexes use json_extract, which an older SQLite then refuses.
            open_.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
            open_.text_factory = bytes
            is_empty = not open_.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            for query in queries:
                try:
                    selected = open_.execute(query, {"since": since_ms, "session": session})
                except sqlite3.OperationalError as error:
                    if str(error).startswith(("no such table", "no such column")):
                        continue
                    raise
                fits = True
                for at, row in selected:
                    is_row = isinstance(at, int) and isinstance(row, bytes)
                    size += _ROW_BYTES + (len(row) if is_row else 0)
                    found.append((at, row) if is_row and size <= _ROWS_BYTES else (since_ms, NO_ROW))
                    if size > _ROWS_BYTES:
                        break
    except sqlite3.OperationalError as error:
        if looks > _MAX_CHECKS or time.monotonic() > until:
            raise UnreadableError("a query that takes too long") from None
        is_lasting = "locked" not in str(error) and "busy" not in str(error)
        raise UnreadableError("a database that can't be queried", is_lasting=is_lasting) from None
    except sqlite3.DataError:
        raise UnreadableError(f"a row of more than {_VALUE_BYTES // MIB} MiB") from None
    except (sqlite3.Error, OSError):
        raise UnreadableError("no SQLite database") from None
    if not fits and not is_empty:
        raise UnreadableError("a database of an unknown form")
    return found


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
