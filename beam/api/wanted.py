"""Filters the events of a stream by agent, team and type."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from beam.model.events import Event


class Wanted(Struct, frozen=True, kw_only=True):
    """A filter for events; an empty field matches every event. `types` are patterns of event types (`task.*`), `teams`
    are parts of team names, `agents` are names of agents with or without their team or session."""

    agents: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def fits(self, event: Event) -> bool:
        """Return whether the event passes the filter."""
        if self.types and not any(fnmatchcase(str(event.__struct_config__.tag), pattern) for pattern in self.types):
            return False
        name, _, team = event.agent.partition("@")
        if self.teams and not any(team and part in team for part in self.teams):
            return False
        cli, _, session = event.agent.partition("~")
        is_named = (bool(team) and name in self.agents) or (bool(session) and cli in self.agents)
        return not self.agents or event.agent in self.agents or is_named
