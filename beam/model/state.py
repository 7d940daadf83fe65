"""The state of one agent, computed from the events of its journal (a pure fold).

The computation uses no clock and no I/O. The same events always give the same state, byte for byte.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import UNSET, Raw, Struct, field, structs

from beam.model import events
from beam.model.events import AnyEvent, Owner
from beam.model.message import RUN_ACTOR, RuleLists
from beam.model.outcome import COST_DIGITS, Class, Status, Total, Usage
from beam.model.settings import MAX_FAILURES, is_answer, is_trouble

QUEUED, CLAIMED, STARTED, SENT, FINISHED, CLOSED, DEAD = (
    "queued",
    "claimed",
    "started",
    "sent",
    "finished",
    "closed",
    "dead",
)

REMOVED_CODE = "removed"  # the code of the notice that comes before a removed agent's messages are given up
DIED_REASON = "holder_died"  # why a message was requeued or given up: the process died that was to run it
SHORTAGE_REASON = "shortage"  # why a message was requeued: the system had no room to start its agent


class MessageRecord(Struct, kw_only=True, gc=False):
    """The state of a message according to the journal.

    `phase` is the last durable step of the current `attempt`. `outcome_seq` is the number of the event with the
    message's last outcome (turn.finished or message.dead), None if there is no outcome yet. `revision` counts edits.
    `deaths` counts the holders that died before the agent was started, and `shortages` counts the starts for which the
    operating system had no resources; a requeue for any other reason sets both to 0. `at` is the time of the message's
    last event. `is_told`: the sender waits for the outcome; False for a dead letter that was retried, because nobody
    may wait for that attempt, and for one that a dead holder left, because the sender may have died with it.
    """

    phase: str
    attempt: int = 1
    digest: str = ""
    revision: int = 0
    deaths: int = 0
    shortages: int = 0
    outcome_seq: int | None = None
    at: str = ""
    status: Status | None = None
    not_before: str | None = None
    is_told: bool = False


class Session(Struct, kw_only=True):
    """The agent's current session at its vendor.

    `turns` is the number of turns that ran in the session; `adapter` is the adapter to which it belongs. `carried` is
    the CLI's own running total of tokens, for a CLI that keeps one and reported it in the last turn; `counted` is the
    number of that turn. `upto` is the CLI's own id of a message: everything after that message was taken back, and no
    turn has continued from there yet. `told` is the digest of the system prompt that the session contains as part of
    the message of turn `told_in`.
    """

    session_id: str
    adapter: str = ""
    model: str | None = None
    cwd: str | None = None
    version: str | None = None
    started_at: str = ""
    turns: int = 0
    carried: Total | None = None
    counted: int | None = None
    upto: str | None = None
    told: str | None = None
    told_in: int | None = None


class Fork(Struct, kw_only=True):
    """The session that the agent's next turn copies. `of` is the agent that uses the original session. The copy ends
    with the message `upto` of the session; null: the whole session is copied."""

    session_id: str
    of: str
    adapter: str
    upto: str | None = None


class OpenTurn(Struct, kw_only=True):
    """The turn that is running, or that was running when its holder died.

    `processes` are the processes of the turn that the journal recorded, and `calls` counts the agent's tool calls.
    `cleared`: none of them is left, or a person said so.
    """

    turn: int
    message_id: str | None
    attempt: int
    owner: Owner
    turn_key: str
    adapter: str
    via: str
    started_at: str
    sent: bool = False
    finished: bool = False
    cleared: bool = False
    lease_until: str | None = None
    at_most: str | None = None
    rules: RuleLists | None = None
    processes: list[Owner] = []
    asks: dict[str, events.PermissionAsked] = {}
    tools: dict[str, str] = {}
    calls: int = 0


class KeptProcessRecord(Struct, kw_only=True):
    """An agent's process that is kept alive between turns.

    The turn `turn` started it, in the mode `via`. `turn_key` marks the process and every process that it started;
    `owner` is the process that keeps it. `at` is the time when it was first kept, and `until` the time until which it
    stays without a turn (null: as long as its owner lives).
    """

    pid: int
    turn: int
    turn_key: str
    owner: Owner
    processes: list[Owner] = []
    at: str = ""
    via: str = ""
    until: str | None = None


class UsageSum(Struct, kw_only=True):
    """Sums over turns. `cost_usd` is None until an agent reports a cost."""

    turns: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None

    def add(self, turns: int, usage: Usage, cost_usd: float | None) -> None:
        """Add this number of turns, this usage and this cost."""
        self.turns += turns
        self.usage = self.usage.plus(usage)
        if cost_usd is not None:
            self.cost_usd = round((self.cost_usd or 0.0) + cost_usd, COST_DIGITS)


MAX_TOOLS = 200  # tools that are counted separately; an agent may invent any number of names
OTHER_TOOLS = "(other)"


class ToolSum(Struct, kw_only=True):
    """The calls of one tool, and how many of those failed."""

    calls: int = 0
    failed: int = 0


class Totals(UsageSum, kw_only=True):
    """Sums over all turns and, for turns whose model is known, sums by model.

    `by_tool` has the calls of each tool; `retries` counts the attempts after the first, `denials` the denied requests,
    and `unsupported` the turns that asked for something the agent can't do.
    """

    by_status: dict[str, int] = {}
    by_model: dict[str, UsageSum] = {}
    by_tool: dict[str, ToolSum] = {}
    retries: int = 0
    denials: int = 0
    unsupported: int = 0

    def tool(self, name: str) -> ToolSum:
        """Return the sum of that tool. When there are too many tools already, return the sum that all further tools
        share."""
        if name not in self.by_tool and len(self.by_tool) >= MAX_TOOLS:
            name = OTHER_TOOLS
        return self.by_tool.setdefault(name, ToolSum())

    def add_totals(self, other: "Totals") -> None:
        """Add all figures of the other totals."""
        self.add(other.turns, other.usage, other.cost_usd)
        for status, count in other.by_status.items():
            self.by_status[status] = self.by_status.get(status, 0) + count
        for model, share in other.by_model.items():
            self.by_model.setdefault(model, UsageSum()).add(share.turns, share.usage, share.cost_usd)
        for name, tool in other.by_tool.items():
            own = self.tool(name)
            own.calls, own.failed = own.calls + tool.calls, own.failed + tool.failed
        self.retries += other.retries
        self.denials += other.denials
        self.unsupported += other.unsupported


class OutcomeRecord(Struct, kw_only=True):
    """The last outcome of the agent."""

    message_id: str | None
    turn: int | None
    status: Status
    class_: Class | None = None
    reason: str | None = None
    at: str = ""


class State(Struct, kw_only=True):
    """Everything about an agent that the next holder and every reader need. It is available without reading more than
    one segment.

    `archived` are the last 50 archived session ids; `failures` are the times of the latest failures, empty after an
    answer; `answered` are the last 50 requests to the holder that were carried out or refused. `places` has the queue
    position of each message that is not over. The position is part of the name of the message's file, so the file is
    found without a search. `left_out` is the last notice about untrusted files that the agent's CLI is kept from.
    `of_run`: a scenario sent the last message. `missed`: another agent answered a message that this agent's session
    does not know; `heard` is the number of the last outcome that it knows.
    """

    v: int = 1
    agent: str = ""
    seq: int = 0
    ts: str = ""
    turn: int = 0
    session: Session | None = None
    fork: Fork | None = None
    open_turn: OpenTurn | None = None
    kept: KeptProcessRecord | None = None
    blocked: str | None = None
    paused: bool = False
    failures: list[str] = []
    circuit_until: str | None = None
    missed: bool = False
    heard: int = 0
    archived: list[str] = []
    known: dict[str, MessageRecord] = {}
    totals: Totals = field(default_factory=Totals)
    last: OutcomeRecord | None = None
    answered: list[str] = []
    places: dict[str, int] = {}
    left_out: str = ""
    of_run: bool = False

    @property
    def activity(self) -> str:
        """Return the state in one word: `idle`, `running` (also until the reply is routed), `waiting` (a permission
        request is open) or `blocked`."""
        if self.blocked:
            return "blocked"
        if self.open_turn is None:
            return "idle"
        return "waiting" if self.open_turn.asks and not self.open_turn.finished else "running"

    def is_over(self) -> bool:
        """Return whether no turn is open and every message that the journal knows is closed or a dead letter."""
        return self.open_turn is None and all(known.phase in (CLOSED, DEAD) for known in self.known.values())


def fold(state: State, later: Iterable[AnyEvent]) -> None:
    """Apply the events to the state, in place."""
    for event in later:
        apply(state, event)


def apply(state: State, event: AnyEvent) -> None:
    """Apply the event to the state, in place."""
    state.seq = event.seq
    state.ts = event.ts
    step = _HANDLERS.get(type(event))
    if step is not None:
        step(state, event)


def forget_old_messages(state: State, before_ts: str) -> None:
    """Remove messages that are over and had their last event before that time, so that snapshots stay small."""
    for message_id, known in list(state.known.items()):
        if known.phase in (CLOSED, DEAD) and known.at < before_ts:
            del state.known[message_id]


def _message_record(state: State, event: events.Event) -> MessageRecord | None:
    if event.message_id is None:
        return None
    known = state.known.get(event.message_id)
    if known is None:
        known = state.known[event.message_id] = MessageRecord(phase=QUEUED)
    known.at = event.ts
    return known


def _on_message_queued(state: State, event: events.MessageQueued) -> None:
    known = _message_record(state, event)
    state.of_run = event.actor is not None and event.actor.startswith(RUN_ACTOR)
    if known is not None:
        known.is_told = event.reply == "wait"
        known.digest, known.revision = event.digest, event.revision
        if event.message_id is not None and event.position:
            state.places[event.message_id] = event.position


def _on_message_claimed(state: State, event: events.MessageClaimed) -> None:
    known = _message_record(state, event)
    if known is not None:
        known.phase, known.attempt = CLAIMED, event.attempt


def _on_message_requeued(state: State, event: events.MessageRequeued) -> None:
    if event.reason == "retry":
        state.totals.retries += 1
    known = _message_record(state, event)
    if known is not None:
        if event.reason == DIED_REASON:
            known.deaths += 1
        elif event.reason == SHORTAGE_REASON:
            known.shortages += 1
        else:
            known.deaths = known.shortages = 0
        known.is_told = known.is_told and known.phase != DEAD
        known.phase, known.attempt, known.not_before = QUEUED, event.attempt, event.not_before
    if state.open_turn is not None and state.open_turn.message_id == event.message_id:
        state.open_turn = None


def _on_message_dead(state: State, event: events.MessageDead) -> None:
    if event.reason == "id_reused":
        return  # that file is another message with the same id
    known = _message_record(state, event)
    if known is None:
        return
    if known.outcome_seq is None or known.phase not in (FINISHED, CLOSED) or known.attempt != event.attempt:
        known.outcome_seq, known.status = event.seq, event.status
        state.last = OutcomeRecord(
            message_id=event.message_id,
            turn=event.turn,
            status=event.status,
            class_=event.class_,
            reason=event.detail or event.reason,
            at=event.ts,
        )
    known.phase, known.attempt = DEAD, event.attempt
    known.is_told = known.is_told and event.reason != DIED_REASON and event.status is not Status.UNKNOWN
    state.places.pop(event.message_id or "", None)
    if state.open_turn is not None and state.open_turn.message_id == event.message_id:
        state.open_turn = None


def _on_session_started(state: State, event: events.SessionStarted) -> None:
    adapter = state.open_turn.adapter if state.open_turn is not None else ""
    before = state.session
    same = before if before is not None and event.resumed else Session(session_id="", started_at=event.ts)
    state.fork = None
    state.session = structs.replace(
        same,
        session_id=event.session_id,
        adapter=adapter or (before.adapter if before else ""),
        model=event.model or same.model,
        cwd=event.cwd,
        version=event.version,
    )
    if event.system is not UNSET:
        state.session.told, state.session.told_in = event.system, event.turn


def _on_usage_seen(state: State, event: events.UsageSeen) -> None:
    if state.session is not None and event.total is not None:
        state.session.carried, state.session.counted = event.total, event.turn


def _on_session_gone(state: State, event: events.SessionLost | events.SessionArchived) -> None:
    if isinstance(event, events.SessionArchived):
        state.archived = [*state.archived[-49:], event.session_id]
    if state.session is not None and state.session.session_id == event.session_id:
        state.session = None
    if state.fork is not None and state.fork.session_id == event.session_id:
        state.fork = None


def _on_session_forked(state: State, event: events.SessionForked) -> None:
    state.session = None
    upto = None if event.upto is UNSET else event.upto
    state.fork = Fork(session_id=event.session_id, of=event.of, adapter=event.adapter, upto=upto)


def _on_session_rewound(state: State, event: events.SessionRewound) -> None:
    if state.session is not None and state.session.session_id == event.session_id:
        state.session.upto, state.session.carried, state.session.told = event.upto, None, None


def _on_session_selected(state: State, event: events.SessionSelected) -> None:
    state.fork = None
    state.session = Session(session_id=event.session_id, adapter=event.adapter, started_at=event.ts)
    state.archived = [archived for archived in state.archived if archived != event.session_id]


def _on_turn_started(state: State, event: events.TurnStarted) -> None:
    state.turn = event.turn or state.turn + 1
    state.blocked = None
    state.open_turn = OpenTurn(
        turn=state.turn,
        message_id=event.message_id,
        attempt=event.attempt,
        owner=event.owner,
        turn_key=event.turn_key,
        adapter=event.adapter,
        via=event.via,
        started_at=event.ts,
        lease_until=event.lease_until,
        at_most=event.at_most,
        rules=None if event.rules is UNSET else event.rules,
        processes=[],
        asks={},
        tools={},
    )
    known = _message_record(state, event)
    if known is not None:
        known.phase, known.attempt = STARTED, event.attempt


def _on_agent_started(state: State, event: events.AgentStarted) -> None:
    if state.open_turn is not None:
        owner = state.open_turn.owner
        for pid, ticks in ((event.guard_pid, event.guard_start_ticks), (event.pid, event.start_ticks)):
            state.open_turn.processes.append(
                Owner(
                    pid=pid,
                    start_ticks=ticks,
                    boot_id=owner.boot_id,
                    pid_namespace=owner.pid_namespace,
                    host=owner.host,
                )
            )


def _on_agent_kept(state: State, event: events.AgentKept) -> None:
    turn = state.open_turn
    if turn is not None and (state.kept is None or state.kept.pid != event.pid):
        state.kept = KeptProcessRecord(
            pid=event.pid,
            turn=turn.turn,
            turn_key=turn.turn_key,
            owner=turn.owner,
            processes=list(turn.processes),
            at=event.ts,
            via=turn.via,
        )
    if state.kept is not None:
        state.kept.until = event.until


def _on_agent_exited(state: State, event: events.AgentExited) -> None:
    if state.kept is not None and state.kept.pid == event.pid:
        state.kept = None
    if state.open_turn is not None:
        state.open_turn.processes.clear()


def _on_prompt_sent(state: State, event: events.PromptSent) -> None:
    if state.open_turn is not None:
        state.open_turn.sent = True
    known = _message_record(state, event)
    if known is not None:
        known.phase = SENT


def _add_by_model(totals: Totals, event: events.TurnFinished) -> None:
    """Count the turn under its model. Add the turn's usage and cost to the models that they belong to."""
    if event.model is not None:
        own = totals.by_model.setdefault(event.model, UsageSum())
        own.turns += 1
        if event.models is None:
            own.add(0, event.usage, event.cost_usd)
    for share in event.models or ():
        totals.by_model.setdefault(share.model, UsageSum()).add(0, share.usage, share.cost_usd)


