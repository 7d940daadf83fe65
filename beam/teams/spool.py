"""Reads the spool of hook calls, which `hook.py` writes: one file per hour, one line of JSON per call.

Does not depend on the meaning of a call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from beam.base import files
from beam.base.errors import DiskError
from beam.teams import hook
from beam.teams.model import HookCall, hook_call

_LARGEST = 4 * 1024 * 1024


def sweep(directory: Path, now_ns: int) -> None:
    """Remove spool files older than a day. `hook.py` also removes them, but only as long as Claude Code runs it."""
    with contextlib.suppress(OSError):
        hook.sweep(bytes(directory), now_ns)


class Spool:
    """Reads hook calls as they are added to the spool. Each call is returned once, for the home that contains its
    transcript."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._offsets: dict[str, int] = {}
        self._rests: dict[str, bytes] = {}
        self._waiting: list[HookCall] = []

    def begin(self, since_ns: int | None) -> None:
        """Ignore the calls that are already in the spool. With `since_ns`, ignore only those from before that time."""
        for name, size in self._files():
            self._offsets[name] = size if since_ns is None else 0
        if since_ns is not None:
            self._read()
            self._waiting = [call for call in self._waiting if call.at_ns >= since_ns]

    def calls(self, home: str) -> Iterator[HookCall]:
        """Yield the calls of that home that were not returned yet."""
        self._read()
        mine = [call for call in self._waiting if _belongs_to_home(call, home)]
        self._waiting = [call for call in self._waiting if not _belongs_to_home(call, home)][-_KEPT:]
        yield from mine

    def _files(self) -> Iterator[tuple[str, int]]:
        if self._directory is None:
            return
        try:
            for path in sorted(self._directory.iterdir()):
                if path.suffix == ".jsonl":
                    yield path.name, path.stat().st_size
        except OSError:
            return

    def _read(self) -> None:
        for name, size in self._files():
            offset = self._offsets.get(name, 0)
            if size <= offset or self._directory is None:
                continue
            try:
                with files.open_reader(self._directory / name) as file:
                    file.seek(offset)
                    data = file.read(_LARGEST)
            except (OSError, DiskError):
                continue
            self._offsets[name] = offset + len(data)
            lines = (self._rests.pop(name, b"") + data).split(b"\n")
            self._rests[name] = lines.pop()[:_LARGEST]  # a call has a megabyte at most
            found = [hook_call(line) for line in lines if line]
            self._waiting += [call for call in found if call is not None]


_KEPT = 1_000


def _belongs_to_home(call: HookCall, home: str) -> bool:
    transcript = call.payload.get("transcript_path")
    return isinstance(transcript, str) and transcript.startswith(f"{home}/projects/")
