"""What beam's trust ledger says, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from beam.trust import ledger


def trusted_folders(environ: Mapping[str, str]) -> list[Path]:
    """The paths of all trusted folders, sorted, but those that were replaced by another folder."""
    folders = ledger._load(environ).folders
    return sorted(Path(folder.path) for folder in folders if ledger._is_same_folder(folder, Path(folder.path)))
