"""Returns an agent's current state, as `beam status` shows it. Reading takes no locks."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct, field

from beam.api import turns_now
from beam.api.find import is_of_run, queue_of
from beam.api.strays import strays
from beam.api.turns_now import KeptProcess, OnceTurn, Running
from beam.base.clock import rfc3339
from beam.base.errors import BeamError, DiskError, NotFoundError
from beam.base.typed_values import escape_surrogates
from beam.broker.inbox.context import RootContext
from beam.broker.inbox.failure import circuit_state
from beam.broker.inbox.usage_limit import limited_account
from beam.model.outcome import Status
from beam.model.settings import AgentSettings
from beam.model.state import State, Totals
from beam.root import directories
from beam.root.git_place import GitPlace, git_place
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.store.queue import Entry, Queue
from beam.store.segment import read_state

_MOST_READ = 20  # of the waiting messages of each agent: `beam status` is quick


class LastOutcome(Struct, frozen=True, kw_only=True):
    """How the agent's last turn ended."""

    message_id: str | None
    turn: int | None
    status: Status
    class_: str | None = field(name="class", default=None)
    reason: str | None = None
    at: str = ""


class AgentStatus(Struct, frozen=True, kw_only=True):
    """One line of `beam status`. `state`: idle, running, waiting, paused, blocked, archived, untrusted (the agent's
    messages wait until a person trusts the folder; `untrusted` says why), died (its holder died, and no other holder
    took over). `oldest` is when the oldest waiting message was published (RFC 3339). `dead` counts the dead letters of
    the last 30 days (`limits: known_ids_days`) for whose outcome nobody waited. `circuit`: closed, open (no message is
    claimed until `circuit_until`), half open (one message will be tried). `limited_until`: the usage limit of
    the agent's account is reached, and its messages wait until then. `once` has the agent's unfinished `--once`
    messages; `waiting`, `dead`, `totals`, `last` and `state` include them. `estimated_usd` is the cost, by the price
    table, of the turns whose CLI reported none. `folder` is where the agent works, "" if its settings can't be read;
    `git` is that folder's place in git, null outside a repository. `of_run`: only a scenario uses the agent. `strays`
    counts the files among its waiting messages that are no messages for it (of many messages, the first are read)."""

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
    limited_until: str | None = None
    blocked: str | None = None
    untrusted: str | None = None
    error: str | None = None
    kept: KeptProcess | None = None
    once: tuple[OnceTurn, ...] = ()
    folder: str = ""
    git: GitPlace | None = None
    estimated_usd: float | None = None
    of_run: bool = False
    strays: int = 0

    @property
    def is_left_over(self) -> bool:
        """Return whether the agent is one of a scenario, has nothing to do, and needs nobody's eye."""
        is_at_rest = self.state == "idle" and self.kept is None and not self.error
        return self.of_run and is_at_rest and not (self.waiting or self.dead)


def status_of(context: RootContext, paths: AgentPaths) -> AgentStatus:
    """Return the agent's current state. A damaged journal or configuration is reported in the result, not raised."""
    adapter, error, circuit, state = "", None, "closed", State(agent=paths.agent)
    now_ns, is_read = context.clock.now_ns(), False
    works_in, limited = "", None
    try:
        directories.check_paths(context.home, paths)
        state, is_read = read_state(paths.journal), True
        circuit = circuit_state(state, now_ns)
        settings = context.config.resolve(paths.agent).settings
        adapter, works_in = settings.adapter, folder_of(context, settings)
        limited = limited_account(context, settings)
    except BeamError as trouble:
        if isinstance(trouble, NotFoundError) and "@" in paths.agent and state.turn:
            adapter = state.session.adapter if state.session is not None else ""  # only a scenario declares this agent
        else:
            error = trouble.message
    queue = queue_of(paths)
    waiting = queue.entries("new")
    once = turns_now.once_turns(paths)
    since_ts = rfc3339(max(0, now_ns - context.config.limits.known_ids_ns))
    sums = turns_now.sums_with_lanes(paths, state, since_ts)
    running = turns_now.running_turn(state, paths)
    words = {turn.state for turn in once}
    now = state.activity
    if running is not None and running.alive is False and running.lease_until is None:
        now = "died"
    elif now == "idle" and words & {"running", "died"}:
        now = "running" if "running" in words else "died"
    elif now == "idle" and state.paused:
        now = "paused"
    if paths.archived.exists():
        now = "archived"
    untrusted = _waiting_reason(context, paths) if now == "idle" and waiting else None
    now = "untrusted" if untrusted is not None else now
    return AgentStatus(
        agent=paths.agent,
        adapter=adapter,
        state=now,
        waiting=len(waiting) + sum(turn.state == "waiting" for turn in once),
        strays=sum(1 for _ in strays(paths, most=_MOST_READ)),
        dead=turns_now.count_unseen(paths, state if is_read else None, since_ts) + sums.dead,
        oldest=_oldest_timestamp(paths, waiting),
        running=running,
        session_id=state.session.session_id if state.session else None,
        turn=state.turn,
        last=None
        if sums.last is None
        else LastOutcome(**{name: getattr(sums.last, name) for name in LastOutcome.__struct_fields__}),
        totals=sums.totals,
        circuit=circuit,
        circuit_until=state.circuit_until,
        limited_until=limited.until if limited is not None else None,
        blocked=state.blocked,
        untrusted=untrusted,
        error=error,
        kept=turns_now.kept_process(state),
        once=tuple(once),
        folder=works_in,
        git=git_place(Path(works_in)) if works_in else None,
        estimated_usd=_estimate(sums.totals),
        of_run=is_of_run(context, paths, state),
    )


def _estimate(totals: Totals) -> float | None:
    if all(share.cost_usd is not None for share in totals.by_model.values()):
        return None
    from beam.api.usage import estimate

    return estimate(totals)


def _waiting_reason(context: RootContext, paths: AgentPaths) -> str | None:
    from beam.broker.inbox.standing import waiting_reason  # a slow import that most agents do not need

    return waiting_reason(context, paths)


def folder_of(context: RootContext, settings: AgentSettings) -> str:
    """Return the folder where an agent with these settings works: the project folder, or the folder that `cwd`
    names."""
    folder = os.path.realpath(context.home.project / settings.cwd) if settings.cwd else str(context.home.project)
    path: str = escape_surrogates(folder)
    return path


def running_ids(agent: AgentPaths) -> list[str]:
    """Return the ids of the messages whose turns run: the agent's own message first, then its `--once` messages.

    A turn whose holder died is included, because a request to end the turn makes the caller take over.
    """
    turn = read_state(agent.journal).open_turn
    own = [turn.message_id] if turn is not None and turn.message_id is not None else []
    return own + [turn.message_id for turn in turns_now.once_turns(agent) if turn.state != "waiting"]


def _oldest_timestamp(paths: AgentPaths, waiting: list[Entry]) -> str | None:
    queues = [queue_of(lane) for lane in lanes.indexed_lanes(paths)]
    found = [_timestamp(queue, queue.entries("new")) for queue in queues]
    return min(filter(None, [_timestamp(queue_of(paths), waiting), *found]), default=None)


def _timestamp(queue: Queue, waiting: list[Entry]) -> str | None:
    for entry in waiting[:1]:
        try:
            return queue.read(entry).timestamp
        except (FileNotFoundError, DiskError):
            return None
    return None
