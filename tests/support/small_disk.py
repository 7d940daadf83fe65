"""A disk that can be full: writes of this process under one directory take room, and removed files give it back."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class SmallDisk:
    """`room` bytes more fit under `top`; None: any. Only what goes through os.write and posix_fallocate counts."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self.top = top
        self._capacity: int | None = None
        self._write: Callable[..., int] = os.write
        self._allocate: Callable[..., None] = os.posix_fallocate
        patch.setattr(os, "write", self.write)
        patch.setattr(os, "posix_fallocate", self.allocate)

    def leave(self, room: int | None) -> None:
        """From now on so many bytes more fit."""
        self._capacity = None if room is None else self._used() + room

    def _used(self) -> int:
        return sum(path.stat().st_size for path in self.top.rglob("*") if path.is_file())

    def _is_here(self, handle: int) -> bool:
        if self._capacity is None or not stat.S_ISREG(os.fstat(handle).st_mode):
            return False
        return Path(f"/proc/self/fd/{handle}").readlink().is_relative_to(self.top)

    def _free(self) -> int:
        assert self._capacity is not None
        free = self._capacity - self._used()
        if free <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return free

    def write(self, handle: int, data: Any) -> int:
        """As much as fits, like write(2)."""
        return self._write(handle, bytes(data)[: self._free()] if self._is_here(handle) else data)

    def allocate(self, handle: int, offset: int, size: int) -> None:
        """All or nothing."""
        if self._is_here(handle) and self._free() < offset + size:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._allocate(handle, offset, size)
