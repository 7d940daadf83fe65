"""The fold: pure, repeatable, and the same whether it begins at the start or at a snapshot."""

from __future__ import annotations

import gc
import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType, structs

from beam.base.clock import rfc3339
from beam.model import events
from beam.model.events import AnyEvent, Owner
from beam.model.outcome import Class, Denial, ModelUsage, Point, Status, Total, Usage
from beam.model.settings import MAX_FAILURES
from beam.model.state import (
    CLOSED,
    DEAD,
    FINISHED,
    MAX_TOOLS,
    OTHER_TOOLS,
    QUEUED,
    SENT,
    State,
    Totals,
    apply,
    forget_old_messages,
)
from tests.support.folded import fold

OWNER = Owner(pid=1, start_ticks=2, boot_id="b", pid_namespace="n", host="h")
ids = st.sampled_from(["a-1", "a-2", "a-3"])
attempts = st.integers(1, 3)
statuses = st.sampled_from(list(Status))
sessions = st.sampled_from(["s1", "s2"])
words = st.text(max_size=5)
BODIES = st.one_of(
    st.builds(events.MessageQueued, sender=words, text=words, digest=words, revision=st.integers(0, 2)),
    st.builds(events.MessageClaimed, attempt=attempts),
    st.builds(events.MessageRequeued, attempt=attempts, reason=st.sampled_from(["holder_died", "retry", "lease_over"])),
    st.builds(
        events.MessageDead,
        attempt=attempts,
        reason=st.sampled_from(["dropped", "id_reused", "failed"]),
        status=statuses,
    ),
    st.builds(events.SessionStarted, session_id=sessions, resumed=st.booleans(), model=st.none() | words),
    st.builds(events.SessionLost, session_id=sessions),
    st.builds(events.SessionArchived, session_id=sessions),
    st.builds(events.SessionForked, session_id=sessions, of=words, adapter=words),
    st.builds(events.SessionRewound, session_id=sessions, upto=words),
    st.builds(events.SessionSelected, session_id=sessions, adapter=words),
    st.builds(
        events.TurnStarted,
        attempt=attempts,
        owner=st.just(OWNER),
        turn_key=words,
        adapter=words,
        via=words,
        lease_until=st.none() | st.just("2026-01-01T00:00:00.000000Z"),
    ),
    st.builds(
        events.AgentStarted, pid=st.just(5), start_ticks=st.just(6), guard_pid=st.just(7), guard_start_ticks=st.just(8)
    ),
    st.builds(events.AgentKept, pid=st.just(5)),
    st.builds(events.AgentExited, pid=st.none() | st.just(5)),
    st.builds(
        events.UsageSeen,
        usage=st.just(Usage()),
        total=st.none() | st.builds(Total, input_tokens=st.none() | st.integers(0, 9)),
    ),
    st.builds(events.PromptSent),
    st.builds(
        events.TurnFinished,
        attempt=attempts,
        status=statuses,
        session_id=st.none() | sessions,
        usage=st.builds(Usage, input_tokens=st.none() | st.integers(0, 9)),
        cost_usd=st.none() | st.floats(0, 1),
    ),
    st.builds(events.TurnClosed, attempt=attempts),
    st.builds(events.PermissionAsked, ask_id=words, tool=words, input=st.just(msgspec.Raw(b'{"a":1}'))),
    st.builds(events.PermissionDecided, ask_id=words, decision=st.just("allow")),
    st.builds(events.ToolCalled, call_id=words, name=words),
    st.builds(events.ToolReturned, call_id=words),
    st.builds(events.Notice, text=words, code=st.sampled_from(["blocked", "unblocked", "torn", ""])),
    st.builds(events.ControlDone, control_id=words),
    st.builds(events.Unknown, what=words, raw=words),
)


@st.composite
def journals(draw: st.DrawFn) -> list[AnyEvent]:
    drawn = draw(st.lists(st.tuples(BODIES, st.none() | ids, st.none() | st.integers(1, 4)), max_size=25))
    return [
        structs.replace(body, seq=seq, ts=rfc3339(seq * 10**9), agent="a", turn=turn, message_id=message_id)
        for seq, (body, message_id, turn) in enumerate(drawn, 1)
    ]


