"""Turns that run now, processes that are kept, and `--once` messages that are not over: as values, read without waiting
for anybody.

Whether somebody works in a lane is asked of its lock: its journal says that of dead workers, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Raw, Struct

from beam.base.errors import BeamError
from beam.model.events import AnyEvent, ToolCalled, ToolReturned, TurnStarted, UsageSeen
from beam.model.outcome import Usage
from beam.model.state import Last, State, Totals
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.store.lock import is_held
from beam.store.queue import Entry, Queue
from beam.store.segment import Segment, read_state, segments


class OpenAsk(Struct, frozen=True, kw_only=True):
    """What a running turn waits for a decision on (`beam asks` says more); then it is denied (RFC 3339)."""

    id: str
    tool: str
    expires: str | None = None


class OpenCall(Struct, frozen=True, kw_only=True):
    """A tool call that has not returned; `since` is RFC 3339."""

    name: str
    input: Raw
    since: str


class Running(Struct, frozen=True, kw_only=True):
    """The turn that runs now, until its reply is on its way. `alive`: whether its holder still lives (null: it is on
    another host). `processes` are the agent's, with its guard and all that it started, `rss_mb` their memory; null
    where nobody knows. `call` is the tool call that it made last, if it is open; `usage` and `cost_usd` are what the
    CLI said so far."""

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
    call: OpenCall | None = None
    usage: Usage | None = None
    cost_usd: float | None = None


class KeptProcess(Struct, frozen=True, kw_only=True):
    """An agent's process that lives on between its turns. `via` is its mode; `turn` is the one that started it, `since`
    when it was kept first, `until` how long it stays without a turn (null: as long as its holder); `holder` is the pid
    of who keeps it, `host` where; `processes` and `rss_mb` as in `Running`."""

    pid: int
    via: str
    turn: int
    since: str
    until: str | None
    holder: int
    host: str
    processes: int | None = None
    rss_mb: float | None = None


class OnceTurn(Struct, frozen=True, kw_only=True):
    """A `--once` message that is not over. `state`: waiting, running, or died (who ran it did, and nobody took over
    yet). `turn` while it runs."""

    message_id: str
    state: Literal["waiting", "running", "died"]
    turn: Running | None = None


class Sums(Struct, frozen=True, kw_only=True):
    """What an agent and its lanes did: sums, the newest outcome, and how many messages its lanes have given up on."""

    totals: Totals
    last: Last | None
    dead: int


def begun(paths: AgentPaths) -> list[AnyEvent]:
    """Return the events of the turn that runs now, so far; nothing where none does, or the journal can't be read."""
    try:
        names = segments(paths.journal)
        found = Segment.read(paths.journal / names[-1]) if names else None  # a turn lies in one of them whole
    except (BeamError, OSError):
        return []
    if found is None:
        return []
    start = next((at for at, event in reversed(list(enumerate(found.events))) if isinstance(event, TurnStarted)), None)
    return [] if start is None else found.events[start:]


def running(state: State, paths: AgentPaths) -> Running | None:
    """Return the turn that runs now, as the journal says."""
    from beam.process import load, tree

    turn = state.open_turn
    if turn is None:
        return None
    calls: dict[str, ToolCalled] = {}
    usage, cost_usd = None, None
    for event in begun(paths):
        match event:
            case ToolCalled():
                calls[event.call_id] = event
            case ToolReturned():
                calls.pop(event.call_id, None)
            case UsageSeen():
                usage, cost_usd = event.usage, event.cost_usd if event.cost_usd is not None else cost_usd
    call = next(reversed(calls.values()), None)
    loads = load.of_trees(turn.processes)
    return Running(
        message_id=turn.message_id,
        turn=turn.turn,
        since=turn.started_at,
        pid=turn.owner.pid,
        host=turn.owner.host,
        alive=tree.is_alive(turn.owner),
        tools=tuple(turn.tools.values()),
        processes=loads.processes if loads is not None else None,
        rss_mb=round(loads.rss_bytes / 2**20, 1) if loads is not None else None,
        lease_until=turn.lease_until,
        asks=tuple(OpenAsk(id=ask.ask_id, tool=ask.tool, expires=ask.expires) for ask in turn.asks.values()),
        call=OpenCall(name=call.name, input=call.input, since=call.ts) if call is not None else None,
        usage=usage,
        cost_usd=cost_usd,
    )


def kept(state: State) -> KeptProcess | None:
    """Return the kept process; None if its holder died: the next one ends it first."""
    from beam.process import load, tree

    found = state.kept
    if found is None or tree.is_alive(found.owner) is False:
        return None
    loads = load.of_trees(found.processes)
    return KeptProcess(
        pid=found.pid,
        via=found.via or "terminal",  # as an earlier beam kept nothing else
        turn=found.turn,
        since=found.at,
        until=found.until,
        holder=found.owner.pid,
        host=found.owner.host,
        processes=loads.processes if loads is not None else None,
        rss_mb=round(loads.rss_bytes / 2**20, 1) if loads is not None else None,
    )


def is_run(paths: AgentPaths, state: State) -> bool:
    """Return whether somebody continues what was claimed there: its holder, or who has its lease."""
    from beam.process import tree

    turn = state.open_turn
    if turn is not None and turn.lease_until is not None:
        return True
    if paths.lane is not None:
        return is_held(paths.lock)
    return turn is None or tree.is_alive(turn.owner) is not False


def once(agent: AgentPaths) -> list[OnceTurn]:
    """Return the agent's `--once` messages that are not over, the oldest first."""
    return [turn for lane in lanes.entered(agent) for turn in _in_lane(lane)]


def _in_lane(lane: AgentPaths) -> Iterator[OnceTurn]:
    queue = Queue(lane.queue, lane.put_lock)
    for entry in queue.entries("cur"):
        if (state_name := _claimed_state(lane, queue, entry)) is not None:
            turn = None
            if state_name == "running":
                try:
                    turn = running(read_state(lane.journal), lane)
                except BeamError:  # it runs all the same; `beam doctor` says what is wrong with the journal
                    turn = None
            yield OnceTurn(message_id=entry.id, state=state_name, turn=turn)
    for entry in queue.entries("new"):
        yield OnceTurn(message_id=entry.id, state="waiting")


def _claimed_state(lane: AgentPaths, queue: Queue, entry: Entry) -> Literal["running", "died"] | None:
    """Return the state of a claimed message; None if it is over, or was requeued, just now."""
    if is_held(lane.lock):
        return "running"
    return "died" if entry in queue.entries("cur") else None


def with_lanes(agent: AgentPaths, state: State) -> Sums:
    """Return the sums of the agent and its lanes. A lane whose journal is damaged counts as nothing."""
    totals, last, dead = Totals(), state.last, 0
    totals.count_in(state.totals)
    for lane in agent.lanes():
        dead += len(Queue(lane.queue, lane.put_lock).entries("dead"))
        try:
            found = read_state(lane.journal)
        except BeamError:
            continue
        totals.count_in(found.totals)
        if found.last is not None and (last is None or found.last.at > last.at):
            last = found.last
    return Sums(totals=totals, last=last, dead=dead)
