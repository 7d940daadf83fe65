"""A branch of a repository as a CI runner checks it out, with or without what it is compared with."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

CHANGED = "new.txt"
_GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


def checkout(base: Path, files: Mapping[str, str], *, change: str = "a line\n", is_deep: bool = True) -> Path:
    """Returns a clone, in this directory, of a repository with these files, at its branch `change`. The branch adds a
    file with this text, or nothing where the text is empty. Not deep: one commit of this branch alone, as the
    checkouts of CI have it where nothing else is asked for."""
    origin, clone = base / "origin", base / "checkout"
    origin.mkdir()
    for name, text in files.items():
        (origin / name).write_text(text)
    _git(origin, "init", "-qb", "main")
    _git(origin, "add", ".")
    _git(origin, "commit", "-qm", "begin")
    _git(origin, "checkout", "-qb", "change")
    if change:
        (origin / CHANGED).write_text(change)
        _git(origin, "add", ".")
    _git(origin, "commit", "--allow-empty", "-qm", "change")
    depth = () if is_deep else ("--depth=1",)
    _git(base, "clone", "-q", *depth, "-b", "change", f"file://{origin}", str(clone))
    return clone


def _git(folder: Path, *words: str) -> None:
    subprocess.run([*_GIT, *words], cwd=folder, check=True, capture_output=True, timeout=60)