def encoded(state: State) -> bytes:
    return msgspec.json.encode(state)


@pytest.mark.slow
@given(journals())
@settings(max_examples=30)
def test_folding_twice_gives_the_same_bytes(journal: list[AnyEvent]) -> None:
    assert encoded(fold(State(agent="a"), journal)) == encoded(fold(State(agent="a"), journal))


@pytest.mark.slow
@given(journals(), st.integers(0, 25))
@settings(max_examples=30)
def test_a_snapshot_and_its_tail_equal_the_whole_fold(journal: list[AnyEvent], cut: int) -> None:
    state = fold(State(agent="a"), journal[:cut])
    restored = msgspec.json.decode(encoded(state), type=State)
    assert encoded(fold(restored, journal[cut:])) == encoded(fold(State(agent="a"), journal))


@pytest.mark.slow
@given(journals())
@settings(max_examples=30)
def test_events_read_back_from_json_fold_to_the_same_state(journal: list[AnyEvent]) -> None:
    again = [events.decode(events.encode(event)) for event in journal if not isinstance(event, events.Unknown)]
    plain = [event for event in journal if not isinstance(event, events.Unknown)]
    assert encoded(fold(State(agent="a"), again)) == encoded(fold(State(agent="a"), plain))


def state_after(*bodies: events.Event, message_id: str = "a-1", turn: int = 1) -> State:
    state = State(agent="a")
    for seq, body in enumerate(bodies, 1):
        apply(state, structs.replace(body, seq=seq, ts=rfc3339(seq), agent="a", turn=turn, message_id=message_id))  # type: ignore[arg-type]
    return state


STARTED = events.TurnStarted(owner=OWNER, turn_key="k", adapter="command", via="exec")
QUEUED_EVENT = events.MessageQueued(sender="human", digest="d")


def test_a_message_goes_through_its_phases() -> None:
    way = [QUEUED_EVENT, events.MessageClaimed(), STARTED, events.PromptSent()]
    assert state_after(*way[:1]).known["a-1"].phase == QUEUED
    assert state_after(*way).known["a-1"].phase == SENT
    finished = state_after(*way, events.TurnFinished(status=Status.COMPLETED))
    assert (finished.known["a-1"].phase, finished.known["a-1"].outcome_seq, finished.activity) == (
        FINISHED,
        5,
        "running",
    )
    closed = state_after(*way, events.TurnFinished(status=Status.COMPLETED), events.TurnClosed())
    assert (closed.known["a-1"].phase, closed.open_turn, closed.activity) == (CLOSED, None, "idle")


def test_the_place_of_a_message_in_its_queue_is_known_until_it_is_over() -> None:
    queued = events.MessageQueued(sender="human", digest="d", position=7)
    way = [queued, events.MessageClaimed(), STARTED, events.TurnFinished(status=Status.COMPLETED)]
    assert state_after(*way).places == {"a-1": 7}
    assert state_after(*way, events.TurnClosed()).places == {}
    assert state_after(queued, events.MessageDead(reason="expired")).places == {}
    assert state_after(QUEUED_EVENT).places == {}, "the line does not say where"


def test_a_dead_letter_after_its_turn_keeps_the_outcome_of_the_turn() -> None:
    finished = events.TurnFinished(status=Status.FAILED, reason="why")
    state = state_after(STARTED, finished, events.TurnClosed(), events.MessageDead(reason="failed"))
    assert (state.known["a-1"].phase, state.known["a-1"].outcome_seq) == (DEAD, 2)
    assert state.last is not None
    assert state.last.reason == "why"


WAITED = events.MessageQueued(sender="human", digest="d", reply="wait")
FAILED = events.MessageDead(reason="failed")
RETRIED = events.MessageRequeued(attempt=2, reason="retry")


