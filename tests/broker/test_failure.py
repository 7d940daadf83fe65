"""Budgets of a whole thread, as its holders keep them: counted at the claim, refused at every entrance."""

from __future__ import annotations

import msgspec
import pytest

from beam.base.clock import rfc3339
from beam.base.errors import LimitError
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import failure
from beam.broker.inbox.put import put
from beam.model import events
from beam.model.message import Options
from beam.model.outcome import Class, Status
from beam.model.state import QUEUED, MessageRecord, OutcomeRecord, State
from beam.store.thread import ThreadUsage
from tests.support.context import NOON_NS, SECOND_NS, Root


def bounded(root: Root, **policy: object) -> None:
    """That policy from now on."""
    config = msgspec.structs.replace(
        root.context.config, policy=msgspec.structs.replace(root.context.config.policy, **policy)
    )
    root.context = msgspec.structs.replace(root.context, config=config)


def claim(root: Root, agent: str = "worker") -> list[str]:
    """The ids of what the agent's next holder may claim; it dies then, before the prompt."""
    lease = root.hold(agent)
    claimed = [done[1].id for entry in lease.waiting.scan() if (done := lease.waiting.claim(entry)) is not None]
    lease.close()
    return claimed


def counted(root: Root, thread: str = "t") -> int:
    return ThreadUsage(root.context.home.threads, thread).spent().turns


def test_what_a_person_sends_is_not_counted_and_costs_no_file(root: Root) -> None:
    root.put("worker")
    assert len(claim(root)) == 1
    assert list(root.context.home.threads.iterdir()) == []


@pytest.mark.slow
def test_a_message_that_is_claimed_again_after_its_holder_died_is_one_turn(root: Root) -> None:
    message = root.put("worker", hops=1)
    for _ in range(2):
        assert claim(root) == [message.id]
        assert counted(root) == 2


@pytest.mark.slow
def test_branches_of_a_thread_share_its_turns_and_the_rest_is_given_up(root: Root) -> None:
    bounded(root, thread_turns=3)
    sent = [root.put(agent, hops=1).id for agent in ("worker", "other", "worker", "other")]
    assert claim(root, "worker") + claim(root, "other") == [sent[0], sent[2]]
    dead = [event for event in root.events("other") if isinstance(event, events.MessageDead)]
    assert [(event.message_id, event.reason, event.status) for event in dead] == [
        (sent[1], "budget", Status.LIMIT),
        (sent[3], "budget", Status.LIMIT),
    ]
    assert dead[0].detail == "the budget is used up: thread_turns is 3, and 3 were used"
    elsewhere = root.put("other", hops=1, thread="another")
    assert claim(root, "other") == [elsewhere.id]


