"""Roots of a folder that was moved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from beam.root import discovery
from beam.root.paths import state_dir


def moved_root(root: Path | None, folder: Path, environ: Mapping[str, str]) -> Path:
    """The root that the folder had when its name was /before: with all that is in `root`, which is then gone; without
    it, with nothing."""
    moved = state_dir(environ) / "projects" / "before-1"
    moved.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if root is not None:
        root.rename(moved)
    else:
        moved.mkdir(mode=0o700, exist_ok=True)
    project = msgspec.structs.replace(discovery.project_of(folder), path="/before", raw="")
    (moved / discovery.PROJECT_JSON).write_bytes(msgspec.json.encode(project) + b"\n")
    return moved
