"""Records which process owns something, as a line of text, so that other processes can tell whether the owner still
runs."""

from __future__ import annotations

import contextlib
from pathlib import Path

from beam.base import files
from beam.base.errors import BeamError
from beam.model.events import Owner
from beam.process import tree

_LINE_PREFIX = "beam run"
_FILE = "owner"
_MAX_BYTES = 4096


def owner_text(owner: Owner) -> str:
    """Return the line of text that identifies the process `owner`."""
    boot, namespace = owner.boot_id or "-", owner.pid_namespace or "-"
    return f"{_LINE_PREFIX} {owner.pid} {owner.start_ticks} {boot} {namespace} {owner.host}"


def owner_in(text: str) -> Owner | None:
    """Return the process that a line made by `owner_text` identifies; None for any other text."""
    words = text.removeprefix(_LINE_PREFIX).split()
    if not text.startswith(_LINE_PREFIX) or len(words) != 5 or not all(word.isdecimal() for word in words[:2]):
        return None
    pid, start, boot, namespace, host = words
    return Owner(
        pid=int(pid),
        start_ticks=int(start),
        boot_id=boot.removeprefix("-"),
        pid_namespace=namespace.removeprefix("-"),
        host=host,
    )


def claim_folder(folder: Path) -> None:
    """Record in the folder that this process owns it. Raises DiskError."""
    files.replace(folder / _FILE, owner_text(tree.this_process()).encode())


def is_owner_alive(folder: Path) -> bool | None:
    """Return whether the process that owns the folder still runs; None if that can't be known, or if the folder has no
    owner."""
    with contextlib.suppress(OSError, BeamError):
        owner = owner_in(files.read(folder / _FILE, _MAX_BYTES).decode("utf-8", "replace"))
        return None if owner is None else tree.is_alive(owner)
    return None
