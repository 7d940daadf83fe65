"""What a holder needs besides the agent: the root, its configuration, the clock, the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from beam import trust
from beam.agents import registry
from beam.clock import Clock
from beam.config import Config, Resolved
from beam.errors import BeamError
from beam.home import Home, Place
from beam.limits import Limits
from beam.policy import Policy


class World(Struct, frozen=True, kw_only=True):
    """One root as one process sees it."""

    home: Home
    config: Config
    clock: Clock
    environ: Mapping[str, str]

    @property
    def limits(self) -> Limits:
        return self.config.limits

    @property
    def policy(self) -> Policy:
        return self.config.policy

    def resolve(self, agent: str) -> Resolved:
        """The agent's settings; for a name that nobody declared, its adapter's. Raises NotFoundError, ConfigError."""
        return self.config.resolve(agent)

    def is_agent(self, name: str) -> bool:
        """Whether a message can be sent to that name."""
        return name in registry.ADAPTERS or name in self.config.names()

    def is_mailbox(self, name: str) -> bool:
        """Whether the agent is no program; not so where its configuration can't be understood."""
        try:
            return "mailbox" in registry.adapter(self.resolve(name).settings.adapter).card.faces
        except BeamError:
            return False

    def why_untrusted(self, resolved: Resolved) -> str | None:
        """Why this agent may not run before `beam trust`; null where it may."""
        return trust.refusal(resolved, self.environ)

    @property
    def base(self) -> Path:
        return self.home.base

    def place(self, agent: str, lane: str | None = None) -> Place:
        """Where the agent's files are."""
        place = self.home.agent(agent)
        return place if lane is None else place.lane_of(lane)
