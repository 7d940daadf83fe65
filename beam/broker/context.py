"""What a holder needs besides the agent: the root, its configuration, the clock, the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from beam.agents import registry
from beam.base.clock import Clock
from beam.base.errors import BeamError, UntrustedError
from beam.config.resolve import Config, Resolved
from beam.model.limits import Limits
from beam.model.message import Access, Message
from beam.model.policy import Policy
from beam.root import discovery
from beam.root.paths import AgentPaths, RootPaths

if TYPE_CHECKING:
    from beam.broker.standing import FolderStanding


class RootContext(Struct, frozen=True, kw_only=True):
    """One root as one process sees it."""

    home: RootPaths
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
        return name in registry.ADAPTERS or name in self.config.names() or name in registry.NAMES

    def is_mailbox(self, name: str) -> bool:
        """Whether the agent is no program; not so where its configuration can't be understood."""
        try:
            return "mailbox" in registry.adapter(self.resolve(name).settings.adapter).card.faces
        except BeamError:
            return False

    def stands(self, resolved: Resolved, access: Access | None = None) -> FolderStanding:
        """How the agent stands in its folder, with this access or else the one that its settings give."""
        from beam.broker import standing

        return standing.stands(self, resolved, access or resolved.settings.access or "read")

    def stands_for(self, resolved: Resolved, message: Message) -> FolderStanding:
        """The same for the turn of a message."""
        return self.stands(resolved, self.access_for(resolved, message))

    def waiting_reason(self, place: AgentPaths) -> str | None:
        """Why what waits there does so until a person trusts the folder; None where it need not, or nothing waits."""
        from beam.broker import standing
        from beam.store.queue import Queue

        queue = Queue(place.queue, place.put_lock)
        head = queue.first("new")
        if head is None or self.is_mailbox(place.agent):
            return None
        return standing.waits_for_trust(self, queue, head)

    def access_for(self, resolved: Resolved, message: Message) -> Access:
        """The access that the agent's settings and this message come to."""
        from beam.turns.request import granted_access

        return granted_access(
            resolved.settings.access,
            message.options.access,
            from_agent=message.hops > 0,
            at_most="read" if self.is_exposed else message.at_most,
        )

    def check_trusted(self, resolved: Resolved, access: Access | None = None) -> FolderStanding:
        """The same. Raises UntrustedError where the agent may not run before `beam trust`."""
        stands = self.stands(resolved, access)
        if stands.refusal is not None:
            raise UntrustedError(stands.refusal, stands.hint, subject=str(self.base))
        return stands

    @property
    def is_exposed(self) -> bool:
        """Whether the root lies where agents may write: what it holds may be anybody's."""
        return discovery.exposed(self.home, self.environ) is not None

    @property
    def base(self) -> Path:
        return self.home.project

    def place(self, agent: str, lane: str | None = None) -> AgentPaths:
        """Where the agent's files are."""
        place = self.home.agent(agent)
        return place if lane is None else place.lane_of(lane)