@pytest.mark.parametrize(
    ("way", "is_told"),
    [
        ((WAITED, FAILED), True),
        ((WAITED, events.MessageDead(reason="expired", status=Status.TIMEOUT)), True),
        ((QUEUED_EVENT, FAILED), False),
        ((structs.replace(QUEUED_EVENT, reply="queue"), FAILED), False),
        ((WAITED, STARTED, RETRIED, structs.replace(FAILED, attempt=2)), True),  # by the policy: the sender waits on
        ((WAITED, FAILED, RETRIED, structs.replace(FAILED, attempt=2)), False),
        ((WAITED, events.MessageDead(reason="holder_died", status=Status.CANCELLED)), False),
        ((WAITED, events.MessageDead(reason="unknown", status=Status.UNKNOWN)), False),
        ((events.MessageDead(reason="corrupt"),), False),
    ],
)
def test_the_sender_of_a_dead_letter_is_told_if_it_waited(way: tuple[events.Event, ...], is_told: bool) -> None:
    known = state_after(*way).known["a-1"]
    assert (known.phase, known.is_told) == (DEAD, is_told)


def test_the_last_message_says_whether_an_agent_is_one_of_a_scenario() -> None:
    by_run = structs.replace(WAITED, actor="run gate")
    assert [state_after(*way).of_run for way in ((by_run,), (by_run, WAITED), (WAITED, by_run))] == [True, False, True]
    assert not state_after(structs.replace(WAITED, actor="runner")).of_run


def test_a_file_that_reuses_an_id_changes_nothing_of_the_message_that_has_it() -> None:
    before = state_after(QUEUED_EVENT, events.MessageClaimed(), STARTED, events.PromptSent())
    dead = structs.replace(events.MessageDead(reason="id_reused"), seq=5, ts="x", agent="a", message_id="a-1")
    after = fold(before, [dead])
    assert after.known == before.known
    assert after.open_turn == before.open_turn


def test_only_deaths_in_a_row_are_counted() -> None:
    died = events.MessageRequeued(attempt=1, reason="holder_died")
    assert state_after(died, died).known["a-1"].deaths == 2
    assert state_after(died, died, events.MessageRequeued(attempt=2, reason="retry")).known["a-1"].deaths == 0


def test_shortages_are_counted_beside_deaths_until_the_message_is_tried_anew() -> None:
    died = events.MessageRequeued(attempt=1, reason="holder_died")
    short = events.MessageRequeued(attempt=1, reason="shortage", not_before="2026-01-01T00:00:00Z")
    known = state_after(STARTED, events.PromptSent(), short, died, short).known["a-1"]
    assert (known.phase, known.shortages, known.deaths, known.not_before) == (QUEUED, 2, 1, short.not_before)
    known = state_after(short, died, events.MessageRequeued(attempt=2, reason="retry")).known["a-1"]
    assert (known.shortages, known.deaths) == (0, 0)


def test_the_clis_own_running_total_goes_with_its_session_and_into_no_other() -> None:
    total = Total(input_tokens=90, output_tokens=7)
    counted = [events.SessionStarted(session_id="s1"), events.UsageSeen(usage=total, total=total)]
    resumed = [events.SessionStarted(resumed=True, session_id="s1"), events.UsageSeen(usage=Usage(input_tokens=1))]
    after = state_after(STARTED, *counted, *resumed).session
    assert after is not None and after.carried == total
    for other in (events.SessionStarted(session_id="s2"), events.SessionLost(session_id="s1")):
        session = state_after(STARTED, *counted, other).session
        assert session is None or session.carried is None


def test_a_session_knows_the_system_prompt_of_a_message_that_was_answered_and_of_no_other() -> None:
    told = events.SessionStarted(session_id="s1", system="d1")
    ended = events.TurnFinished(status=Status.COMPLETED, session_id="s1")
    stopped = events.TurnFinished(status=Status.CANCELLED, session_id="s1")
    resumed = events.SessionStarted(resumed=True, session_id="s1")
    changed = events.SessionStarted(resumed=True, session_id="s1", system="d2")
    rewound = events.SessionRewound(session_id="s1", upto="m")
    for bodies, known in (
        ((told, ended), "d1"),
        ((told, stopped), None),
        ((told, ended, resumed, ended), "d1"),
        ((told, ended, changed, ended), "d2"),
        ((told, ended, rewound), None),
        ((told, ended, events.SessionStarted(session_id="s2")), None),
    ):
        session = state_after(STARTED, *bodies).session
        assert session is not None and session.told == known, bodies


