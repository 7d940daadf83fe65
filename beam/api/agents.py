"""Returns an agent's settings, its adapter's capabilities, and whether its CLI is installed."""

from __future__ import annotations

from msgspec import Struct

from beam.agents import registry
from beam.agents.base import Card
from beam.agents.features import Features, features
from beam.api.next_mode import next_mode
from beam.api.status import AgentStatus, folder_of, status_of
from beam.base.errors import BeamError, CorruptError, NotFoundError
from beam.broker.inbox.context import RootContext
from beam.model.settings import AgentSettings
from beam.root.paths import AgentPaths
from beam.store.segment import read_state


class AgentLine(Struct, frozen=True, kw_only=True):
    """One line of `beam agent list`. `installed` is the path of the agent's CLI; null if the CLI is missing, "" if the
    agent needs none."""

    agent: str
    adapter: str
    declared_in: str
    face: str
    model: str | None
    access: str | None
    installed: str | None
    description: str | None = None
    error: str | None = None


class AgentShown(Struct, frozen=True, kw_only=True):
    """The result of `beam agent show`: every setting and its source, the adapter's capabilities (`card`: by mode;
    `features`: of all modes together), and the agent's state. `face` is the mode in which the next message runs if the
    message names no mode; `why` is the reason, null if there was no choice. `environment` says which environment
    variables the agent's turns get. `left_out` are untrusted files of the folder that the CLI is kept from. `fork` is
    the session that the agent's first turn will copy."""

    agent: str
    adapter: str
    declared_in: str
    settings: AgentSettings
    origin: dict[str, str]
    card: Card
    features: Features
    face: str
    why: str | None
    installed: str | None
    untrusted: str | None
    status: AgentStatus
    environment: str
    cwd: str
    left_out: tuple[str, ...] = ()
    fork: str | None = None


def agent_line(context: RootContext, name: str) -> AgentLine:
    """Return the agent's line for `beam agent list`. An invalid configuration is reported in the line, not raised."""
    from beam.turns.choice import face_of
    from beam.turns.request import find_executable

    try:
        resolved = context.config.resolve(name)
        adapter = registry.adapter(resolved.settings.adapter)
    except BeamError as error:
        return AgentLine(
            agent=name,
            adapter="",
            declared_in="",
            face="",
            model=None,
            access=None,
            installed=None,
            error=error.message,
        )
    installed: str | None
    try:
        installed = find_executable(adapter, resolved.settings, context.environ, context.home.project)
    except NotFoundError:
        installed = None
    try:
        face: str = face_of(adapter, None)
    except BeamError:
        face = "unverified" if adapter.card.unverified else ""
    return AgentLine(
        agent=name,
        adapter=resolved.settings.adapter,
        declared_in=resolved.declared_in,
        face=face,
        model=resolved.settings.model,
        access=resolved.settings.access,
        installed=installed,
        description=resolved.settings.description or adapter.card.summary,
    )


def agent_details(context: RootContext, name: str) -> AgentShown:
    """Return everything about one agent. Raises NotFoundError, ConfigError."""
    resolved = context.config.resolve(name)
    adapter = registry.adapter(resolved.settings.adapter)
    from beam.broker.inbox import standing

    line, status = agent_line(context, name), status_of(context, context.agent_paths(name))
    mode = next_mode(context, resolved, adapter, status)
    stands = standing.check_folder(context, resolved)
    return AgentShown(
        agent=name,
        adapter=resolved.settings.adapter,
        declared_in=resolved.declared_in,
        settings=resolved.settings,
        origin=dict(resolved.origin),
        card=adapter.card,
        features=features(adapter.card),
        face=mode.face,
        why=mode.why,
        installed=line.installed,
        untrusted=stands.refusal,
        left_out=stands.left_out,
        status=status,
        environment="that of the process that runs the turn, minus the deny list, plus env:",
        cwd=folder_of(context, resolved.settings),
        fork=_fork_text(context.agent_paths(name)),
    )


def _fork_text(paths: AgentPaths) -> str | None:
    try:
        fork = read_state(paths.journal).fork
    except CorruptError:
        return None
    return f"session {fork.session_id} of {fork.of}" if fork is not None else None
