"""Which requests of an agent beam answers by itself, by the access of the turn; the others are asked, or denied.

An agent says what a call is for (`kind`) and which files it is about; what it does not say is not allowed. Does not
depend on any agent.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from beam.agents.fields import Object
from beam.model.message import Access

_LOOKS = ("read", "search")
_ALLOWED: dict[Access, tuple[str, ...]] = {"read": _LOOKS, "edit": (*_LOOKS, "edit")}


def allows(access: Access, kind: str, paths: Collection[str], given: Object, cwd: str) -> bool:
    """Return whether a call is allowed without asking: anything with `full`; below it what looks at files of the
    folder, or with `edit` changes them. A call with a command, or about no file, is not.
    """
    if access == "full":
        return True
    if kind not in _ALLOWED.get(access, ()) or not paths or "command" in given or "cmd" in given:
        return False
    return all(is_within(path, cwd) for path in paths)


def is_within(path: str, cwd: str) -> bool:
    """Return whether a path leads to something in the folder, as far as its words say."""
    if not cwd or not path:
        return False
    folder = posixpath.normpath(cwd)
    found = posixpath.normpath(posixpath.join(folder, path))
    return found.startswith(f"{folder.rstrip('/')}/")
