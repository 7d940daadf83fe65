"""Decides which requests beam allows without asking, by the access of the turn. The others are asked, or denied.

An agent reports what a call is for (`kind`) and its files. A call without these is not allowed. Does not depend on any
agent.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from beam.agents.fields import Object
from beam.model.message import Access

_LOOKS = ("read", "search")
_ALLOWED: dict[Access, tuple[str, ...]] = {"read": _LOOKS, "edit": (*_LOOKS, "edit")}


def allows(access: Access, kind: str, paths: Collection[str], arguments: Object, cwd: str) -> bool:
    """Return whether a call is allowed without asking. With `full` any call is, with `ask` none. With `read` and `edit`
    a call may read files of the folder, and with `edit` change them; a call that has a command, or no file, is not
    allowed."""
    if access == "full":
        return True
    if kind not in _ALLOWED.get(access, ()) or not paths or "command" in arguments or "cmd" in arguments:
        return False
    return all(is_within(path, cwd) for path in paths)


def is_within(path: str, cwd: str) -> bool:
    """Return whether a path is inside the folder, judged by its text alone."""
    if not cwd or not path:
        return False
    folder = posixpath.normpath(cwd)
    found = posixpath.normpath(posixpath.join(folder, path))
    return found.startswith(f"{folder.rstrip('/')}/")
