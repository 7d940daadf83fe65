"""Makes the events of a team, each once although several sources report it. Each team has one factory, which fills in
the common header fields."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from beam.base.clock import rfc3339
from beam.model.events import Event

E = TypeVar("E", bound=Event)


class EventFactory(Struct, frozen=True):
    """Makes the events of one team."""

    team: str
    home: str

    def __call__(self, cls: type[Event], at_ns: int, who: str, key: str, source: str, /, **fields: Any) -> Event:
        """Return an event of the class `cls` that the member `who` caused. `key` identifies the event within the team,
        and `source` says where the event was observed."""
        named: dict[str, Any] = {
            "ts": rfc3339(at_ns),
            "agent": f"{who}@{self.team}",
            "team": self.team,
            "home": self.home,
            "key": f"{self.team}/{key}",
            "source": source,
        }
        return cls(**named, **fields)

    def body(self, event: E, at_ns: int, member: str) -> E:
        """Return an event from a member's transcript, with the time and the agent of its header filled in."""
        return msgspec.structs.replace(event, ts=rfc3339(at_ns), agent=f"{member}@{self.team}")


# -- each event once ---------------------------------------------------------------------------------------------------


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
    """Remembers which events were already reported: by a key, or by their content and the number of reports.

    Files and records of tool calls report the same change, in either order and with different times; files may miss a
    change. If one source reports the same content twice, the event happened twice: the n-th report from each source is
    the n-th event.
    """

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
