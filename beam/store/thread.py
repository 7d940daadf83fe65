"""The usage of a whole thread with all its branches: one file in the root, to which every holder appends.

A line records the start of a turn (`turn <message id> <attempt>`) or its cost (`cost <message id> <attempt> <USD>`).
Appending is idempotent, because equal lines count once. Each line is appended in one write, so no lock is needed.
Nothing is synced: a power cut may lose the last lines. The first message of a thread, which a person sent, has no line.
Does not depend on the limits of a thread.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from beam.base import files
from beam.base.digest import sha256
from beam.model.message import ID, Spent

_MAX_BYTES = 16 << 20  # a hundred thousand turns; the bounds of `policy:` stop a thread long before
_TURN = rb"turn [a-z0-9_@-]+ \d+\Z"
_COST = rb"cost ([a-z0-9_@-]+ \d+) (\d+\.\d+)\Z"


def file_name(thread: str) -> str:
    """Return the name of the thread's file: the id of the thread, or a name made from its digest if the id can't be a
    file name."""
    if ID.match(thread):
        return thread
    return f"x-{sha256(thread.encode('utf-8', 'replace')).hexdigest()[:32]}"


class ThreadUsage:
    """The recorded usage of one thread. The file is created with the first line."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / file_name(name)

    def spent(self) -> Spent:
        """Return the turns and the cost that the thread used so far. Raises DiskError."""
        try:
            lines = files.read(self.path, _MAX_BYTES).splitlines()
        except FileNotFoundError:
            return Spent(turns=1)
        return Spent(turns=1 + len(_turn_records(lines)), cost_usd=_total_cost(lines))

    def begin(self, message_id: str, attempt: int) -> int:
        """Record that a turn begins, and return its number in the thread. The number is unique even if other processes
        record turns at the same time. Raises DiskError."""
        line = b"turn %s %d" % (message_id.encode(), attempt)
        self._append(line)
        turns = _turn_records(files.read(self.path, _MAX_BYTES).splitlines())
        return 2 + (turns.index(line) if line in turns else len(turns))

    def record_cost(self, message_id: str, attempt: int, cost_usd: float) -> None:
        """Record the cost of a turn. Raises DiskError."""
        self._append(b"cost %s %d %.9f" % (message_id.encode(), attempt, cost_usd))

    def _append(self, line: bytes) -> None:
        with files.disk_action("write", self.path):
            try:
                handle = self._open()
            except FileNotFoundError:
                files.make_directory(self.path.parent)
                handle = self._open()
            try:
                files.write_all(handle, line + b"\n")
            finally:
                os.close(handle)

    def _open(self) -> int:
        return files.open_to_write(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _turn_records(lines: list[bytes]) -> list[bytes]:
    """Return the `turn` records in the lines, without duplicates. After a power cut, a line may begin with the remains
    of another line; these are ignored."""
    return list(dict.fromkeys(found[0] for line in lines if (found := re.search(_TURN, line))))


def _total_cost(lines: list[bytes]) -> float:
    return sum({found[1]: float(found[2]) for line in lines if (found := re.search(_COST, line))}.values())
