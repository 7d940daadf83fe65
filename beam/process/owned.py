"""Records which process owns something, as a line of text, so that other processes can tell whether the owner still
runs."""

from __future__ import annotations

import contextlib
from pathlib import Path

from beam.base import files
from beam.base.errors import BeamError
from beam.model.events import Owner
from beam.process import tree

_OWNED = "beam run"
_FILE = "owner"
_LONGEST = 4096


def text_of(owner: Owner) -> str:
    """Return the line of text that identifies the process `owner`."""
    return f"{_OWNED} {owner.pid} {owner.start_ticks} {owner.boot_id or '-'} {owner.pid_namespace or '-'} {owner.host}"


def owner_in(text: str) -> Owner | None:
    """Return the process that a line made by `text_of` identifies; None for any other text."""
    words = text.removeprefix(_OWNED).split()
    if not text.startswith(_OWNED) or len(words) != 5 or not all(word.isdecimal() for word in words[:2]):
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
    files.replace(folder / _FILE, text_of(tree.this_process()).encode())


def is_alive(folder: Path) -> bool | None:
    """Return whether the process that owns the folder still runs; None if that can't be known, or if the folder has no
    owner."""
    with contextlib.suppress(OSError, BeamError):
        owner = owner_in(files.read(folder / _FILE, _LONGEST).decode("utf-8", "replace"))
        return None if owner is None else tree.is_alive(owner)
    return None
