"""System calls that fail: the n-th of this process on files under one directory, once or from there on."""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BY_PATH = ("open", "rename", "unlink", "mkdir", "listdir", "scandir", "stat")
BY_HANDLE = ("write", "pwrite", "pread", "fsync", "posix_fallocate")


class Faults:
    """Counts the calls; `at` are the numbers of those that fail (from 1), with this errno; with `lasts` all from the
    first of them on."""

    def __init__(self, top: Path) -> None:
        self.top = str(top)
        self.calls: list[str] = []
        self.at: tuple[int, ...] = ()
        self.number = 0
        self.lasts = False
        self._is_on = True

    @contextmanager
    def counting(self, *at: int, number: int = 0, lasts: bool = False) -> Iterator[None]:
        """Inside, calls are counted, and fail as told."""
        self.calls, self.at, self.number, self.lasts = [], at, number, lasts
        with pytest.MonkeyPatch.context() as patch:
            for name in BY_PATH:
                patch.setattr(os, name, self._wrapped(name, getattr(os, name)))
            for name in BY_HANDLE:
                patch.setattr(os, name, self._wrapped(name, getattr(os, name), by_handle=True))
            patch.setattr(io, "open", self._wrapped("open", io.open))
            patch.setattr(fcntl, "flock", self._wrapped("flock", fcntl.flock, by_handle=True))
            yield

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Inside, nothing is counted and nothing fails."""
        self._is_on = False
        yield
        self._is_on = True

    def _wrapped(self, name: str, real: Callable[..., Any], *, by_handle: bool = False) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._is_on:
                return real(*args, **kwargs)
            if name == "flock" and args[1] == fcntl.LOCK_UN:  # no disk refuses that
                return real(*args, **kwargs)
            is_ours = self._is_open_under(args[0]) if by_handle else self._is_under(args[0] if args else "")
            if is_ours:
                self.calls.append(name)
                count = len(self.calls)
                if count in self.at or (self.lasts and count >= min(self.at)):
                    raise OSError(self.number, os.strerror(self.number))
            return real(*args, **kwargs)

        return call

    def _is_open_under(self, handle: int) -> bool:
        return Path(f"/proc/self/fd/{handle}").readlink().is_relative_to(self.top)

    def _is_under(self, path: Any) -> bool:
        return not isinstance(path, int) and os.fsdecode(path).startswith(self.top)
