"""How long a sender leaves its message to another process that keeps the agent's process."""

from __future__ import annotations

import msgspec
import pytest

from beam.broker.asking.requests import keep_seconds, wait_until_released
from beam.broker.holder import registry
from beam.model import events
from beam.model.message import Message, Options
from beam.model.outcome import Status
from beam.process import tree
from beam.store.lock import Lock
from tests.support.context import Root, ended


def kept_by(
    root: Root,
    *,
    owner: events.Owner | None = None,
    is_in_turn: bool = False,
    is_closed: bool = True,
    has_ended: bool = False,
) -> tuple[Message, Lock]:
    """A message to an agent that another process holds, with a process that it keeps."""
    lease = root.hold("worker")
    bodies: list[events.Event] = [
        events.TurnStarted(owner=owner or tree.this_process(), turn_key="k", adapter="command", via="dialogue"),
        events.AgentKept(pid=1),
    ]
    if not is_in_turn:
        bodies.append(events.TurnFinished(status=Status.COMPLETED))
        bodies += [events.TurnClosed()] if is_closed else []
        bodies += [events.AgentExited(pid=1)] if has_ended else []
    for body in bodies:
        lease.log.record(body, turn=1, sync=True)
    return root.put("worker"), lease._lock


def test_only_a_persons_message_asks_to_keep_the_process(root: Root) -> None:
    assert keep_seconds(root.message("worker", options=Options(keep=60.0))) == 60.0
    assert keep_seconds(root.message("worker", options=Options(keep=60.0), hops=1)) is None
    assert keep_seconds(root.message("worker")) is None


def test_an_agent_that_nobody_holds_is_free_at_once(root: Root) -> None:
    assert ended(wait_until_released(root.context, root.place("worker"), root.message("worker"))) is True


def test_a_holder_without_a_kept_process_is_waited_for_half_a_second_and_no_longer(root: Root) -> None:
    """It may be releasing the agent, and would not see the message any more."""
    with root.hold("worker")._lock:
        steps = wait_until_released(root.context, root.place("worker"), root.put("worker"))
        next(steps)
        root.clock.sleep(0.4)
        next(steps)
        root.clock.sleep(0.2)
        assert ended(steps) is False


def test_a_holder_that_has_ended_its_kept_process_is_waited_for_until_it_releases_the_agent(root: Root) -> None:
    message, lock = kept_by(root, has_ended=True)
    steps = wait_until_released(root.context, root.place("worker"), message)
    next(steps)
    lock.release()
    assert ended(steps) is True


def test_a_holder_that_begins_a_turn_is_not_waited_for(root: Root) -> None:
    lease = root.hold("worker")
    steps = wait_until_released(root.context, root.place("worker"), root.put("worker"))
    next(steps)
    lease.log.record(events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter="command", via="exec"), turn=1)
    assert ended(steps) is False
    lease.close()


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_holder_that_lets_its_process_go_is_waited_for(root: Root, is_closed: bool) -> None:
    """Also right after the outcome of its last turn, which a sender has before the turn is closed."""
    message, lock = kept_by(root, is_closed=is_closed)
    steps = wait_until_released(root.context, root.place("worker"), message)
    assert [next(steps), next(steps)] == [0.02, 0.02]
    lock.release()
    assert ended(steps) is True


@pytest.mark.parametrize("box", ["cur", None])
def test_a_message_that_the_holder_took_is_not_waited_for(root: Root, box: str | None) -> None:
    message, lock = kept_by(root)
    steps = wait_until_released(root.context, root.place("worker"), message)
    next(steps)
    queue = root.queue("worker")
    (entry,) = queue.entries("new")
    queue.move(entry, "cur") if box else queue.remove(entry)
    assert ended(steps) is False
    lock.release()


def test_a_holder_is_waited_for_six_seconds_and_no_longer(root: Root) -> None:
    message, lock = kept_by(root)
    steps = wait_until_released(root.context, root.place("worker"), message)
    next(steps)
    root.clock.sleep(5.9)
    next(steps)
    root.clock.sleep(0.2)
    assert ended(steps) is False
    lock.release()


@pytest.mark.parametrize("why", ["it is in a turn", "its owner is gone", "a broker serves"])
def test_a_holder_that_will_not_let_go_is_not_waited_for(root: Root, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    owner = msgspec.structs.replace(tree.this_process(), pid=2**22 + 1)
    message, lock = kept_by(root, owner=owner if "gone" in why else None, is_in_turn="turn" in why)
    monkeypatch.setattr(registry, "broker_serves_root", lambda home: "broker" in why and home == root.context.home)
    assert ended(wait_until_released(root.context, root.place("worker"), message)) is False
    lock.release()