def test_who_counts_one_turn_too_late_does_not_get_it(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(root, thread_turns=2)
    message = root.put("worker", hops=1)
    # Another holder claimed between the look and the count.
    monkeypatch.setattr(failure, "find_refusal", lambda *_: None)
    ThreadUsage(root.context.home.threads, "t").begin("other-1", 1)
    assert claim(root) == []
    assert root.boxes("worker") == {"dead": [message.id]}


def test_an_agent_that_sends_into_a_thread_without_budget_is_refused_and_a_person_is_not(root: Root) -> None:
    bounded(root, thread_turns=2)
    root.put("worker", hops=1)
    claim(root)
    place = root.place("other")
    with pytest.raises(LimitError, match="budget of thread t is used up: thread_turns is 2, and 2 were used") as caught:
        put(root.context, place, root.message("other", hops=2))
    assert caught.value.exit_code == 7
    assert "policy:" in caught.value.hint
    assert root.boxes("other") == {}
    assert put(root.context, place, root.message("other"))


def test_what_all_branches_cost_is_one_sum_where_it_is_bounded(root: Root) -> None:
    finished = events.TurnFinished(attempt=1, status=Status.COMPLETED, cost_usd=0.3)
    failure.count_cost(root.context, root.message("worker"), finished)
    assert not (root.context.home.threads / "t").exists()
    bounded(root, thread_cost_usd=0.5)
    for agent in ("worker", "other"):
        message = root.message(agent, hops=1)
        assert failure.budget_used_up(root.context, message) is None
        failure.count_cost(root.context, message, finished)
        failure.count_cost(root.context, message, finished)
    used_up = failure.budget_used_up(root.context, root.message("worker", hops=1))
    assert used_up == "thread_cost_usd is 0.5, and 0.6 were used"


@pytest.mark.slow
def test_a_reply_into_a_thread_without_budget_is_said_to_be_dead_at_once(root: Root) -> None:
    from beam.broker.asking import mailbox

    bounded(root, thread_turns=2)
    message = root.put("box", hops=1, sender="asker", reply="queue")
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    mailbox.reply(root.context, root.place("box"), message.id, "yes", failed=False)
    (closed,) = [event for event in root.events("box") if isinstance(event, events.TurnClosed)]
    assert (closed.reply, closed.detail) == ("dead", "the budget is used up: thread_turns is 2, and 2 were used")


def test_what_the_root_used_is_the_sum_over_its_agents_but_those_that_can_not_be_read(root: Root) -> None:
    for name, turns in (("worker", 2), ("box", 1)):
        lease = root.hold(name)
        for number in range(turns):
            finished = events.TurnFinished(status=Status.COMPLETED, cost_usd=0.5)
            lease.log.record(finished, turn=number + 1, message_id=f"{name}-{number}")
        lease.close()
    spent = failure.root_spent(root.context)
    assert (spent.turns, spent.cost_usd) == (3, 1.5)
    (segment, *_) = root.place("box").journal.iterdir()
    segment.write_bytes(b"damaged\n")
    assert failure.root_spent(root.context).turns == 2


DAY = 86_400.0


def rested(seconds_ago: float, *, pace: float | None) -> float | None:
    """The pause before the next message, after a turn that ended so long ago."""
    state = State(last=OutcomeRecord(message_id="m", turn=1, status=Status.COMPLETED, at=rfc3339(NOON_NS)))
    return failure.pause_s(state, None, NOON_NS + int(seconds_ago * SECOND_NS), pace=pace)


def test_a_paced_agent_rests_from_the_end_of_a_turn_for_its_pace() -> None:
    assert (rested(0, pace=30), rested(10, pace=30), rested(30, pace=30), rested(99, pace=30)) == (30, 20, 0, 0)
    assert rested(0, pace=None) == failure.pause_s(State(), None, NOON_NS, pace=30) == 0


def test_a_paced_agent_does_not_rest_until_the_future_of_a_clock_that_was_ahead() -> None:
    assert (rested(-5, pace=30), rested(-30, pace=30), rested(-31, pace=30), rested(-DAY, pace=30)) == (35, 60, 0, 0)


def retry_pause(seconds_ago: float, *, pause: float, is_recorded_late: bool = False) -> float | None:
    """The pause before a retry that was decided so long ago, for such a pause. If it was recorded late, the holder died
    in between for a second."""
    at = rfc3339(NOON_NS + is_recorded_late * SECOND_NS)
    not_before = rfc3339(NOON_NS + int(pause * SECOND_NS))
    state = State(known={"m": MessageRecord(phase=QUEUED, at=at, not_before=not_before)})
    return failure.pause_s(state, "m", NOON_NS + int(seconds_ago * SECOND_NS))


def test_a_retry_waits_for_its_pause_though_the_clock_was_put_back_a_little() -> None:
    assert [retry_pause(ago, pause=60) for ago in (-5, 0, 20, 60, 99)] == [65, 60, 40, 0, 0]
    assert [retry_pause(ago, pause=60, is_recorded_late=True) for ago in (1, 20, 60)] == [59, 40, 0]


@pytest.mark.parametrize("is_recorded_late", [False, True])
@pytest.mark.parametrize("pause", [0, 60])
def test_a_retry_does_not_wait_until_the_future_of_a_clock_that_was_ahead(pause: float, is_recorded_late: bool) -> None:
    assert retry_pause(-DAY, pause=pause, is_recorded_late=is_recorded_late) == 0


def test_a_pause_for_a_shortage_is_kept_while_the_journal_is_ahead_of_the_clock() -> None:
    at, not_before = rfc3339(NOON_NS + int(DAY) * SECOND_NS), rfc3339(NOON_NS + 2 * SECOND_NS)
    state = State(known={"m": MessageRecord(phase=QUEUED, at=at, not_before=not_before)})
    assert failure.pause_s(state, "m", NOON_NS) == 2


def fail(lease: AgentLease) -> None:
    """A turn of the agent that crashes now."""
    crashed = events.TurnFinished(attempt=1, status=Status.FAILED, class_=Class.CRASHED)
    failure.update_circuit(lease.log, lease.log.record(crashed, turn=1, message_id="worker-1"))


def circuit(lease: AgentLease, root: Root) -> tuple[str, float | None]:
    """The state of the agent's circuit, and the pause before its next message."""
    now_ns = root.clock.now_ns()
    return failure.circuit_state(lease.log.state, now_ns), failure.pause_s(lease.log.state, None, now_ns)


def test_a_circuit_that_opened_while_the_clock_was_ahead_lets_a_message_be_tried(root: Root) -> None:
    bounded(root, circuit_failures=1, circuit_open=30)
    lease = root.hold("worker")
    root.clock.sleep(DAY)
    fail(lease)
    assert circuit(lease, root) == ("open", 30)
    root.clock.sleep(-5)
    assert circuit(lease, root) == ("open", 35)
    root.clock.sleep(5 - DAY)
    assert circuit(lease, root) == ("half open", 0)
    lease.close()


def test_a_circuit_opens_for_its_time_while_the_journal_is_ahead_of_the_clock(root: Root) -> None:
    bounded(root, circuit_failures=3, circuit_open=30)
    lease = root.hold("worker")
    root.clock.sleep(DAY)
    fail(lease)
    root.clock.sleep(-DAY)
    fail(lease)
    assert circuit(lease, root) == ("closed", 0)
    fail(lease)
    assert circuit(lease, root) == ("open", 30)
    root.clock.sleep(20)
    assert circuit(lease, root) == ("open", 10)
    root.clock.sleep(10)
    assert circuit(lease, root) == ("half open", 0)
    lease.close()


def test_a_circuit_opens_also_after_many_failures(root: Root) -> None:
    bounded(root, circuit_failures=30, circuit_open=30)
    lease = root.hold("worker")
    for _ in range(29):
        fail(lease)
    assert circuit(lease, root) == ("closed", 0)
    fail(lease)
    assert circuit(lease, root) == ("open", 30)
    lease.close()


@pytest.mark.parametrize(("hops", "pause"), [(0, 0), (1, 30)])
def test_only_a_persons_message_ignores_an_open_circuit(root: Root, hops: int, pause: float) -> None:
    bounded(root, circuit_failures=1, circuit_open=30)
    lease = root.hold("worker")
    fail(lease)
    root.put("worker", hops=hops, options=Options(no_circuit=True))
    (head,) = lease.log.queue.entries("new")
    assert lease.waiting.pause_s(head, None) == pause
    lease.close()
