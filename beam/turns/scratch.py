"""Writes a launch's files into the turn's private directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from beam.base import files


def write_scratch(scratch: Path, contents: Mapping[str, bytes]) -> None:
    """Write the launch's files, private, into the turn's scratch directory."""
    for name, data in contents.items():
        path = scratch / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise ValueError(f"a scratch file's name leads elsewhere: {name}")
        files.make_directory(path.parent)
        files.write_new(path, data)
