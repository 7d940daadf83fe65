"""Counts each event once although several sources report it: by a key, or by its content and the number of reports.

Files and records of tool calls report the same change, in either order and with different times; files may miss a
change. If one source reports the same content twice, the event happened twice: the n-th report from each source is the
n-th event. Does not depend on the meaning of the events.
"""

from __future__ import annotations

from collections.abc import Hashable

_KEPT_KEYS = 200_000


class KeyOwners:
    """The owner of each key. The first one that claims a key owns it."""

    def __init__(self) -> None:
        self._owners: dict[Hashable, str] = {}

    def owner(self, key: Hashable) -> str | None:
        """Return the owner of the key; None if it has none."""
        return self._owners.get(key)

    def claim(self, key: Hashable, owner: str) -> bool:
        """Claim the key for this owner unless it has an owner. Return whether the key now belongs to this owner."""
        if self._owners.setdefault(key, owner) != owner:
            return False
        if len(self._owners) > _KEPT_KEYS:
            del self._owners[next(iter(self._owners))]
        return True


class Deduplicator:
    """Remembers which events were already reported."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}
        self._happened: dict[Hashable, int] = {}
        self._counts: dict[tuple[Hashable, str], int] = {}

    def add_if_new(self, key: Hashable) -> bool:
        """Return whether the key is new, and remember the key."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _KEPT_KEYS:
            del self._keys[next(iter(self._keys))]
        return True

    def count_report(self, what: Hashable, *, source: str) -> bool:
        """Count one report of the content `what` by this source. Return True if the source has now reported `what` more
        often than any other source: only then the report is a new event."""
        count = self._counts[what, source] = self._counts.get((what, source), 0) + 1
        if count <= self._happened.get(what, 0):
            return False
        self._happened[what] = count
        return True