def _on_turn_finished(state: State, event: events.TurnFinished) -> None:
    known = _message_record(state, event)
    if known is not None:
        known.phase, known.attempt = FINISHED, event.attempt
        known.outcome_seq, known.status = event.seq, event.status
    totals = state.totals
    if event.turn is not None:
        totals.add(1, event.usage, event.cost_usd)
        _add_by_model(totals, event)
        if state.session is not None and state.session.session_id == event.session_id:
            state.session.turns += 1
            if event.point is not UNSET and event.point.ends is not None:  # the session went on from there
                state.session.upto = None
            state.session.model = event.model or state.session.model
            if state.session.counted != event.turn:  # the CLI's next total may include this turn or not
                state.session.carried = None
            if state.session.told_in == event.turn and not is_answer(event.status):  # some CLIs forget such a message
                state.session.told = None
    totals.denials += len(event.denials or ())
    totals.unsupported += event.class_ is Class.UNSUPPORTED
    totals.by_status[event.status] = totals.by_status.get(event.status, 0) + 1
    is_own = event.stand_in is UNSET or event.stand_in.agent == event.agent
    if not is_own:
        state.missed = state.missed or is_answer(event.status)
    elif is_answer(event.status):
        state.failures, state.missed, state.heard = [], False, event.seq
    elif is_trouble(event.status, event.class_):
        state.failures = [*state.failures[1 - MAX_FAILURES :], event.ts]
    state.last = OutcomeRecord(
        message_id=event.message_id,
        turn=event.turn,
        status=event.status,
        class_=event.class_,
        reason=event.reason,
        at=event.ts,
    )
    if state.open_turn is not None and state.open_turn.message_id == event.message_id:
        state.open_turn.finished = True
        state.open_turn.asks = {}


