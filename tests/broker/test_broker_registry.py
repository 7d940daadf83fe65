"""Who serves a root, and how others give way to it."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from beam.base.errors import UsageError
from beam.broker.holder import registry
from beam.broker.holder.registry import BrokerFile, yield_to_broker
from beam.broker.inbox import launch
from beam.process import tree
from beam.root import directories
from beam.store.lock import try_lock
from tests.support.context import Root

TOLD = BrokerFile(owner=tree.this_process(), version="1", started_at="2026-01-01T00:00:00.000Z", poll=1.0, cap=4)


def serve(root: Root, told: BrokerFile) -> None:
    directories.create(root.context.home)
    registry.claim_root(root.context.home, told).release()


def test_a_root_has_one_broker_and_says_which(root: Root) -> None:
    directories.create(root.context.home)
    lock = registry.claim_root(root.context.home, TOLD)
    with pytest.raises(UsageError, match=f"pid {TOLD.owner.pid}"):
        registry.claim_root(root.context.home, TOLD)
    assert registry.running_broker(root.context.home) == TOLD
    registry.release_root(root.context.home, lock)
    assert registry.running_broker(root.context.home) is None


@pytest.mark.parametrize("what", ["removed", "made anew", "lock removed", "lock made anew"])
def test_a_broker_sees_that_the_root_is_not_its_own_any_more_and_leaves_the_file_of_the_next_one(
    root: Root, what: str
) -> None:
    directories.create(root.context.home)
    claimed = registry.claim_root(root.context.home, TOLD)
    assert claimed.why_lost() == ""
    top = root.context.home.root
    if what.startswith("lock"):
        (top / "broker.lock").unlink()
    else:
        shutil.rmtree(top)
    if what == "made anew":
        directories.create(root.context.home)
    if what.endswith("anew"):
        registry.claim_root(root.context.home, TOLD).release()
    assert str(top) in claimed.why_lost()
    registry.release_root(root.context.home, claimed)
    assert registry.broker_file_path(root.context.home).exists() == (what != "removed")


def test_where_no_broker_serves_nobody_waits_for_one(root: Root) -> None:
    assert list(yield_to_broker(root.context, root.place("worker"))) == []


def test_a_broker_that_died_or_is_elsewhere_is_not_waited_for(root: Root) -> None:
    place = root.place("worker")
    dead = msgspec.structs.replace(TOLD.owner, start_ticks=1)
    elsewhere = msgspec.structs.replace(TOLD.owner, host="other", boot_id="other")
    for owner in (dead, elsewhere):
        serve(root, msgspec.structs.replace(TOLD, owner=owner))
        assert list(yield_to_broker(root.context, place)) == []


def test_an_agent_that_is_held_already_is_not_waited_for(root: Root) -> None:
    place = root.place("worker")
    serve(root, TOLD)
    lock = try_lock(place.lock)
    assert lock is not None
    with lock:
        assert list(yield_to_broker(root.context, place)) == []


def test_who_sends_gives_way_until_the_broker_has_taken_the_agent(root: Root) -> None:
    place = root.place("worker")
    serve(root, TOLD)
    steps = yield_to_broker(root.context, place)
    pauses = [next(steps), next(steps)]
    lock = try_lock(place.lock)
    assert lock is not None
    with lock:
        assert list(steps) == []
    assert all(0 < pause < 0.1 for pause in pauses)


@pytest.mark.slow
def test_who_sends_waits_half_a_second_at_most_for_a_broker_that_takes_nothing(root: Root) -> None:
    serve(root, TOLD)
    began = root.clock.elapsed
    for pause in yield_to_broker(root.context, root.place("worker")):
        root.clock.sleep(pause)
    assert 0.4 < root.clock.elapsed - began < 0.6


def test_a_mailbox_is_nobodys_to_take(root: Root) -> None:
    serve(root, TOLD)
    assert list(yield_to_broker(root.context, root.place("box"))) == []


def test_a_broker_of_which_nothing_can_be_read_is_not_waited_for(root: Root) -> None:
    serve(root, TOLD)
    registry.broker_file_path(root.context.home).write_bytes(b"{torn")
    assert list(yield_to_broker(root.context, root.place("worker"))) == []


def test_a_broker_starts_no_worker_for_an_agent_that_it_will_take_itself(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str | None] = []
    monkeypatch.setattr(launch, "start_worker_process", lambda _root, place, _environ: started.append(place.lane))
    monkeypatch.setattr(launch, "served_roots", {root.context.home.root})
    place = root.place("worker")
    launch.ensure_worker(root.context, place)
    lane = root.context.agent_paths("worker", "once")
    directories.create(root.context.home, lane)
    launch.ensure_worker(root.context, lane)
    assert started == ["once"], "nobody serves the lanes of an agent but workers"
    launch.served_roots.clear()
    launch.ensure_worker(root.context, place)
    assert started == ["once", None]
