"""Decides by the access of the turn which calls beam allows without asking. All other calls need a decision, or are
denied.

An agent reports the purpose of a call (`kind`) and its files. Below full access, a call without these is not allowed.
Does not depend on any agent.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from beam.agents.fields import Object
from beam.model.message import Access

_READING_KINDS = ("read", "search")
_ALLOWED_KINDS: dict[Access, tuple[str, ...]] = {"read": _READING_KINDS, "edit": (*_READING_KINDS, "edit")}


def allows(
    access: Access, kind: str, paths: Collection[str], arguments: Object, cwd: str, *, others: Collection[str] = ()
) -> bool:
    """Return whether a call is allowed without asking. `full` allows any call, `ask` none. `read` allows a call that
    reads files of the folder, and `edit` also a call that changes them. Neither of these two allows a call with a
    command or without a file. `others` are further paths of the call, such as the folder in which it searches: each
    has to be the folder or inside it."""
    if access == "full":
        return True
    if kind not in _ALLOWED_KINDS.get(access, ()) or not paths or "command" in arguments or "cmd" in arguments:
        return False
    return all(is_within(path, cwd) for path in (*paths, *(f"{path}/x" for path in others)))


def is_within(path: str, cwd: str) -> bool:
    """Return whether a path is inside the folder, both as it is spelled and after its links are followed."""
    if not cwd or not path or "\0" in path or path.startswith("~"):  # some tools take `~` for the home folder
        return False
    folder = os.path.normpath(cwd)  # compares the paths as they are spelled
    joined = os.path.join(folder, path)  # noqa: PTH118
    return _is_below(os.path.normpath(joined), folder) and _is_below(os.path.realpath(joined), os.path.realpath(folder))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")