def test_a_turn_that_told_no_total_leaves_nobody_to_know_what_the_cli_counts_from() -> None:
    begun = (STARTED, events.SessionStarted(session_id="s1"))
    told = events.UsageSeen(usage=Usage(), total=Total(input_tokens=90))
    ended = events.TurnFinished(status=Status.COMPLETED, session_id="s1")
    for bodies, carried in (((told, ended), told.total), ((told, ended, ended), told.total), ((ended,), None)):
        session = state_after(*begun, *bodies).session
        assert session is not None and session.carried == carried
    state = state_after(*begun, told, ended)
    later = structs.replace(ended, seq=state.seq + 1, ts="", agent="a", turn=9, message_id="a-2")
    session = fold(state, [later]).session
    assert session is not None and session.carried is None


def test_figures_by_model_count_for_each_model_and_the_turn_for_the_one_that_answered() -> None:
    models = (
        ModelUsage(model="big", usage=Usage(input_tokens=5, calls=1), cost_usd=0.2),
        ModelUsage(model="small", usage=Usage(input_tokens=1, calls=1), cost_usd=0.1),
    )
    used = Usage(input_tokens=6, calls=2)
    ended = events.TurnFinished(status=Status.COMPLETED, model="big", usage=used, cost_usd=0.3, models=models)
    totals = state_after(STARTED, ended).totals
    assert {name: (one.turns, one.usage, one.cost_usd) for name, one in totals.by_model.items()} == {
        "big": (1, models[0].usage, 0.2),
        "small": (0, models[1].usage, 0.1),
    }


def test_recorded_processes_are_the_guard_and_the_agent_until_they_are_gone() -> None:
    begun = events.AgentStarted(pid=5, start_ticks=6, guard_pid=7, guard_start_ticks=8)
    state = state_after(STARTED, begun)
    assert state.open_turn is not None
    assert [(owner.pid, owner.start_ticks, owner.host) for owner in state.open_turn.processes] == [
        (7, 8, "h"),
        (5, 6, "h"),
    ]
    gone = state_after(STARTED, begun, events.AgentExited(code=0))
    assert gone.open_turn is not None
    assert gone.open_turn.processes == []


def test_a_kept_process_is_known_from_turn_to_turn_until_it_exits() -> None:
    begun = events.AgentStarted(pid=5, start_ticks=6, guard_pid=7, guard_start_ticks=8)
    kept = (STARTED, begun, events.AgentKept(pid=5), events.TurnFinished(status=Status.COMPLETED), events.TurnClosed())
    state = state_after(*kept)
    assert state.open_turn is None and state.kept is not None
    assert (state.kept.pid, state.kept.turn, [owner.pid for owner in state.kept.processes]) == (5, 1, [7, 5])
    again = state_after(*kept, STARTED, msgspec.structs.replace(begun, since=1), events.AgentKept(pid=5))
    assert again.kept == state.kept
    assert state_after(*kept, events.AgentExited(pid=5)).kept is None
    assert state_after(*kept, events.AgentExited(pid=4)).kept == state.kept
    assert state_after(*kept, events.Notice(code="unblocked", text="")).kept is None


@pytest.mark.parametrize("ended", [events.TurnClosed(), events.MessageDead(reason="dropped")])
def test_what_ended_long_ago_is_forgotten_and_what_is_open_is_not(ended: events.Event) -> None:
    state = state_after(QUEUED_EVENT, ended)
    forget_old_messages(state, rfc3339(2))
    assert "a-1" in state.known
    forget_old_messages(state, "9")
    assert state.known == {}
    waiting = state_after(QUEUED_EVENT)
    forget_old_messages(waiting, "9")
    assert "a-1" in waiting.known


def test_the_word_for_a_state() -> None:
    asked = events.PermissionAsked(ask_id="q", tool="t")
    assert State().activity == "idle"
    assert state_after(STARTED).activity == "running"
    assert state_after(STARTED, asked).activity == "waiting"
    assert state_after(STARTED, asked, events.PermissionDecided(ask_id="q", decision="cancelled")).activity == "running"
    assert state_after(STARTED, events.Notice(text="why", code="blocked")).activity == "blocked"


