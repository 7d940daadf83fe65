"""The same happening told by several sources is one happening: by its key, or by what it is and the how-manieth.

Files and records of calls tell of one change with times of their own, in either order, and files may miss one. What a
source tells for the second time happened a second time; its n-th telling is the n-th happening. Must not know: what the
happenings are.
"""

from __future__ import annotations

from collections.abc import Hashable

_KEPT_KEYS = 200_000


class Owners:
    """Whose each key is: who named it first."""

    def __init__(self) -> None:
        self._owners: dict[Hashable, str] = {}

    def owner(self, key: Hashable) -> str | None:
        """Who named the key first; None where nobody did."""
        return self._owners.get(key)

    def take(self, key: Hashable, owner: str) -> bool:
        """Whether the key is this owner's: from now on, if it was nobody's."""
        if self._owners.setdefault(key, owner) != owner:
            return False
        if len(self._owners) > _KEPT_KEYS:
            del self._owners[next(iter(self._owners))]
        return True


class Deduplicator:
    """What was told already."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}
        self._happened: dict[Hashable, int] = {}
        self._told: dict[tuple[Hashable, str], int] = {}

    def first(self, key: Hashable) -> bool:
        """Whether this exact key was never given before."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _KEPT_KEYS:
            del self._keys[next(iter(self._keys))]
        return True

    def new(self, what: Hashable, *, source: str) -> bool:
        """Whether no other source told of this one yet."""
        count = self._told[what, source] = self._told.get((what, source), 0) + 1
        if count <= self._happened.get(what, 0):
            return False
        self._happened[what] = count
        return True
