"""What people look at: agents and their state, queues, messages. Values only; reading takes no locks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from beam import files, home
from beam.agents import registry
from beam.agents.base import Card
from beam.api.follow import outcome_in
from beam.broker.failure import circuit_word
from beam.broker.world import World
from beam.errors import BeamError, CorruptError, NotFoundError, UsageError
from beam.home import Place
from beam.message import agent_of, decode
from beam.outcome import Outcome, Status
from beam.settings import AgentSettings
from beam.state import State, Totals
from beam.store.journal import read_state
from beam.store.queue import Entry, Queue


class OpenAsk(Struct, frozen=True, kw_only=True):
    """What a running turn waits for a decision on (`beam asks` says more); then it is denied (RFC 3339)."""

    id: str
    tool: str
    expires: str | None = None


class Running(Struct, frozen=True, kw_only=True):
    """The turn that runs now, until its reply is on its way. `alive`: whether its holder still lives (null: it is on
    another host). `processes` are the agent's, with its guard and all that it started, `rss_mb` their memory; null
    where nobody knows."""

    message_id: str | None
    turn: int
    since: str
    pid: int
    host: str
    alive: bool | None
    tools: tuple[str, ...] = ()
    processes: int | None = None
    rss_mb: float | None = None
    lease_until: str | None = None
    asks: tuple[OpenAsk, ...] = ()


class KeptTerminal(Struct, frozen=True, kw_only=True):
    """An agent's process that lives on between its turns. `turn` is the one that started it, `since` when it was kept
    first; `processes` and `rss_mb` as in `Running`."""

    pid: int
    turn: int
    since: str
    processes: int | None = None
    rss_mb: float | None = None


class LastOutcome(Struct, frozen=True, kw_only=True):
    """How the agent's last turn ended."""

    message_id: str | None
    turn: int | None
    status: Status
    class_: str | None = field(name="class", default=None)
    reason: str | None = None
    at: str = ""


class AgentStatus(Struct, frozen=True, kw_only=True):
    """One line of `beam status`. `state`: idle, running, waiting, paused, blocked, died
    (its holder did, and nobody took over).
    `oldest` is when the message that waits longest was published (RFC 3339). `circuit`: closed, open (nothing is
    claimed until `circuit_until`), half open (one message will be tried)."""

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
    error: str | None = None
    kept: KeptTerminal | None = None


class QueueItem(Struct, frozen=True, kw_only=True):
    """One message of a queue. `box`: waiting, running or dead. `error` where its file is damaged."""

    id: str
    agent: str
    box: Literal["waiting", "running", "dead"]
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
    status: Literal["waiting", "running"]
    attempt: int
    position: int
    text: str


_BOXES: dict[str, Literal["waiting", "running", "dead"]] = {"new": "waiting", "cur": "running", "dead": "dead"}


def queue_of(place: Place) -> Queue:
    """The place's queue."""
    return Queue(place.queue, place.put_lock)


def places(world: World, agents: list[str] | None = None) -> Iterator[Place]:
    """Every place of the root that has files, the lanes included."""
    for name in world.home.agents() if agents is None else agents:
        place = world.home.agent(name)
        yield place
        yield from place.lanes()


def agent_names(world: World) -> list[str]:
    """Agents that are declared or have files here, sorted."""
    return sorted({*world.config.names(), *world.home.agents()})


def find_place(world: World, message_id: str) -> tuple[Place, str]:
    """Where the message is, by its whole id or any unique ending of at least four characters; and its whole id.

    Raises NotFoundError, and UsageError for an ambiguous ending.
    """
    agent = agent_of(message_id)
    if agent in world.home.agents():
        place = world.home.agent(agent)
        lane = _lane(place, message_id)
        for candidate in (lane, place):
            if candidate is not None and _has(candidate, message_id):
                return candidate, message_id
    if len(message_id) < 4:
        raise UsageError(f"{message_id!r} is too short to name a message", "give at least four characters of its end")
    found = sorted(
        {(known, place) for place, known in _ids(world) if known.endswith(message_id)}, key=lambda pair: pair[0]
    )
    if not found:
        raise NotFoundError(
            f"there is no message {message_id} in {world.home.root}",
            "beam queue list; beam log AGENT",
            subject=message_id,
        )
    if len(found) > 1:
        names = ", ".join(known for known, _ in found[:4])
        raise UsageError(
            f"{message_id} names {len(found)} messages: {names}", "give more of its end", subject=message_id
        )
    return found[0][1], found[0][0]


def _lane(place: Place, message_id: str) -> Place | None:
    suffix = message_id.rpartition("-")[2]
    lane = place.lane_of(suffix)
    return lane if lane.dir.is_dir() else None


def _has(place: Place, message_id: str) -> bool:
    return queue_of(place).find(message_id) is not None or message_id in read_state(place.journal).known


def _ids(world: World) -> Iterator[tuple[Place, str]]:
    for place in places(world):
        for box in _BOXES:
            for entry in queue_of(place).entries(box):
                yield place, entry.id
        for known in read_state(place.journal).known:
            yield place, known


def shown(place: Place, message_id: str) -> Outcome | Pending:
    """The outcome, or how far the message is. Looks at the queue, the journal, and the queue again."""
    for _ in range(2):
        entry = queue_of(place).find(message_id)
        outcome = outcome_in(place, read_state(place.journal), message_id)
        if outcome is not None and (entry is None or entry.box != "new"):
            return outcome
        if entry is not None and entry.box != "dead":
            return _pending(place, message_id)
    raise NotFoundError(f"{message_id} is not in the queue and has no outcome", "", subject=message_id)