def test_a_fork_is_over_with_its_first_session_or_when_it_is_put_aside_or_lost() -> None:
    forked = events.SessionForked(session_id="s1", of="coder", adapter="codex")
    waiting = state_after(forked)
    assert waiting.fork is not None and waiting.session is None
    begun = state_after(forked, events.SessionStarted(session_id="s2"))
    assert begun.fork is None and begun.session is not None and begun.session.session_id == "s2"
    assert state_after(forked, events.SessionArchived(session_id="s1")).fork is None
    assert state_after(forked, events.SessionLost(session_id="s1")).fork is None
    assert state_after(forked, events.SessionLost(session_id="other")).fork is not None


def test_a_chosen_session_is_the_current_one_and_answers_to_it_are_taken_again() -> None:
    aside = events.SessionArchived(session_id="s1")
    state = state_after(events.SessionStarted(session_id="s1"), aside, events.SessionStarted(session_id="s2"))
    assert state.archived == ["s1"]
    chosen = (events.SessionArchived(session_id="s2"), events.SessionSelected(session_id="s1", adapter="claude"))
    state = state_after(events.SessionStarted(session_id="s1"), aside, events.SessionStarted(session_id="s2"), *chosen)
    assert state.archived == ["s2"] and state.fork is None
    assert state.session is not None and (state.session.session_id, state.session.adapter) == ("s1", "claude")


def test_a_session_goes_back_until_a_turn_went_on_from_there() -> None:
    def upto(*more: events.Event) -> str | None:
        state = state_after(
            events.SessionStarted(session_id="s-1"),
            events.SessionRewound(session_id="s-1", upto="m-1", to=1),
            *more,
        )
        return state.session.upto if state.session is not None else None

    def finished(session_id: str, point: Point | UnsetType) -> events.Event:
        return events.TurnFinished(status=Status.COMPLETED, session_id=session_id, point=point)

    assert upto() == upto(events.SessionStarted(resumed=True, session_id="s-1")) == "m-1"
    assert upto(events.SessionRewound(session_id="s-2", upto="m-0")) == "m-1"
    assert upto(finished("s-1", UNSET)) == upto(finished("s-1", Point(begins="u"))) == "m-1"
    assert upto(finished("s-1", Point(ends="m-9"))) is None
    assert upto(events.SessionLost(session_id="s-1")) is upto(events.SessionStarted(session_id="s-3")) is None


def test_only_the_last_fifty_answered_requests_and_archived_sessions_are_kept() -> None:
    state = state_after(*(events.ControlDone(control_id=str(n)) for n in range(60)))
    assert state.answered == [str(n) for n in range(10, 60)]
    state = state_after(*(events.SessionArchived(session_id=str(n)) for n in range(60)))
    assert state.archived == [str(n) for n in range(10, 60)]


@pytest.mark.slow
def test_a_message_that_is_known_costs_less_than_half_a_kilobyte_of_memory() -> None:
    state = State(agent="agent")
    queued = events.MessageQueued(sender="human", text="hi", digest="d" * 64)
    finished = events.TurnFinished(attempt=1, status=Status.COMPLETED)
    for number in range(2000):
        for step, body in enumerate((queued, finished)):
            seq = 2 * number + step + 1
            ident = f"agent-1m80cjj{number:08d}"
            event = structs.replace(body, seq=seq, ts=rfc3339(seq), agent="agent", turn=None, message_id=ident)
            apply(state, events.decode(events.encode(event)))
    snapshot = msgspec.json.encode(state)
    tracemalloc.start()
    try:
        decoded = msgspec.json.decode(snapshot, type=State)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used / len(decoded.known) < 512
    assert not any(map(gc.is_tracked, decoded.known.values())), "who collects garbage looks at each of them"


def turn_of(*bodies: events.Event, attempt: int = 1) -> list[events.Event]:
    """The events of a turn in which these happen."""
    started = events.TurnStarted(attempt=attempt, owner=OWNER, turn_key="k", adapter="a", via="exec")
    return [started, *bodies]