def _on_turn_closed(state: State, event: events.TurnClosed) -> None:
    known = _message_record(state, event)
    if known is not None and known.phase != DEAD:
        known.phase, known.attempt = CLOSED, event.attempt
        state.places.pop(event.message_id or "", None)
    if state.open_turn is not None and state.open_turn.message_id == event.message_id:
        state.open_turn = None


def _on_permission_asked(state: State, event: events.PermissionAsked) -> None:
    if state.open_turn is not None:
        state.open_turn.asks[event.ask_id] = event


def _on_permission_decided(state: State, event: events.PermissionDecided) -> None:
    if state.open_turn is not None:
        state.open_turn.asks.pop(event.ask_id, None)


def _on_tool_called(state: State, event: events.ToolCalled) -> None:
    if state.open_turn is not None:
        state.open_turn.calls += 1
        if event.call_id not in state.open_turn.tools:
            state.totals.tool(event.name).calls += 1
        state.open_turn.tools[event.call_id] = event.name


def _on_tool_returned(state: State, event: events.ToolReturned) -> None:
    if state.open_turn is not None:
        name = state.open_turn.tools.pop(event.call_id, None)
        if name is not None and event.is_error:
            state.totals.tool(name).failed += 1


def _on_control_done(state: State, event: events.ControlDone) -> None:
    state.answered = [*state.answered[-49:], event.control_id]


