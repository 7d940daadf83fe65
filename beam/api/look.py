"""Agents and their state, queues and messages, as values for people to look at. Reading takes no locks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from beam.agents import registry
from beam.agents.base import Card
from beam.api import turns_now
from beam.api.turns_now import KeptTerminal, OnceTurn, Running, is_run
from beam.base.errors import BeamError, CorruptError, DiskError, NotFoundError, UsageError
from beam.base.surrogates import escape_surrogates
from beam.broker.context import RootContext
from beam.broker.failure import circuit_word
from beam.broker.follow import outcome_in
from beam.model.message import agent_of
from beam.model.outcome import Outcome, Status
from beam.model.settings import AgentSettings
from beam.model.state import State, Totals
from beam.root import directories
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.store.journal import read_state
from beam.store.queue import Entry, Queue


class LastOutcome(Struct, frozen=True, kw_only=True):
    """How the agent's last turn ended."""

    message_id: str | None
    turn: int | None
    status: Status
    class_: str | None = field(name="class", default=None)
    reason: str | None = None
    at: str = ""


class AgentStatus(Struct, frozen=True, kw_only=True):
    """One line of `beam status`. `state`: idle, running, waiting, paused, blocked, archived, untrusted (what waits does
    so until a person trusts the folder; `untrusted` says why), died (its holder did, and nobody took over).
    `oldest` is when the message that waits longest was published (RFC 3339). `circuit`: closed, open (nothing is
    claimed until `circuit_until`), half open (one message will be tried). `once` are its `--once` messages that are not
    over; `waiting`, `dead`, `totals`, `last` and a `state` other than idle are of those, too. `folder` is where it
    works, "" where its settings can't be read."""

    agent: str
    adapter: str
    state: str
    waiting: int
    dead: int
    oldest: str | None
    running: Running | None
    session_id: str | None
    turn: int
    last: LastOutcome | None
    totals: Totals
    circuit: str = "closed"
    circuit_until: str | None = None
    blocked: str | None = None
    untrusted: str | None = None
    error: str | None = None
    kept: KeptTerminal | None = None
    once: tuple[OnceTurn, ...] = ()
    folder: str = ""


class QueueItem(Struct, frozen=True, kw_only=True):
    """One message of a queue. `box`: waiting, running, died (who ran it did, and nobody took over yet), or dead: given
    up on. `error` where its file is damaged."""

    id: str
    agent: str
    box: Literal["waiting", "running", "died", "dead"]
    sender: str = field(name="from", default="")
    timestamp: str = ""
    attempt: int = 1
    hops: int = 0
    text: str = ""
    reason: str | None = None
    error: str | None = None


class AgentLine(Struct, frozen=True, kw_only=True):
    """One line of `beam agent list`. `installed`: where its CLI is, null: missing, "": it needs none."""

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
    """`beam agent show`: every setting and who said it, what the adapter can do, where the agent stands. `environment`
    says whose environment its turns run in; `fork` which session its first one will be a copy of."""

    agent: str
    adapter: str
    declared_in: str
    settings: AgentSettings
    origin: dict[str, str]
    card: Card
    installed: str | None
    untrusted: str | None
    status: AgentStatus
    environment: str
    cwd: str
    fork: str | None = None


class Pending(Struct, frozen=True, kw_only=True):
    """`beam show` of a message without an outcome yet."""

    v: int = 1
    message_id: str
    agent: str
    status: Literal["waiting", "running", "died"]
    attempt: int
    position: int
    text: str


_BOXES: dict[str, Literal["waiting", "running", "dead"]] = {"new": "waiting", "cur": "running", "dead": "dead"}


def _box(entry: Entry, place: AgentPaths, state: State) -> Literal["waiting", "running", "died", "dead"]:
    return "died" if entry.box == "cur" and not is_run(place, state) else _BOXES[entry.box]


def queue_of(place: AgentPaths) -> Queue:
    """Return the place's queue."""
    return Queue(place.queue, place.put_lock)


def places(context: RootContext, agents: list[str] | None = None) -> Iterator[AgentPaths]:
    """Yield every place of the root that has files, the lanes included."""
    for name in context.home.agents() if agents is None else agents:
        place = context.home.agent(name)
        yield place
        yield from place.lanes()


def agent_names(context: RootContext) -> list[str]:
    """Return the agents that are declared or have files here and are not archived, sorted."""
    names = sorted({*context.config.names(), *context.home.agents()})
    return [name for name in names if not context.home.agent(name).archived.exists()]


