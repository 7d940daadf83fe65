"""Decides by the access of the turn which calls beam allows without asking. All other calls need a decision, or are
denied.

An agent reports the purpose of a call (`kind`) and its files. Below full access, a call without these is not allowed.
Does not depend on any agent.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from beam.agents.fields import Object
from beam.model.message import Access

_LOOKS = ("read", "search")
_ALLOWED: dict[Access, tuple[str, ...]] = {"read": _LOOKS, "edit": (*_LOOKS, "edit")}


def allows(access: Access, kind: str, paths: Collection[str], arguments: Object, cwd: str) -> bool:
    """Return whether a call is allowed without asking. `full` allows any call, `ask` none. `read` allows a call that
    reads files of the folder, and `edit` also a call that changes them. Neither of these two allows a call with a
    command or without a file."""
    if access == "full":
        return True
    if kind not in _ALLOWED.get(access, ()) or not paths or "command" in arguments or "cmd" in arguments:
        return False
    return all(is_within(path, cwd) for path in paths)


def is_within(path: str, cwd: str) -> bool:
    """Return whether a path is inside the folder. Only the texts are compared; links are not followed."""
    if not cwd or not path:
        return False
    folder = posixpath.normpath(cwd)
    found = posixpath.normpath(posixpath.join(folder, path))
    return found.startswith(f"{folder.rstrip('/')}/")
