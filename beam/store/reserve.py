"""Disk space that is reserved for outcomes: a file that is removed when the disk is full.

The file is allocated before a message is claimed. Does not depend on what is written into the freed space.
"""

from __future__ import annotations

from pathlib import Path

from beam.base import files
from beam.base.errors import DiskError

BYTES = 64 * 1024
USABLE_BYTES = BYTES // 2  # of the freed space: some of it is lost to a line that was cut short, and to blocks


class Reserve:
    """The reserve of one agent, which all lanes of the agent share."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Allocate the reserve.

        Raises DiskError if the disk has no space for it. Other errors are ignored; later writes report them.
        """
        try:
            if self.path.stat().st_size >= BYTES:
                return
        except OSError:
            pass  # it is not there, or the next step says what is wrong
        try:
            files.allocate(self.path, BYTES)
        except DiskError as error:
            if files.is_full(error):
                raise

    def free(self) -> bool:
        """Free the reserve. Return whether there was a reserve to free."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True
