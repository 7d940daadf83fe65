"""The context of a root in one process: its paths, its configuration, the clock, the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from beam.agents import registry
from beam.base.clock import Clock
from beam.base.errors import BeamError
from beam.base.own_program import leads_through
from beam.config.resolve import BEAM_YAML, Config, ResolvedAgent, load
from beam.model.message import NAME, Access, Message, RuleLists, SessionContext, base_of
from beam.model.settings import AgentSettings
from beam.root import directories, discovery
from beam.root.paths import AgentPaths, RootPaths

if TYPE_CHECKING:
    from beam.base.clock import Steps
    from beam.store.outbox import Answer, Request
    from beam.turns.replay import Recordings

    # context, request, its name, its sender, and a function that is called with an interim answer
    CarryOut = Callable[["RootContext", Request, str, "Sender", Callable[[Answer], None]], Steps[Answer]]


class Sender(Struct, frozen=True, kw_only=True):
    """An agent in its turn, as the sender of messages. It is taken from the turn, never from a request. `at_most` is
    the highest access level for turns that its messages cause; with None, only the receiver's settings limit them.
    `rules` are the rules of the sender's turn, which also bind the receiver. Only files below `folder` may be
    attached."""

    agent: str
    message: Message
    turn_key: str
    at_most: Access | None
    context: SessionContext
    folder: Path
    rules: RuleLists | None = None

    @property
    def chain(self) -> tuple[str, ...]:
        """Return the agents whose turns would wait for a message that this agent sends: those that wait for this turn,
        and this agent."""
        return (*self.message.chain, self.agent)


class RootContext(Struct, frozen=True, kw_only=True):
    """One root as seen by one process. `carry_out` is the function that carries out the requests that agents make in
    their turns.

    `exposed` is the folder that contains the root and in which agents may write; then an agent may have written any
    file of the root. It is None if agents can't write in the root. Its value was determined when this object was made;
    `recheck_exposure` determines it again. `recordings` are recorded turns that are replayed in place of agents' turns;
    None if agents run every turn. `untrusted_path` are the folders of PATH that `environ` lacks, because they lie in a
    project folder that nobody trusted.
    """

    home: RootPaths
    config: Config
    clock: Clock
    environ: Mapping[str, str]
    carry_out: CarryOut
    exposed: Path | None
    recordings: Recordings | None = None
    untrusted_path: tuple[str, ...] = ()

    @classmethod
    def load(
        cls, home: RootPaths, *, environ: Mapping[str, str], clock: Clock, carry_out: CarryOut, exposed: Path | None
    ) -> RootContext:
        """Return the context of this root: read its configuration and check its file system. `exposed` must be the
        current result of `discovery.exposing_folder`.

        Raises ConfigError, DiskError.
        """
        config = _load_config(home, environ, exposed)
        directories.check_filesystem(home, allow_fs=config.allow_fs)
        left_out = _untrusted_path_folders(home, environ)
        path = [each for each in environ.get("PATH", "").split(":") if each not in left_out]
        return cls(
            home=home,
            config=config,
            clock=clock,
            environ={**environ, "PATH": ":".join(path)} if left_out else environ,
            carry_out=carry_out,
            exposed=exposed,
            untrusted_path=left_out,
        )

    def reload_config(self) -> RootContext:
        """Return this context with the configuration read from its files again. Raises ConfigError, DiskError."""
        exposed = discovery.exposing_folder(self.home, self.environ)
        config = _load_config(self.home, self.environ, exposed)
        return structs.replace(self, config=config, exposed=exposed)

    def recheck_exposure(self) -> RootContext:
        """Return this context with the current value of `exposed`. Call it before a decision that may come long after
        the context was made."""
        exposed = discovery.exposing_folder(self.home, self.environ)
        return self if exposed == self.exposed else structs.replace(self, exposed=exposed)

    def is_agent(self, name: str) -> bool:
        """Return whether messages can be sent to this name: it is the name of an agent, or of an agent's session
        (`claude@review`)."""
        name = base_of(name) if NAME.match(name) else name
        return name in registry.ADAPTERS or name in self.config.names() or name in registry.NAMES

    def settings_of(self, name: str) -> AgentSettings | None:
        """Return the agent's settings as they are now; None if they are invalid."""
        try:
            return self.config.resolve(name).settings
        except BeamError:
            return None

    def is_mailbox(self, name: str) -> bool:
        """Return whether the agent is a mailbox: `recv` takes its messages, and no process runs them."""
        return is_mailbox(self.settings_of(name))

    def access_for(self, resolved: ResolvedAgent, message: Message) -> Access:
        """Return the access level for a turn of this message. It follows from the agent's settings, the message, and
        whether agents may write in the root."""
        from beam.turns.choice import granted_access

        return granted_access(
            resolved.settings.access,
            message.options.access,
            from_agent=message.hops > 0,
            at_most="read" if self.exposed else message.at_most,
        )

    def agent_paths(self, agent: str, lane: str | None = None) -> AgentPaths:
        """Return the paths of the agent's files or, with `lane`, of the files of that lane."""
        paths = self.home.agent(agent)
        return paths if lane is None else paths.lane_of(lane)


def is_mailbox(settings: AgentSettings | None) -> bool:
    """Return whether an agent with these settings is a mailbox; False if they are invalid (None)."""
    try:
        return settings is not None and "mailbox" in registry.adapter(settings.adapter).card.faces
    except BeamError:
        return False


def _load_config(home: RootPaths, environ: Mapping[str, str], exposed: Path | None) -> Config:
    """Read the configuration of a root that this user owns. The configuration of an exposed root is not cached. Limits
    and policy of a beam.yaml act also where no turn runs, so without trust in them the person's own count here."""
    directories.check_owner(home, uid=os.geteuid())
    config = load(home, environ=environ, adapters=registry.NAMES, remembers=exposed is None)
    if all(not file.limits and not file.policy for origin, file in config.files if origin == BEAM_YAML):
        return config
    from beam.trust import declarations, ledger

    found = list(declarations.findings_of_bounds(config))
    if not found or ledger.standing_of(home.project, found, environ).trusted:
        return config
    return declarations.with_own_bounds(config)


def _untrusted_path_folders(home: RootPaths, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the absolute folders of PATH that lie in the project folder or in the repository around it, or that a link
    in these leads to, if nobody has trusted the project folder. Whoever wrote it chose the programs there."""
    folders = (os.path.realpath(discovery.outermost_folder(home.project, environ)),)
    found = [each for each in environ.get("PATH", "").split(":") if each[:1] == "/" and leads_through(each, folders)]
    if not found or discovery.is_too_wide(home.project, environ):
        return ()
    from beam.trust.ledger import standing_of

    return () if standing_of(home.project, (), environ).trusted else tuple(found)


def path_note(folder: str) -> str:
    """Return a note that no program is looked for in this folder of PATH, because nobody trusted it."""
    return f"PATH names {folder}, and nobody trusted this folder: no program is looked for there; beam trust"