def totals_of(*bodies: events.Event) -> Totals:
    state = State()
    for seq, body in enumerate(bodies, 1):
        event = structs.replace(body, seq=seq, ts="2026-01-01T00:00:00.000000Z", agent="a", turn=1, message_id="a-1")
        apply(state, event)  # type: ignore[arg-type]
    return state.totals


def test_calls_of_tools_are_counted_once_each_with_those_that_failed() -> None:
    totals = totals_of(
        *turn_of(
            events.ToolCalled(call_id="1", name="Bash"),
            events.ToolCalled(call_id="1", name="Bash"),  # told once more, with more of its input
            events.ToolReturned(call_id="1", is_error=True),
            events.ToolCalled(call_id="2", name="Bash"),
            events.ToolReturned(call_id="2"),
            events.ToolReturned(call_id="3", is_error=True),  # of a call that nobody saw
        )
    )
    assert {name: (tool.calls, tool.failed) for name, tool in totals.by_tool.items()} == {"Bash": (2, 1)}


def test_an_agent_that_makes_up_names_of_tools_fills_no_journal() -> None:
    totals = totals_of(*turn_of(*(events.ToolCalled(call_id=str(n), name=f"t{n}") for n in range(MAX_TOOLS + 9))))
    assert len(totals.by_tool) == MAX_TOOLS + 1
    assert totals.by_tool[OTHER_TOOLS].calls == 9


def test_retries_denials_and_unsupported_turns_are_counted() -> None:
    denials = (Denial(tool="Bash"), Denial(tool="Edit"))
    totals = totals_of(
        *turn_of(events.TurnFinished(status=Status.DENIED, denials=denials)),
        events.MessageRequeued(attempt=2, reason="retry"),
        events.MessageRequeued(attempt=2, reason="holder_died"),
        *turn_of(events.TurnFinished(status=Status.FAILED, class_=Class.UNSUPPORTED)),
    )
    assert (totals.retries, totals.denials, totals.unsupported) == (1, 2, 1)


def test_the_counters_of_several_journals_add_up() -> None:
    both = totals_of(*turn_of(events.ToolCalled(call_id="1", name="Bash")))
    both.add_totals(
        totals_of(*turn_of(events.ToolCalled(call_id="1", name="Bash"), events.ToolCalled(call_id="2", name="R")))
    )
    assert {name: tool.calls for name, tool in both.by_tool.items()} == {"Bash": 2, "R": 1}


def after(*happened: AnyEvent) -> State:
    return fold(State(), happened)


def named(seq: int) -> dict[str, object]:
    return {"seq": seq, "ts": rfc3339(seq), "agent": "a"}


def test_a_queue_is_paused_until_it_is_resumed() -> None:
    paused = events.QueuePaused(**named(1))  # type: ignore[arg-type]
    resumed = events.QueueResumed(**named(2))  # type: ignore[arg-type]
    assert after(paused).paused is True and after(paused, resumed).paused is False


def test_a_session_keeps_the_adapter_of_the_turn_that_began_it() -> None:
    began = events.TurnStarted(**named(1), owner=OWNER, turn_key="k", adapter="claude", via="exec")  # type: ignore[arg-type]
    first = events.SessionStarted(**named(2), session_id="s1")  # type: ignore[arg-type]
    other = events.SessionStarted(resumed=True, **named(3), session_id="s2")  # type: ignore[arg-type]
    state = after(began, first)
    assert state.session is not None and state.session.adapter == "claude"
    state.open_turn = None
    apply(state, other)
    assert state.session is not None and (state.session.session_id, state.session.adapter) == ("s2", "claude")


def test_a_resumed_session_is_the_same_one_and_another_begins_anew() -> None:
    begun = events.SessionStarted(session_id="s1", model="big")
    ended = events.TurnFinished(status=Status.COMPLETED, session_id="s1")
    resumed = state_after(STARTED, begun, ended, events.SessionStarted(resumed=True, session_id="s1")).session
    other = state_after(STARTED, begun, ended, events.SessionStarted(session_id="s2")).session
    assert resumed is not None and other is not None
    assert (resumed.model, resumed.turns, resumed.started_at) == ("big", 1, rfc3339(2))
    assert (other.model, other.turns, other.started_at) == (None, 0, rfc3339(4))