def find_place(context: RootContext, message_id: str) -> tuple[AgentPaths, str]:
    """Find a message by its whole id or any unique ending of at least four characters; return its place and its whole
    id.

    Raises NotFoundError, and UsageError for an ambiguous ending.
    """
    agent = agent_of(message_id)
    if agent in context.home.agents():
        place = context.home.agent(agent)
        lane = _lane(place, message_id)
        for candidate in (lane, place):
            if candidate is not None and _has(candidate, message_id):
                return candidate, message_id
    if len(message_id) < 4:
        raise UsageError(f"{message_id!r} is too short to name a message", "give at least four characters of its end")
    found = sorted(
        {(known, place) for place, known in message_ids(context) if known.endswith(message_id)},
        key=lambda pair: pair[0],
    )
    if not found:
        raise NotFoundError(
            f"there is no message {message_id} in {context.home.root}",
            "beam queue list; beam log AGENT",
            subject=message_id,
        )
    if len(found) > 1:
        names = ", ".join(known for known, _ in found[:4])
        raise UsageError(
            f"{message_id} names {len(found)} messages: {names}", "give more of its end", subject=message_id
        )
    return found[0][1], found[0][0]


def _lane(place: AgentPaths, message_id: str) -> AgentPaths | None:
    suffix = message_id.rpartition("-")[2]
    lane = place.lane_of(suffix)
    return lane if lane.dir.is_dir() else None


def _has(place: AgentPaths, message_id: str) -> bool:
    return queue_of(place).find(message_id) is not None or message_id in read_state(place.journal).known


def message_ids(context: RootContext) -> Iterator[tuple[AgentPaths, str]]:
    for place in places(context):
        for box in _BOXES:
            for entry in queue_of(place).entries(box):
                yield place, entry.id
        for known in read_state(place.journal).known:
            yield place, known


def shown(place: AgentPaths, message_id: str) -> Outcome | Pending:
    """Return the outcome, or how far the message is. Looks at the queue, the journal, and the queue again."""
    for _ in range(2):
        entry = queue_of(place).find(message_id)
        outcome = outcome_in(place, read_state(place.journal), message_id)
        if outcome is not None and (entry is None or entry.box != "new"):
            return outcome
        if entry is not None and entry.box != "dead":
            return _pending(place, message_id)
    raise NotFoundError(f"{message_id} is not in the queue and has no outcome", "", subject=message_id)


def _pending(place: AgentPaths, message_id: str) -> Pending:
    queue = queue_of(place)
    entry = queue.find(message_id)
    attempt, text, box, ahead = 1, "", "cur", 0
    if entry is not None:
        box = entry.box
        ahead = queue.ahead(entry)
        try:
            message = queue.read(entry)
            attempt, text = message.attempt, message.text
        except (FileNotFoundError, DiskError):
            box = "cur"
    has_died = box != "new" and not is_run(place, read_state(place.journal))
    return Pending(
        message_id=message_id,
        agent=place.agent,
        status="waiting" if box == "new" else "died" if has_died else "running",
        attempt=attempt,
        position=ahead,
        text=text,
    )


def status_of(context: RootContext, place: AgentPaths) -> AgentStatus:
    """Return the agent's state now. A damaged journal or configuration is in it, and not raised."""
    adapter, error, circuit, state = "", None, "closed", State(agent=place.agent)
    works_in = ""
    try:
        directories.check_place(context.home, place)
        state = read_state(place.journal)
        circuit = circuit_word(state, context.clock.now_ns())
        settings = context.resolve(place.agent).settings
        adapter, works_in = settings.adapter, folder_of(context, settings)
    except BeamError as trouble:
        error = trouble.message
    queue = queue_of(place)
    waiting = queue.entries("new")
    once = turns_now.once(place)
    sums = turns_now.with_lanes(place, state)
    running = turns_now.running(state)
    words = {turn.state for turn in once}
    word = state.word
    if running is not None and running.alive is False and running.lease_until is None:
        word = "died"
    elif word == "idle" and words & {"running", "died"}:
        word = "running" if "running" in words else "died"
    elif word == "idle" and state.paused:
        word = "paused"
    if place.archived.exists():
        word = "archived"
    untrusted = _waiting_reason(context, place) if word == "idle" and waiting else None
    word = "untrusted" if untrusted is not None else word
    return AgentStatus(
        agent=place.agent,
        adapter=adapter,
        state=word,
        waiting=len(waiting) + sum(turn.state == "waiting" for turn in once),
        dead=len(queue.entries("dead")) + sums.dead,
        oldest=_oldest(place, waiting),
        running=running,
        session_id=state.session.session_id if state.session else None,
        turn=state.turn,
        last=None
        if sums.last is None
        else LastOutcome(**{name: getattr(sums.last, name) for name in LastOutcome.__struct_fields__}),
        totals=sums.totals,
        circuit=circuit,
        circuit_until=state.circuit_until,
        blocked=state.blocked,
        untrusted=untrusted,
        error=error,
        kept=turns_now.kept(state),
        once=tuple(once),
        folder=works_in,
    )


