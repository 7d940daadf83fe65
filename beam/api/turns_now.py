"""Returns running turns, kept processes, and unfinished `--once` messages as values. Reading takes no locks.

Whether the worker of a lane is alive is decided by the lane's lock, because the journal of a dead worker also looks
active.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Raw, Struct

from beam.base.errors import BeamError
from beam.model.events import AnyEvent, ToolCalled, ToolReturned, TurnStarted, UsageSeen
from beam.model.outcome import Usage
from beam.model.state import DEAD, OutcomeRecord, State, Totals
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.store.lock import is_held
from beam.store.queue import Entry, Queue
from beam.store.segment import Segment, read_state, segments


class OpenAsk(Struct, frozen=True, kw_only=True):
    """An open ask of a running turn (`beam asks` has the details); it is denied at `expires` (RFC 3339)."""

    id: str
    tool: str
    expires: str | None = None


class OpenCall(Struct, frozen=True, kw_only=True):
    """A tool call that has not returned; `since` is RFC 3339."""

    name: str
    input: Raw
    since: str


class Running(Struct, frozen=True, kw_only=True):
    """The running turn, until its reply is routed. `alive`: whether its holder lives (null: it is on another host).
    `processes` counts the agent's processes, including its guard and everything that it started; `rss_mb` is the memory
    of these processes; each is null if unknown. `call` is the last tool call, if it is open; `usage` and `cost_usd` are
    the CLI's figures so far."""

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
    """An agent's process that stays alive between turns. `via` is its mode; `turn` is the turn that started it; `since`
    is when it was first kept; `until` is when it ends if no turn comes (null: when its holder ends). `holder` is the
    pid of the process that keeps it, `host` that process's host. `processes` and `rss_mb` are as in `Running`."""

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
    """An unfinished `--once` message. `state`: waiting, running, or died (its worker died, and no other worker took
    over yet). `turn` is set while it runs."""

    message_id: str
    state: Literal["waiting", "running", "died"]
    turn: Running | None = None


class AgentSums(Struct, frozen=True, kw_only=True):
    """Sums over an agent and its lanes: totals, the newest outcome, and the number of unseen dead letters in its
    lanes."""

    totals: Totals
    last: OutcomeRecord | None
    dead: int


def begun(paths: AgentPaths) -> list[AnyEvent]:
    """Return the events of the running turn so far; an empty list if no turn runs, or if the journal can't be read."""
    try:
        names = segments(paths.journal)
        found = Segment.read(paths.journal / names[-1]) if names else None  # a turn is complete in one segment
    except (BeamError, OSError):
        return []
    if found is None:
        return []
    start = next((at for at, event in reversed(list(enumerate(found.events))) if isinstance(event, TurnStarted)), None)
    return [] if start is None else found.events[start:]


def running_turn(state: State, paths: AgentPaths) -> Running | None:
    """Return the running turn, according to the journal; None if there is none."""
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
    loads = load.load_of_trees(turn.processes)
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


def kept_process(state: State) -> KeptProcess | None:
    """Return the agent's kept process; None if there is none, or if its holder died, because the next holder ends such
    a process first."""
    from beam.process import load, tree

    found = state.kept
    if found is None or tree.is_alive(found.owner) is False:
        return None
    loads = load.load_of_trees(found.processes)
    return KeptProcess(
        pid=found.pid,
        via=found.via,
        turn=found.turn,
        since=found.at,
        until=found.until,
        holder=found.owner.pid,
        host=found.owner.host,
        processes=loads.processes if loads is not None else None,
        rss_mb=round(loads.rss_bytes / 2**20, 1) if loads is not None else None,
    )


def is_worked_on(paths: AgentPaths, state: State) -> bool:
    """Return whether the claimed message is being worked on, either by a living holder or by whoever has the lease of
    the mailbox's message."""
    from beam.process import tree

    turn = state.open_turn
    if turn is not None and turn.lease_until is not None:
        return True
    if paths.lane is not None:
        return is_held(paths.lock)
    return turn is None or tree.is_alive(turn.owner) is not False


def once_turns(agent: AgentPaths) -> list[OnceTurn]:
    """Return the agent's unfinished `--once` messages, the oldest first."""
    return [turn for lane in lanes.indexed_lanes(agent) for turn in _once_turns_in(lane)]


def _once_turns_in(lane: AgentPaths) -> Iterator[OnceTurn]:
    queue = Queue(lane.queue, lane.put_lock)
    for entry in queue.entries("cur"):
        if (state_name := _claimed_state(lane, queue, entry)) is not None:
            turn = None
            if state_name == "running":
                try:
                    turn = running_turn(read_state(lane.journal), lane)
                except BeamError:  # it runs all the same; `beam doctor` says what is wrong with the journal
                    turn = None
            yield OnceTurn(message_id=entry.id, state=state_name, turn=turn)
    for entry in queue.entries("new"):
        yield OnceTurn(message_id=entry.id, state="waiting")


def _claimed_state(lane: AgentPaths, queue: Queue, entry: Entry) -> Literal["running", "died"] | None:
    """Return the state of a claimed message; None if it has just ended or was just requeued."""
    if is_held(lane.lock):
        return "running"
    return "died" if entry in queue.entries("cur") else None


def count_unseen(paths: AgentPaths, state: State | None, since_ts: str) -> int:
    """Return the number of dead letters that a person may not know of: nobody waited for the outcome, and the message
    ended at `since_ts` or later. If the journal is damaged (`state` is None), all dead letters count."""
    entries = Queue(paths.queue, paths.put_lock).entries("dead")
    if state is None:
        return len(entries)
    found = [known for entry in entries if (known := state.known.get(entry.id)) is not None]
    return sum(known.at >= since_ts and not (known.phase == DEAD and known.is_told) for known in found)


def sums_with_lanes(agent: AgentPaths, state: State, since_ts: str) -> AgentSums:
    """Return the sums of the agent and its lanes. Of a lane with a damaged journal, only the dead letters count.
    `since_ts` is as in `count_unseen`."""
    totals, last, dead = Totals(), state.last, 0
    totals.add_totals(state.totals)
    for lane in agent.lanes():
        try:
            found = read_state(lane.journal)
        except BeamError:
            dead += count_unseen(lane, None, since_ts)
            continue
        dead += count_unseen(lane, found, since_ts)
        totals.add_totals(found.totals)
        if found.last is not None and (last is None or found.last.at > last.at):
            last = found.last
    return AgentSums(totals=totals, last=last, dead=dead)
