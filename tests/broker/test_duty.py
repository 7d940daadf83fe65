"""One step of the duty that comes with a lease: requests, what waits, what expired, and what may be claimed next."""

from __future__ import annotations

import pytest

from beam.base.clock import rfc3339
from beam.base.errors import UnfinishedError
from beam.broker.asking import mailbox
from beam.broker.holder import duty
from beam.broker.inbox import launch
from beam.broker.inbox.context import RootContext
from beam.model import events
from beam.root.paths import AgentPaths
from beam.store import control
from beam.store.control import ControlRequest, Verb
from tests.support.context import SECOND_NS, Root

SOON = "2023-11-14T22:13:21Z"  # a second after the clock of the test


def ask(root: Root, agent: str, verb: Verb, target: str | None = None) -> None:
    """Publish a request."""
    now = root.clock.now_ns()
    request = ControlRequest(
        id=f"{agent}-{verb}",
        verb=verb,
        sender="human",
        timestamp=rfc3339(now),
        expires=rfc3339(now + 60 * SECOND_NS),
        target=target,
    )
    control.publish(root.place(agent).control, request)


def queued(root: Root, agent: str) -> list[str | None]:
    """The ids of the messages that the journal knows."""
    return [event.message_id for event in root.events(agent) if isinstance(event, events.MessageQueued)]


def test_a_step_gives_what_may_be_claimed_in_order(root: Root) -> None:
    ids = [root.put("worker", str(number)).id for number in range(3)]
    lease = root.hold("worker")
    due = duty.step(lease)
    assert ([entry.id for entry in due.entries], due.pause_s, due.untrusted, due.blocked) == (ids, 0, None, None)
    assert queued(root, "worker") == ids
    lease.close()


def test_requests_are_answered_before_anything_may_be_claimed(root: Root) -> None:
    root.put("worker")
    ask(root, "worker", "pause")
    lease = root.hold("worker")
    assert duty.step(lease) == duty.DueWork()
    assert control.waiting_names(lease.log.paths.control) == [] and lease.log.state.paused
    ask(root, "worker", "resume")
    assert len(duty.step(lease).entries) == 1
    lease.close()


@pytest.mark.parametrize("is_paused", [True, False])
def test_what_expired_is_dead_lettered_where_nothing_may_be_claimed(root: Root, is_paused: bool) -> None:
    kept, late = root.put("worker", "kept"), root.put("worker", "late", deadline=SOON)
    if is_paused:
        ask(root, "worker", "pause")
    root.clock.sleep(2)
    lease = root.hold("worker")
    assert [entry.id for entry in duty.step(lease).entries] == ([] if is_paused else [kept.id, late.id])
    boxes = {"new": [kept.id], "dead": [late.id]} if is_paused else {"new": [kept.id, late.id]}
    assert root.boxes("worker") == boxes  # a turn that begins looks for what expired itself
    lease.close()


def test_where_nothing_may_be_claimed_a_step_says_when_the_next_deadline_passes(root: Root) -> None:
    for text, deadline in (("first", SOON), ("second", "2023-11-14T22:13:50Z"), ("third", None)):
        root.put("worker", text, deadline=deadline)
    ask(root, "worker", "pause")
    lease = root.hold("worker")
    assert duty.step(lease).deadline_s == 1.0
    root.clock.sleep(2)
    assert duty.step(lease).deadline_s == 28.0
    root.clock.sleep(29)
    assert duty.step(lease).deadline_s is None
    lease.close()


def test_a_blocked_agent_gets_no_answer_and_nothing_to_run(root: Root) -> None:
    root.put("worker")
    ask(root, "worker", "pause")
    lease = root.hold("worker")
    lease.blocked = "processes are left"
    assert duty.step(lease) == duty.DueWork(blocked="processes are left")
    assert len(control.waiting_names(lease.log.paths.control)) == 1
    lease.close()


def test_of_a_mailbox_only_the_message_in_question_is_checked(root: Root) -> None:
    asked, other = root.put("box", "one", deadline=SOON), root.put("box", "two", deadline=SOON)
    root.clock.sleep(2)
    lease = root.hold("box")
    assert duty.step(lease) == duty.DueWork()
    assert root.boxes("box") == {"new": [asked.id, other.id]}
    assert duty.step(lease, about=asked.id) == duty.DueWork()
    assert root.boxes("box") == {"new": [other.id], "dead": [asked.id]}
    lease.close()


def test_whoever_takes_a_message_out_of_a_mailbox_answers_requests_first(root: Root) -> None:
    root.put("box")
    ask(root, "box", "pause")
    assert mailbox.recv(root.context, root.place("box"), None) is None
    assert any(isinstance(event, events.ControlDone) for event in root.events("box"))


@pytest.mark.slow
def test_who_waits_takes_one_step_for_an_agent_that_nobody_has(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[AgentPaths] = []

    def start(context: RootContext, place: AgentPaths) -> None:
        started.append(place)

    monkeypatch.setattr(launch, "start_worker", start)
    kept, late = root.put("worker", "kept"), root.put("worker", "late", deadline=SOON)
    root.clock.sleep(2)
    assert duty.ensure_running(root.context, root.place("worker")) is True
    assert started == [root.place("worker")]
    assert root.boxes("worker") == {"new": [kept.id], "dead": [late.id]}
    lease = root.hold("worker")
    assert duty.ensure_running(root.context, root.place("worker")) is False
    lease.close()


def test_who_waits_for_a_blocked_agent_is_told(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam.broker.holder.recovery.recover", lambda log: "processes are left")
    with pytest.raises(UnfinishedError, match="worker is blocked: processes are left") as caught:
        duty.ensure_running(root.context, root.place("worker"))
    assert caught.value.kind == "blocked"
