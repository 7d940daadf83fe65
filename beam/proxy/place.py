"""An open folder that an agent may write to: a link in it, or in its place, can't lead beam's writes elsewhere.

Only the names of files are looked up, each in a folder that is open already. Does not depend on what is stored.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Self

from beam.base import files

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Place:
    """An open folder. Close it, or use `with`."""

    def __init__(self, path: Path, within: Place | None = None) -> None:
        """Open the folder; make it if it does not exist. With `within`, it is the folder of that name in that one, and
        must not be a link. Raises DiskError."""
        self.path = path
        with files.disk("open", path):
            if within is None:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._fd = files.open_directory(path)
            else:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path.name, 0o700, dir_fd=within._fd)
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                self._fd = os.open(path.name, flags, dir_fd=within._fd)

    def has(self, name: str) -> bool:
        """Return whether there is anything of that name."""
        try:
            os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def new(self, name: str) -> int:
        """Return a descriptor of a new, private file of that name; what was there is removed. Raises DiskError."""
        with files.disk("write", self.path / name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._fd)
            return os.open(name, _NEW, 0o600, dir_fd=self._fd)

    def to_append(self, name: str) -> int:
        """Return a descriptor that adds to the file of that name, which is made if it is not there. Raises OSError, and
        RefusedFileError for anything but a plain file."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return files.open_to_write(self.path / name, flags, directory_fd=self._fd)

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file; readers see the old one or the new one. Raises DiskError."""
        temporary = f".{name}.{os.getpid()}.tmp"
        handle = self.new(temporary)
        with files.disk("write", self.path / name):
            try:
                files.write_all(handle, data)
            finally:
                os.close(handle)
            os.rename(temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def close(self) -> None:
        """Close the folder."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