def test_a_fork_ends_where_it_was_cut() -> None:
    for upto, known in ((UNSET, None), ("m", "m")):
        fork = state_after(events.SessionForked(session_id="s", of="coder", adapter="codex", upto=upto)).fork
        assert fork is not None and (fork.of, fork.adapter, fork.upto) == ("coder", "codex", known)


def test_a_turn_without_a_number_follows_the_last_one_and_unblocks_its_agent() -> None:
    state = state_after(events.Notice(text="why", code="blocked"), STARTED, turn=None)  # type: ignore[arg-type]
    assert (state.turn, state.blocked, state.activity) == (1, None, "running")


def test_a_person_who_unblocks_an_agent_says_that_nothing_of_its_turn_runs() -> None:
    turn = state_after(STARTED, events.Notice(code="blocked", text="why"), events.Notice(code="unblocked", text=""))
    assert turn.open_turn is not None and turn.open_turn.cleared and turn.blocked is None


@pytest.mark.parametrize(
    "ended",
    [events.TurnClosed(), events.MessageDead(reason="dropped"), events.MessageRequeued(attempt=2, reason="retry")],
)
def test_a_turn_is_open_until_its_own_message_is_over_or_waits_again(ended: events.Event) -> None:
    assert state_after(STARTED, ended).open_turn is None
    other = structs.replace(ended, seq=2, ts="", agent="a", message_id="a-2")
    assert fold(state_after(STARTED), [other]).open_turn is not None  # type: ignore[list-item]


def test_nothing_is_left_to_do_once_each_message_is_over_and_no_turn_is_open() -> None:
    dead = events.MessageDead(reason="dropped")
    assert State().is_over() and state_after(QUEUED_EVENT, dead).is_over()
    assert not state_after(QUEUED_EVENT).is_over() and not state_after(STARTED).is_over()


def test_failures_that_tell_of_trouble_are_kept_until_an_answer() -> None:
    failed = events.TurnFinished(status=Status.FAILED, class_=Class.NETWORK)
    asked_wrong = events.TurnFinished(status=Status.FAILED, class_=Class.BAD_REQUEST)
    assert state_after(failed, asked_wrong, failed).failures == [rfc3339(n) for n in (1, 3)]
    assert len(state_after(*[failed] * (MAX_FAILURES + 1)).failures) == MAX_FAILURES
    assert state_after(failed, events.TurnFinished(status=Status.COMPLETED)).failures == []


def test_a_circuit_is_open_until_it_is_closed() -> None:
    opened = events.CircuitOpened(until="u")
    assert state_after(opened).circuit_until == "u"
    assert state_after(opened, events.CircuitClosed()).circuit_until is None


def test_the_last_outcome_is_that_of_the_last_turn_or_dead_letter() -> None:
    failed = events.TurnFinished(status=Status.FAILED, class_=Class.CRASHED, reason="boom")
    dead = events.MessageDead(attempt=2, reason="failed", detail="", status=Status.FAILED)
    for bodies, reason in (((failed,), "boom"), ((failed, dead), "failed"), ((dead, failed), "boom")):
        last = state_after(STARTED, *bodies).last
        assert last is not None and (last.message_id, last.status, last.reason) == ("a-1", Status.FAILED, reason)


def test_all_figures_of_several_agents_add_up() -> None:
    done = events.TurnFinished(status=Status.COMPLETED, model="m", usage=Usage(input_tokens=3), cost_usd=0.1)
    both = totals_of(*turn_of(done))
    both.add_totals(totals_of(*turn_of(done), *turn_of(events.TurnFinished(status=Status.DENIED, model="n"))))
    both.add_totals(Totals())
    assert (both.turns, both.usage, both.cost_usd) == (3, Usage(input_tokens=6), 0.2)
    assert both.by_status == {"completed": 2, "denied": 1}
    assert {name: (one.turns, one.cost_usd) for name, one in both.by_model.items()} == {"m": (2, 0.2), "n": (1, None)}