def _pending(place: Place, message_id: str) -> Pending:
    queue = queue_of(place)
    entry = queue.find(message_id)
    attempt, text, box, ahead = 1, "", "cur", 0
    if entry is not None:
        box = entry.box
        ahead = sum(1 for other in queue.entries("new") if other.position < entry.position)
        try:
            message = decode(files.read(queue.path(entry)))
            attempt, text = message.attempt, message.text
        except (FileNotFoundError, CorruptError):
            box = "cur"
    return Pending(
        message_id=message_id,
        agent=place.agent,
        status="waiting" if box == "new" else "running",
        attempt=attempt,
        position=ahead,
        text=text,
    )


def status_of(world: World, place: Place) -> AgentStatus:
    """The agent's state now; a damaged journal or configuration is said, not raised."""
    adapter, error, state = "", None, State(agent=place.agent)
    try:
        home.check_place(world.home, place)
        state = read_state(place.journal)
        adapter = world.resolve(place.agent).settings.adapter
    except BeamError as trouble:
        error = trouble.message
    queue = queue_of(place)
    waiting = queue.entries("new")
    running = _running(state)
    word = state.word
    if running is not None and running.alive is False and running.lease_until is None:
        word = "died"
    elif word == "idle" and state.paused:
        word = "paused"
    return AgentStatus(
        agent=place.agent,
        adapter=adapter,
        state=word,
        waiting=len(waiting),
        dead=len(queue.entries("dead")),
        oldest=_timestamp(queue, waiting),
        running=running,
        session_id=state.session.session_id if state.session else None,
        turn=state.turn,
        last=None
        if state.last is None
        else LastOutcome(**{name: getattr(state.last, name) for name in LastOutcome.__struct_fields__}),
        totals=state.totals,
        circuit=circuit_word(state, world.clock.now_ns()),
        circuit_until=state.circuit_until,
        blocked=state.blocked,
        error=error,
        kept=_kept(state),
    )


def _kept(state: State) -> KeptTerminal | None:
    from beam.process import load

    kept = state.kept
    if kept is None:
        return None
    seen = load.of_trees(kept.processes)
    return KeptTerminal(
        pid=kept.pid,
        turn=kept.turn,
        since=kept.at,
        processes=seen.processes if seen is not None else None,
        rss_mb=round(seen.rss_bytes / 2**20, 1) if seen is not None else None,
    )


def _running(state: State) -> Running | None:
    from beam.process import load, tree

    turn = state.open_turn
    if turn is None:
        return None
    seen = load.of_trees(turn.processes)
    return Running(
        message_id=turn.message_id,
        turn=turn.turn,
        since=turn.started_at,
        pid=turn.owner.pid,
        host=turn.owner.host,
        alive=tree.is_alive(turn.owner),
        tools=tuple(turn.tools.values()),
        processes=seen.processes if seen is not None else None,
        rss_mb=round(seen.rss_bytes / 2**20, 1) if seen is not None else None,
        lease_until=turn.lease_until,
        asks=tuple(OpenAsk(id=ask.ask_id, tool=ask.tool, expires=ask.expires) for ask in turn.asks.values()),
    )


def _timestamp(queue: Queue, waiting: list[Entry]) -> str | None:
    for entry in waiting[:1]:
        try:
            return decode(files.read(queue.path(entry))).timestamp
        except (FileNotFoundError, CorruptError):
            return None
    return None


def queue_items(world: World, agents: list[str]) -> Iterator[QueueItem]:
    """What lies in the queues: running, waiting, given up on."""
    for place in places(world, agents):
        queue, state = queue_of(place), read_state(place.journal)
        for box in ("cur", "new", "dead"):
            for entry in queue.entries(box):
                known = state.known.get(entry.id)
                reason = str(known.status) if box == "dead" and known is not None and known.status else None
                try:
                    message = decode(files.read(queue.path(entry)))
                except FileNotFoundError:
                    continue
                except CorruptError as error:
                    yield QueueItem(id=entry.id, agent=place.agent, box=_BOXES[box], error=error.message)
                    continue
                yield QueueItem(
                    id=entry.id,
                    agent=place.agent,
                    box=_BOXES[box],
                    sender=message.sender,
                    timestamp=message.timestamp,
                    attempt=message.attempt,
                    hops=message.hops,
                    text=message.text,
                    reason=reason,
                )


def agent_line(world: World, name: str) -> AgentLine:
    """What an agent is and whether its CLI is here; a bad configuration is said, not raised."""
    from beam.turns.order import face_of, find_executable

    try:
        resolved = world.resolve(name)
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
        installed = find_executable(adapter, resolved.settings, world.environ, world.base)
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


def agent_shown(world: World, name: str) -> AgentShown:
    """Everything about one agent. Raises NotFoundError, ConfigError."""
    resolved = world.resolve(name)
    adapter = registry.adapter(resolved.settings.adapter)
    line = agent_line(world, name)
    return AgentShown(
        agent=name,
        adapter=resolved.settings.adapter,
        declared_in=resolved.declared_in,
        settings=resolved.settings,
        origin=dict(resolved.origin),
        card=adapter.card,
        installed=line.installed,
        untrusted=world.why_untrusted(resolved),
        status=status_of(world, world.place(name)),
        environment="that of the process that runs the turn, minus the deny list, plus env:",
        cwd=str((world.base / resolved.settings.cwd).resolve() if resolved.settings.cwd else world.base),
        fork=_fork(world.place(name)),
    )


def _fork(place: Place) -> str | None:
    try:
        fork = read_state(place.journal).fork
    except CorruptError:
        return None
    return f"session {fork.session_id} of {fork.of}" if fork is not None else None
