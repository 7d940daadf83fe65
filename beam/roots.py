"""Which roots this user has: one small file a root in beam's state directory, so that all can be looked at together.

Only a help for looking: it may miss a root, and a root that is gone is forgotten. Must not know: what is in a root.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from beam import files
from beam.errors import DiskError
from beam.home import Home, state_dir

_FOLDER = "roots"


def remember(home: Home, environ: Mapping[str, str]) -> None:
    """The root is known from now on. Costs one look at a name where it is already; a state directory that can't be
    written is no error."""
    data = os.fsencode(home.root)
    path = state_dir(environ) / _FOLDER / hashlib.sha256(data).hexdigest()[:32]
    if path.exists():
        return
    with contextlib.suppress(DiskError):
        files.make_directory(path.parent)
        files.replace(path, data + b"\n")


def known(environ: Mapping[str, str]) -> list[Home]:
    """The roots that are there, sorted by path. Those that are gone are forgotten."""
    found = []
    try:
        with os.scandir(state_dir(environ) / _FOLDER) as entries:
            paths = [Path(entry.path) for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []
    for path in paths:
        try:
            root = Path(os.fsdecode(path.read_bytes().rstrip(b"\n")))
            if root.is_absolute() and root.is_dir():
                found.append(Home(root))
            else:
                path.unlink()
        except OSError:
            continue
    return sorted(found, key=lambda home: home.root)
