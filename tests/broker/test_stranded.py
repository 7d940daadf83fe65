"""Who takes up lanes that nobody drains: which are found, when, and for which no worker is started."""

from __future__ import annotations

import pytest

from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import launch
from beam.model import events
from beam.model.message import Message
from beam.root import directories
from beam.root.paths import AgentPaths
from beam.store import lanes
from beam.store.lock import try_lock
from beam.store.queue import Queue
from tests.support.context import SECOND_NS, Root


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The lanes for which a worker was started."""
    found: list[str | None] = []
    monkeypatch.setattr(launch, "start_worker", lambda _, place: found.append(place.lane))
    return found


def sent(root: Root, name: str) -> tuple[AgentPaths, Message]:
    place = root.context.agent_paths("worker", name)
    directories.create(root.context.home, place)
    lanes.add_to_index(place)
    message = root.message("worker", id=f"worker-{name}")
    Queue(place.queue, place.put_lock).put(message, root.clock, root.context.config.limits)
    return place, message


def test_a_lane_that_somebody_holds_and_one_that_is_over_are_not_stranded(root: Root) -> None:
    held, _ = sent(root, "a-held")
    over, _ = sent(root, "b-over")
    left, _ = sent(root, "c-left")
    for name in (over.queue / "new").iterdir():
        name.unlink()
    agent = root.place("worker")
    with try_lock(held.lock):  # type: ignore[union-attr]
        assert list(launch.stranded_lanes(agent)) == [left]
    assert list(launch.stranded_lanes(agent)) == [held, left]


def test_a_new_lane_is_left_to_its_own_worker_for_a_moment_and_a_claimed_one_is_not(root: Root) -> None:
    place, _ = sent(root, "mine")
    assert launch.own_worker_seconds(place, root.clock.now) == launch.OWN_WORKER_S
    assert launch.own_worker_seconds(place, root.clock.now + 2 * SECOND_NS) == 0
    assert launch.own_worker_seconds(place, root.clock.now - 60 * SECOND_NS) == 0, "the clock was set back"
    (entry,) = (place.queue / "new").iterdir()
    entry.rename(place.queue / "cur" / entry.name)
    assert launch.own_worker_seconds(place, root.clock.now) == 0


@pytest.mark.slow
def test_who_leaves_an_agent_starts_a_few_workers_and_none_twice_within_seconds(
    root: Root, started: list[str | None]
) -> None:
    for number in range(6):
        sent(root, f"lane{number}")
    root.hold("worker").hand_over()
    assert started == ["lane0", "lane1", "lane2", "lane3"]
    root.hold("worker").hand_over()
    assert started[4:] == ["lane4", "lane5"]
    root.hold("worker").hand_over()
    assert len(started) == 6
    root.clock.sleep(10)
    root.hold("other").hand_over()
    assert len(started) == 6, "another agent's"
    root.hold("worker").hand_over()
    assert started[6:] == ["lane0", "lane1", "lane2", "lane3"]


@pytest.mark.slow
def test_no_worker_is_started_for_a_lane_in_which_it_could_do_nothing(root: Root, started: list[str | None]) -> None:
    blocked, damaged = sent(root, "a-blocked")[0], sent(root, "b-damaged")[0]
    lease = AgentLease.acquire(root.context, blocked)
    assert lease is not None
    lease.log.record(events.Notice(code="blocked", text="processes are left"))
    lease.blocked = "processes are left"
    lease.close()
    assert lanes.indexed_lanes(root.place("worker")) == [blocked, damaged]
    (damaged.journal / "000000000001.jsonl").write_bytes(b"junk\n" * 3)
    root.hold("worker").hand_over()
    assert started == []


def test_a_lane_that_is_left_without_anything_is_not_looked_at_again(root: Root) -> None:
    place, message = sent(root, "mine")
    lease = AgentLease.acquire(root.context, place)
    assert lease is not None
    (entry,) = lease.waiting.scan()
    lease.log.record(events.MessageDead(reason="dropped", detail="why"), message_id=message.id, sync=True)
    lease.log.queue.remove(entry)
    assert lanes.indexed_lanes(root.place("worker")) == [place]
    lease.close()
    assert lanes.indexed_lanes(root.place("worker")) == []


def test_a_finished_lane_whose_holder_was_killed_before_it_took_it_out_is_taken_out(root: Root) -> None:
    over, left = sent(root, "a-over")[0], sent(root, "b-left")[0]
    for name in (over.queue / "new").iterdir():
        name.unlink()
    agent = root.place("worker")
    with try_lock(over.lock):  # type: ignore[union-attr]
        assert list(launch.stranded_lanes(agent)) == [left]
        assert lanes.indexed_lanes(agent) == [over, left], "its holder is at work in it"
    assert list(launch.stranded_lanes(agent)) == [left]
    assert lanes.indexed_lanes(agent) == [left]