def _waiting_reason(context: RootContext, place: AgentPaths) -> str | None:
    from beam.broker.standing import waiting_reason  # it loads what looks through folders; most agents need it not

    return waiting_reason(context, place)


def folder_of(context: RootContext, settings: AgentSettings) -> str:
    """Return where an agent with these settings works: the project folder, or the one in it that `cwd` names."""
    folder = os.path.realpath(context.base / settings.cwd) if settings.cwd else str(context.base)
    said: str = escape_surrogates(folder)
    return said


def running_ids(agent: AgentPaths) -> list[str]:
    """Return the ids of the messages whose turns run now: the agent's own, then `--once` ones.

    A turn whose holder died counts, too: who asks for its end takes over.
    """
    turn = read_state(agent.journal).open_turn
    own = [turn.message_id] if turn is not None and turn.message_id is not None else []
    return own + [turn.message_id for turn in turns_now.once(agent) if turn.state != "waiting"]


def _oldest(place: AgentPaths, waiting: list[Entry]) -> str | None:
    queues = [queue_of(lane) for lane in lanes.entered(place)]
    found = [_timestamp(queue, queue.entries("new")) for queue in queues]
    return min(filter(None, [_timestamp(queue_of(place), waiting), *found]), default=None)


def _timestamp(queue: Queue, waiting: list[Entry]) -> str | None:
    for entry in waiting[:1]:
        try:
            return queue.read(entry).timestamp
        except (FileNotFoundError, DiskError):
            return None
    return None


def queue_items(context: RootContext, agents: list[str]) -> Iterator[QueueItem]:
    """Yield what lies in the queues: running, waiting, dead."""
    for place in places(context, agents):
        queue, state = queue_of(place), read_state(place.journal)
        for box in ("cur", "new", "dead"):
            for entry in queue.entries(box):
                known = state.known.get(entry.id)
                reason = str(known.status) if box == "dead" and known is not None and known.status else None
                try:
                    message = queue.read(entry)
                except FileNotFoundError:
                    continue
                except DiskError as error:
                    where = _box(entry, place, state)
                    yield QueueItem(id=entry.id, agent=place.agent, box=where, error=error.message)
                    continue
                yield QueueItem(
                    id=entry.id,
                    agent=place.agent,
                    box=_box(entry, place, state),
                    sender=message.sender,
                    timestamp=message.timestamp,
                    attempt=message.attempt,
                    hops=message.hops,
                    text=message.text,
                    reason=reason,
                )


def agent_line(context: RootContext, name: str) -> AgentLine:
    """Return what an agent is and whether its CLI is here. A bad configuration is in it, and not raised."""
    from beam.turns.request import face_of, find_executable

    try:
        resolved = context.resolve(name)
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
        installed = find_executable(adapter, resolved.settings, context.environ, context.base)
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


def agent_shown(context: RootContext, name: str) -> AgentShown:
    """Return everything about one agent. Raises NotFoundError, ConfigError."""
    resolved = context.resolve(name)
    adapter = registry.adapter(resolved.settings.adapter)
    from beam.broker import standing

    line = agent_line(context, name)
    return AgentShown(
        agent=name,
        adapter=resolved.settings.adapter,
        declared_in=resolved.declared_in,
        settings=resolved.settings,
        origin=dict(resolved.origin),
        card=adapter.card,
        installed=line.installed,
        untrusted=standing.stands(context, resolved).refusal,
        status=status_of(context, context.place(name)),
        environment="that of the process that runs the turn, minus the deny list, plus env:",
        cwd=folder_of(context, resolved.settings),
        fork=_fork(context.place(name)),
    )


def _fork(place: AgentPaths) -> str | None:
    try:
        fork = read_state(place.journal).fork
    except CorruptError:
        return None
    return f"session {fork.session_id} of {fork.of}" if fork is not None else None
