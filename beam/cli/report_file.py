"""The report file that a person names. It is written at the end of a command, and agents may write in its folder while
the command runs.

The report is written to the place to which the given path led when the command began. An existing regular file is
replaced and never opened, because it may be a second name (a hard link) of another file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from beam import DiskError

_OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ReportFile:
    """The file for one report. Nothing is written before `write`. The constructor raises DiskError if the file can't be
    written."""

    def __init__(self, path: Path, named: str) -> None:
        self._path, self._named = path, named
        self._real_path = os.path.realpath(path)
        folder = Path(self._real_path).parent
        nearest = next((each for each in (path, *path.parents) if os.path.lexists(each)), path)
        nearest = folder if path.is_file() and not os.access(folder, os.W_OK) else nearest
        wrong = "is a folder" if path.is_dir() else "can't be written" if not os.access(nearest, os.W_OK) else ""
        if not wrong and nearest != path and not nearest.is_dir():
            wrong = "is no folder"
        if wrong:
            raise DiskError(f"--junit {named}: {nearest} {wrong}", "name another file", subject=named)

    @property
    def is_regular(self) -> bool:
        """Return whether the report is, or will be, a file that is replaced: no pipe, and no terminal."""
        return not os.path.lexists(self._path) or self._path.is_file()

    def write(self, data: bytes) -> None:
        """Write the report. Raises DiskError if this fails, or if the given path now leads to another place than
        before."""
        target = Path(self._real_path)
        if os.path.realpath(self._path) != self._real_path:
            what = f"{self._named} led to {target} when the command began, and leads elsewhere now: nothing is written"
            raise DiskError(what, "an agent may have put a link there", subject=self._named)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(self._path) and not stat.S_ISREG(self._path.stat().st_mode):
                self._path.write_bytes(data)  # a pipe, or the terminal
                return
            self._replace(target, data)
        except OSError as error:
            raise DiskError(
                f"can't write {self._named}: {error.strerror}", "check the path", subject=self._named
            ) from error

    @staticmethod
    def _replace(target: Path, data: bytes) -> None:
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, _OPEN_FLAGS, 0o666), "wb") as file:
            try:
                file.write(data)
                file.flush()
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
