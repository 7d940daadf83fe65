"""Writes files into a folder to which an agent may also write. Symbolic links that the agent puts there are not
followed.

Each file is opened by its name within a folder that is already open, so a link can't lead beam's writes elsewhere. Does
not depend on the content that is stored.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Self

from beam.base import files

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class OpenFolder:
    """An open folder. Close it, or use `with`."""

    def __init__(self, path: Path, within: OpenFolder | None = None) -> None:
        """Open the folder; create it if it does not exist. With `within`, the folder of this name in the open folder
        `within` is opened, and it must not be a symbolic link. Raises DiskError."""
        self.path = path
        with files.disk_action("open", path):
            if within is None:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._fd = files.open_directory(path)
            else:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path.name, 0o700, dir_fd=within._fd)
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                self._fd = os.open(path.name, flags, dir_fd=within._fd)

    def has(self, name: str) -> bool:
        """Return whether the folder contains an entry of that name."""
        try:
            os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def create_file(self, name: str) -> int:
        """Create a new, private file of that name and return its descriptor. An existing file of that name is removed.
        Raises DiskError."""
        with files.disk_action("write", self.path / name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._fd)
            return os.open(name, _NEW, 0o600, dir_fd=self._fd)

    def open_to_append(self, name: str) -> int:
        """Return a descriptor that appends to the file of that name; create the file if it does not exist. Raises
        OSError, and RefusedFileError for anything but a regular file."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return files.open_to_write(self.path / name, flags, directory_fd=self._fd)

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file atomically: readers see either the old content or the new one. Raises DiskError."""
        temporary = f".{name}.{os.getpid()}.tmp"
        handle = self.create_file(temporary)
        with files.disk_action("write", self.path / name):
            try:
                try:
                    files.write_all(handle, data)
                finally:
                    os.close(handle)
                os.rename(temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=self._fd)
                raise

    def close(self) -> None:
        """Close the folder."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
