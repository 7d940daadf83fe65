"""Waiting for several things side by side."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from beam.api import manage, waits
from beam.api.waits import AwaitedState, run_waits, wait_for_state
from beam.base.clock import Steps
from beam.base.errors import NotFoundError, UnfinishedError, UsageError
from beam.broker.asking import mailbox
from beam.model import events
from beam.model.outcome import Status
from beam.root import discovery
from beam.root.paths import AgentPaths
from beam.store import lanes
from tests.support.context import Root
from tests.support.journals import closed, finished, record, result, started
from tests.support.refused import refused


def steps(result: str, *pauses: float) -> Steps[str]:
    yield from pauses
    return result


def run(*waits: Steps[str], only_first: bool = False) -> tuple[list[float], list[tuple[int, str]]]:
    ended: list[tuple[int, str]] = []
    pauses = list(run_waits(waits, only_first=only_first, ended=lambda place, result: ended.append((place, result))))
    return pauses, ended


def test_all_are_waited_for_and_told_as_they_end() -> None:
    pauses, ended = run(steps("a", 3, 1, 1), steps("b", 2), steps("c"))
    assert ended == [(2, "c"), (1, "b"), (0, "a")]
    assert pauses == [2, 1, 1]  # each time as short as the most impatient one


def test_the_first_to_end_is_enough_if_that_is_asked() -> None:
    assert run(steps("a", 1, 1), steps("b", 1), only_first=True) == ([1], [(1, "b")])


@pytest.mark.parametrize("until", ["idle", "asking", "finished"])
def test_who_waits_for_an_agent_that_is_removed_meanwhile_is_told(root: Root, until: AwaitedState) -> None:
    paths = root.place("box")
    if until == "idle":
        root.put("box")
    waiting = wait_for_state(root.context, paths, until, timeout=None, looks_only=True)
    next(waiting)
    shutil.rmtree(paths.dir)
    with pytest.raises(NotFoundError, match="box was removed"):
        next(waiting)


@pytest.mark.slow
@pytest.mark.parametrize("is_lent", [False, True])
def test_an_agent_whose_messages_were_given_up_by_its_removal_is_not_idle(root: Root, is_lent: bool) -> None:
    message = root.put("box")
    if is_lent:
        taken = mailbox.recv(root.context, root.place("box"), None)
        assert taken is not None and taken.id == message.id
    waiting = wait_for_state(root.context, root.place("box"), "idle", timeout=None, looks_only=True)
    next(waiting)
    lease = root.hold("box")
    assert manage._give_up_messages(lease) == 1
    with pytest.raises(NotFoundError, match="box was removed"):
        next(waiting)
    lease.close()


def test_a_state_that_does_not_come_in_time_stops_nothing(root: Root) -> None:
    root.put("box")
    waiting = wait_for_state(root.context, root.place("box"), "idle", timeout=5.0, looks_only=True)
    next(waiting)
    root.clock.sleep(5.0)
    with pytest.raises(UnfinishedError, match="box is not idle after 5 s; nothing was stopped"):
        next(waiting)


def test_none_is_waited_for_where_there_is_none() -> None:
    assert run() == ([], [])


def test_what_one_of_them_raises_ends_the_waiting() -> None:
    def fails() -> Steps[str]:
        yield 1
        raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        run(steps("a", 1, 1, 1), fails())


def waiting_for(
    root: Root, until: str, *, timeout: float | None = None, looks_only: bool = True, agent: str = "worker"
) -> Steps[Any]:
    return wait_for_state(root.context, root.context.agent_paths(agent), until, timeout=timeout, looks_only=looks_only)  # type: ignore[arg-type]


def lane(root: Root, name: str) -> AgentPaths:
    paths = root.context.agent_paths("worker", name)
    discovery.create(root.context.home, paths)
    lanes.add_to_index(paths)
    return paths


def test_a_state_that_there_is_none_of_is_refused(root: Root) -> None:
    with refused(UsageError, "--until busy: unknown state", "use one of idle, asking, finished", subject="busy"):
        next(waiting_for(root, "busy"))


def test_an_agent_is_idle_once_nothing_waits_or_runs_in_it_and_its_lanes(root: Root) -> None:
    assert result(waiting_for(root, "idle")) is None
    paths = lane(root, "aaaa")
    for folder in (root.place("worker").queue, paths.queue):
        for box in ("new", "cur"):
            (folder / box / "00000000000000000001-worker-1.json").touch()
            steps = waiting_for(root, "idle")
            assert next(steps) == 0.1
            (folder / box / "00000000000000000001-worker-1.json").unlink()
            assert result(steps) is None


def test_an_agent_that_asks_is_waited_for_in_its_lanes_too(root: Root) -> None:
    asked = events.PermissionAsked(ask_id="worker-aaaa", tool="Bash", turn=1, message_id="m-1")
    steps = waiting_for(root, "asking")
    next(steps)
    lane(root, "aaaa")
    record(root, "worker", started(), asked, lane="aaaa")
    assert result(steps) is None


@pytest.mark.slow
def test_a_turn_that_ends_from_now_on_is_waited_for(root: Root) -> None:
    record(root, "worker", started(1), finished(1), closed(1))
    over = lane(root, "aaaa")
    record(root, "worker", started(1, "worker-aaaa"), finished(1, "worker-aaaa"), closed(1, "worker-aaaa"), lane="aaaa")
    lanes.remove_from_index(over)
    steps = waiting_for(root, "finished")
    next(steps)
    record(root, "worker", started(2, "m-2"))
    next(steps)
    record(root, "worker", finished(2, "m-2", reply="done"), closed(2, "m-2"))
    outcome = result(steps)
    assert (outcome.message_id, outcome.reply) == ("m-2", "done")


def test_who_waits_for_a_turn_has_its_answer_though_the_budget_was_used_up_by_it(root: Root) -> None:
    steps = waiting_for(root, "finished")
    next(steps)
    given_up = events.MessageDead(message_id="m-2", reason="budget", status=Status.LIMIT)
    record(root, "worker", started(1), finished(1, reply="done"), closed(1), given_up)
    outcome = result(steps)
    assert (outcome.message_id, outcome.turn, outcome.reply) == ("m-1", 1, "done")


def test_the_first_of_several_turns_that_ended_at_once_is_reported(root: Root) -> None:
    record(root, "worker", started(1), finished(1))
    steps = waiting_for(root, "finished")
    next(steps)
    later = [started(2, "m-2"), finished(2, "m-2"), closed(2, "m-2"), started(3, "m-3"), finished(3, "m-3")]
    record(root, "worker", closed(1), *later, closed(3, "m-3"))
    assert result(steps).message_id == "m-2"


def test_a_message_that_is_tried_again_has_not_ended_and_one_that_could_not_begin_had_no_turn(root: Root) -> None:
    steps = waiting_for(root, "finished")
    next(steps)
    again = events.MessageRequeued(message_id="m-1", attempt=2, reason="retry")
    record(root, "worker", started(1), finished(1, status=Status.FAILED), again)
    next(steps)
    could_not_begin = events.TurnFinished(message_id="m-0", status=Status.FAILED)
    record(root, "worker", could_not_begin, events.TurnClosed(message_id="m-0"))
    next(steps)
    record(root, "worker", started(2, attempt=2), finished(2, attempt=2))
    next(steps)
    record(root, "worker", closed(2))
    assert result(steps).attempt == 2


def test_a_turn_whose_message_was_damaged_before_it_was_closed_has_ended(root: Root) -> None:
    steps = waiting_for(root, "finished")
    next(steps)
    damaged = events.MessageDead(message_id="m-1", reason="corrupt")
    record(root, "worker", started(1), finished(1, reply="done"), damaged)
    assert result(steps).reply == "done"


def test_a_turn_of_a_new_lane_counts(root: Root) -> None:
    steps = waiting_for(root, "finished")
    next(steps)
    lane(root, "bbbb")
    record(root, "worker", started(1, "worker-bbbb"), finished(1, "worker-bbbb"), closed(1, "worker-bbbb"), lane="bbbb")
    assert result(steps).message_id == "worker-bbbb"


def test_an_agent_that_was_never_used_is_waited_for(root: Root) -> None:
    steps = waiting_for(root, "finished")
    next(steps)
    record(root, "worker", started(), finished(), closed())
    assert result(steps).message_id == "m-1"


def test_what_waiting_came_to_is_reported(root: Root) -> None:
    root.put("worker")
    steps = waiting_for(root, "idle", timeout=5.0)
    root.clock.sleep(4.9)
    next(steps)
    root.clock.sleep(5.0)
    said = "worker is not idle after 5 s; nothing was stopped"
    with refused(UnfinishedError, said, "beam status worker", subject="worker"):
        next(steps)
    with pytest.raises(UnfinishedError):
        next(waiting_for(root, "idle", timeout=0))
    steps = waiting_for(root, "idle")
    next(steps)
    shutil.rmtree(root.place("worker").dir)
    with refused(NotFoundError, "worker was removed", "beam agent list", subject="worker"):
        next(steps)


@pytest.mark.parametrize(
    ("agent", "looks_only", "is_just_sent", "runs"),
    [
        ("worker", False, False, True),
        ("worker", True, False, False),
        ("worker", False, True, False),
        ("box", False, False, False),
    ],
)
def test_somebody_is_found_for_what_waits(
    agent: str, looks_only: bool, is_just_sent: bool, runs: bool, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensured: list[Any] = []
    monkeypatch.setattr("beam.broker.holder.duty.ensure_running", lambda context, paths: ensured.append(paths))
    monkeypatch.setattr(waits, "is_just_sent", lambda *_: is_just_sent)
    root.put(agent)
    steps = waiting_for(root, "idle", looks_only=looks_only, agent=agent)
    next(steps)
    root.clock.sleep(1.9)
    next(steps)
    assert ensured == []
    root.clock.sleep(0.1)
    next(steps)
    root.clock.sleep(1.9)
    next(steps)
    assert ensured == ([root.context.agent_paths(agent)] if runs else [])
