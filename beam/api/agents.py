"""Returns an agent's settings, its adapter's capabilities, and whether its CLI is installed."""

from __future__ import annotations

from msgspec import Struct

from beam.agents import registry
from beam.agents.base import Adapter, Card
from beam.agents.features import Features, features
from beam.api.find import is_of_run
from beam.api.status import AgentStatus, folder_of, status_of
from beam.base.errors import BeamError, CorruptError, NotFoundError
from beam.broker.holder.registry import running_broker
from beam.broker.inbox.context import RootContext
from beam.config.resolve import ResolvedAgent
from beam.model.message import Access, Options
from beam.model.settings import AgentSettings
from beam.root.paths import AgentPaths
from beam.store.segment import read_state
from beam.turns.choice import REASON_ASKS, REASON_KEPT, REASON_NOT_KEPT, why_protocol_not_chosen


class AgentLine(Struct, frozen=True, kw_only=True):
    """One line of `beam agent list`. `installed` is the path of the agent's CLI; null if the CLI is missing, "" if the
    agent needs none. `of_run`: only a scenario uses the agent."""

    agent: str
    adapter: str
    declared_in: str
    face: str
    model: str | None
    access: str | None
    installed: str | None
    description: str | None = None
    error: str | None = None
    of_run: bool = False


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

    of_run = is_of_run(context, context.home.agent(name))
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
            error="only a scenario declares it" if of_run and isinstance(error, NotFoundError) else error.message,
            of_run=of_run,
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
        of_run=of_run,
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


# -- the mode of the next turn -----------------------------------------------------------------------------------------
# Returns the mode in which the next message of an agent would run if the message names no mode, and the reason.
# Starts no process: the CLI is assumed to have the version that the last turn found.


class NextMode(Struct, frozen=True, kw_only=True):
    """The mode of the next message. `face` is the mode (a value of `via`), "" if no message would run. `why` is the
    reason; None if there was no choice."""

    face: str
    why: str | None = None


def next_mode(context: RootContext, resolved: ResolvedAgent, adapter: Adapter, status: AgentStatus) -> NextMode:
    """Return the mode in which the agent's next message would run if it had no options."""
    from beam.broker.inbox.standing import check_folder
    from beam.turns.choice import face_of

    settings, faces = resolved.settings, adapter.card.faces
    access: Access = settings.access or "read"
    try:
        face = face_of(adapter, None, access)
    except BeamError:
        return NextMode(face="unverified" if adapter.card.unverified else "")
    if not ("dialogue" in faces and "exec" in faces):
        return NextMode(face=face)
    if face == "dialogue":
        return NextMode(face=face, why=REASON_ASKS)
    if status.kept is None and running_broker(context.home) is None:
        return NextMode(face=face, why=REASON_NOT_KEPT)
    why = (
        check_folder(context, resolved, access).no_protocol
        or _unfit_reason(context, resolved.name, adapter)
        or why_protocol_not_chosen(adapter, Options(), settings, access)
    )
    return NextMode(face=face if why else "dialogue", why=why or REASON_KEPT)


def _unfit_reason(context: RootContext, agent: str, adapter: Adapter) -> str:
    from beam.turns.cli_version import last_seen_version

    found = last_seen_version(context.agent_paths(agent).cli_version_file, adapter.card, context.clock)
    return found.unfit if found is not None else ""
