"""Makes the events of a team. Each team has one factory, which fills in the common header fields."""

from __future__ import annotations

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
