"""Events that several sources report, each counted once: by key, or by content and how many times it was reported.

Files and records of calls report one change with times of their own, in either order, and files may miss one. If a
source reports something for the second time, it happened a second time: the n-th report from any source is the n-th
event. Does not depend on what the events are.
"""

from __future__ import annotations

from collections.abc import Hashable

_KEPT_KEYS = 200_000


class Owners:
    """The owner of each key: whoever named it first."""

    def __init__(self) -> None:
        self._owners: dict[Hashable, str] = {}

    def owner(self, key: Hashable) -> str | None:
        """Return who named the key first; None if nobody did."""
        return self._owners.get(key)

    def take(self, key: Hashable, owner: str) -> bool:
        """Return whether the key belongs to this owner; a key without an owner does from now on."""
        if self._owners.setdefault(key, owner) != owner:
            return False
        if len(self._owners) > _KEPT_KEYS:
            del self._owners[next(iter(self._owners))]
        return True


class Deduplicator:
    """A record of what was reported already."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}
        self._happened: dict[Hashable, int] = {}
        self._counts: dict[tuple[Hashable, str], int] = {}

    def first(self, key: Hashable) -> bool:
        """Return whether this exact key is new."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _KEPT_KEYS:
            del self._keys[next(iter(self._keys))]
        return True

    def new(self, what: Hashable, *, source: str) -> bool:
        """Return whether no other source reported this event yet."""
        count = self._counts[what, source] = self._counts.get((what, source), 0) + 1
        if count <= self._happened.get(what, 0):
            return False
        self._happened[what] = count
        return True