def _on_notice(state: State, event: events.Notice) -> None:
    if event.code == "blocked":
        state.blocked = event.text
    elif event.code == "unblocked":
        state.blocked = None
        state.kept = None
        if state.open_turn is not None:
            state.open_turn.cleared = True
    elif event.code == "left_out":
        state.left_out = event.text


def _on_queue_paused_or_resumed(state: State, event: events.QueuePaused | events.QueueResumed) -> None:
    state.paused = isinstance(event, events.QueuePaused)


def _on_circuit_changed(state: State, event: events.CircuitOpened | events.CircuitClosed) -> None:
    state.circuit_until = event.until if isinstance(event, events.CircuitOpened) else None


_HANDLERS: dict[type[events.Event], Callable[[State, Any], None]] = {
    events.MessageQueued: _on_message_queued,
    events.UsageSeen: _on_usage_seen,
    events.MessageClaimed: _on_message_claimed,
    events.MessageRequeued: _on_message_requeued,
    events.MessageDead: _on_message_dead,
    events.SessionStarted: _on_session_started,
    events.SessionLost: _on_session_gone,
    events.SessionArchived: _on_session_gone,
    events.SessionForked: _on_session_forked,
    events.SessionRewound: _on_session_rewound,
    events.SessionSelected: _on_session_selected,
    events.TurnStarted: _on_turn_started,
    events.AgentStarted: _on_agent_started,
    events.AgentKept: _on_agent_kept,
    events.AgentExited: _on_agent_exited,
    events.PromptSent: _on_prompt_sent,
    events.TurnFinished: _on_turn_finished,
    events.TurnClosed: _on_turn_closed,
    events.PermissionAsked: _on_permission_asked,
    events.PermissionDecided: _on_permission_decided,
    events.ToolCalled: _on_tool_called,
    events.ToolReturned: _on_tool_returned,
    events.ControlDone: _on_control_done,
    events.Notice: _on_notice,
    events.QueuePaused: _on_queue_paused_or_resumed,
    events.CircuitOpened: _on_circuit_changed,
    events.CircuitClosed: _on_circuit_changed,
    events.QueueResumed: _on_queue_paused_or_resumed,
}


class Snapshot(Struct, kw_only=True, tag="snapshot", tag_field="type"):
    """The first line of a segment: the state after all events before it, so that no older segment must be read.

    `previous` is the name of the previous segment, null for the first one, and `after` is the hash of its last line.
    `state` has the messages that are not over, and the messages that ended in the last 30 days (`known_ids_days`).
    """

    v: int = 1
    agent: str
    ts: str
    previous: str | None
    last_seq: int
    after: str = ""
    state: Raw
