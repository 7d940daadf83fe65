"""Room on the disk that is kept so that an outcome always fits: a file that is given up when the disk is full.

It is there before a message is claimed. Must not know: what is written into the room that it leaves.
"""

from __future__ import annotations

from pathlib import Path

from beam.base import files
from beam.base.errors import DiskError

BYTES = 64 * 1024
FITS_BYTES = BYTES // 2  # what may be written into its room: some is lost to a line that was cut short, and to blocks


class Reserve:
    """The reserve of one agent; its lanes share it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """It is there. Raises DiskError where there is no room for it; other trouble is left to writes that matter."""
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

    def give_up(self) -> bool:
        """Its room is free now; whether there was any."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True
