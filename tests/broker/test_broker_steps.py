"""The broker's loop, one poll at a time on a clock that stands still: turns are answered from recordings."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from beam.base.errors import DiskError
from beam.broker.holder import duty
from beam.broker.inbox import launch
from beam.broker.serving.kind import BROKER, Kind
from beam.broker.serving.roster import ServedAgent
from beam.broker.serving.server import Server
from beam.model import events
from beam.store import lanes
from tests.broker.test_broker_control import ask
from tests.broker.test_turn import Recordings
from tests.support.context import Root


class Story:
    """A broker, or another server, that is polled by hand; `said` is its log."""

    def __init__(self, root: Root, *, kind: Kind = BROKER, **options: Any) -> None:
        self.root = root
        self.said: list[str] = []
        root.context = msgspec.structs.replace(root.context, recordings=Recordings())
        given: Any = {"cap": 2, "poll": 1.0, "poll_only": True, "say": self.said.append, **options}
        self.broker = Server(root.context, kind, **given)

    def poll(self) -> float:
        """Poll once; return the pause until the next poll."""
        self.broker._poll()
        return self.broker._pause_s()

    async def finish(self) -> list[str]:
        """Waits for the turns that run; the agents whose turns they were."""
        busy = [served for served in self.broker.roster.all() if served.is_busy]
        await asyncio.gather(*(cast(Any, served.task) for served in busy))
        return sorted(served.paths.lane or served.paths.agent for served in busy)

    def agent(self, name: str = "worker") -> ServedAgent:
        return self.broker.roster.agents[name]

    def later(self, seconds: float) -> None:
        self.root.clock.sleep(seconds)


def play(root: Root, story: Callable[[Story], Awaitable[None]], **options: Any) -> Story:
    """Plays the story in an event loop; afterwards every agent is released."""
    found: list[Story] = []

    async def played() -> None:
        one = Story(root, **options)
        found.append(one)
        try:
            await story(one)
        finally:
            for served in one.broker.roster.all():
                one.broker.roster.release(served)

    asyncio.run(played())
    return found[0]


@pytest.mark.slow
def test_a_message_is_run_in_the_poll_that_sees_it_and_then_nothing_is_due(root: Root) -> None:
    root.put("worker")

    async def story(it: Story) -> None:
        it.later(5)
        it.poll()
        assert (it.agent().is_busy, it.agent().started, it.agent().next) == (True, 5.0, None)
        assert await it.finish() == ["worker"]
        assert (it.agent().stop, it.agent().is_dirty) == (None, True)
        assert it.poll() == 1.0
        assert (it.agent().is_busy, it.agent().is_dirty, it.agent().look_at) == (False, False, math.inf)

    assert play(root, story).said == []
    assert root.boxes("worker") == {}


@pytest.mark.slow
def test_no_more_turns_run_at_once_than_the_cap_and_who_waited_longest_is_next(root: Root) -> None:
    for agent in ("worker", "other"):
        root.put(agent)
        root.put(agent)

    async def story(it: Story) -> None:
        order = []
        for _ in range(4):
            it.later(1)
            it.poll()
            order.append(await it.finish())
        assert order == [["worker"], ["other"], ["worker"], ["other"]] or order == [
            ["other"], ["worker"], ["other"], ["worker"],
        ]  # fmt: skip

    play(root, story, cap=1)


@pytest.mark.slow
def test_a_broker_without_work_ends_after_its_idle_time(root: Root) -> None:
    root.put("worker")

    async def story(it: Story) -> None:
        it.later(100)
        it.poll()
        await it.finish()
        it.later(3)
        it.poll()
        assert not it.broker.stopping
        it.later(6.5)
        assert it.poll() == 0.5
        assert not it.broker.stopping
        it.later(0.5)
        it.poll()
        assert it.broker.stopping

    assert play(root, story, idle=10.0).said == ["nothing to do for 10s"]


def test_the_pause_is_cut_to_what_is_due_first(root: Root) -> None:
    root.place("worker")

    async def story(it: Story) -> None:
        it.poll()
        served = it.agent()
        served.look_at = 0.25
        assert it.broker._pause_s() == 0.25
        served.not_before = 0.75
        assert it.broker._pause_s() == 0.75
        served.is_dirty = True
        assert it.broker._pause_s() == 0.75
        it.later(2)
        assert it.broker._pause_s() == 0.0
        served.is_dirty, served.look_at = False, math.inf
        assert it.broker._pause_s() == 1.0
        it.broker.idle = 2.5
        assert it.broker._pause_s() == 0.5

    play(root, story)


@pytest.mark.slow
def test_an_agent_that_another_process_holds_is_tried_soon_five_times_and_then_more_rarely(root: Root) -> None:
    root.put("worker")
    other = root.hold("worker")

    async def story(it: Story) -> None:
        waits = []
        for _ in range(7):
            it.poll()
            now = root.clock.elapsed
            waits.append(round(it.agent().not_before - now, 3))
            it.later(waits[-1])
        assert waits == [0.02] * 5 + [0.5] * 2
        assert it.agent().missed == 7
        other.close()
        it.poll()
        assert await it.finish() == ["worker"]
        assert it.agent().missed == 0

    assert play(root, story, poll=0.5).said == []


@pytest.mark.slow
def test_an_agent_that_is_blocked_is_reported_once_and_tried_again_after_five_seconds(root: Root) -> None:
    root.put("worker")
    lease = root.hold("worker")
    elsewhere = events.Owner(pid=1, start_ticks=1, boot_id="b", pid_namespace="n", host="another.host")
    started = events.TurnStarted(owner=elsewhere, turn_key="k", adapter="command", via="exec")
    lease.log.record(started, turn=1, sync=True)
    lease.close()

    async def story(it: Story) -> None:
        for _ in range(3):
            it.poll()
            served = it.agent()
            assert (served.not_before - root.clock.elapsed, served.lease, served.next) == (5.0, None, None)
            assert served.is_dirty
            it.later(5)

    assert play(root, story).said == [
        "worker: blocked: its last turn ran on host another.host (pid 1), whose processes can't be seen from here"
    ]


def test_a_mailbox_is_looked_at_and_let_go(root: Root) -> None:
    root.put("box")

    async def story(it: Story) -> None:
        it.poll()
        assert (it.agent("box").lease, it.agent("box").is_busy, it.agent("box").is_dirty) == (None, False, False)

    play(root, story)
    assert len(root.boxes("box")["new"]) == 1


@pytest.mark.slow
def test_an_agent_that_a_command_wants_is_left_to_it_for_a_second(root: Root) -> None:
    root.place("worker")
    ask(root, "worker", "release")

    async def story(it: Story) -> None:
        it.poll()
        served = it.agent()
        assert (served.lease, served.not_before, served.is_dirty) == (None, 1.0, True)
        it.later(0.5)
        it.poll()
        assert served.lease is None
        it.later(0.5)
        it.poll()
        assert served.lease is not None

    play(root, story)


@pytest.mark.slow
def test_a_message_in_a_folder_without_trust_is_looked_at_every_five_seconds_and_is_no_work(root: Root) -> None:
    root.put("worker")
    root.environ.pop("BEAM_TRUST")
    root.reload()

    async def story(it: Story) -> None:
        it.poll()
        assert (it.agent().look_at, it.agent().waits, it.agent().is_busy) == (5.0, False, False)

    play(root, story)


@pytest.mark.slow
def test_a_message_that_waits_for_its_time_is_due_then_and_keeps_the_broker(root: Root) -> None:
    message = root.put("worker")
    lease = root.hold("worker")
    lease.waiting.scan()
    lease.log.record(
        events.MessageRequeued(attempt=1, reason="retry", not_before="2023-11-14T22:13:27Z"), message_id=message.id
    )
    lease.close()

    async def story(it: Story) -> None:
        it.poll()
        assert (it.agent().look_at, it.agent().waits) == (7.0, True)
        it.later(6.5)
        assert it.poll() == 0.5
        assert not it.broker.stopping
        it.later(0.5)
        it.poll()
        assert await it.finish() == ["worker"]
        it.poll()
        assert it.agent().waits is False

    play(root, story, idle=3.0)


def in_lane(root: Root, lane: str, *, at_s: float = -60.0) -> None:
    """A message in a lane whose own worker should have taken it long ago."""
    root.place("worker")
    paths = root.context.agent_paths("worker", lane)
    from beam.broker.inbox.put import put

    put(root.context, paths, root.message("worker"))
    import os

    when = root.clock.now_ns() + int(at_s * 1e9)
    for path in (
        paths.dir,
        paths.queue / "new",
        *(paths.queue / "new").iterdir(),
        *lanes.index_folder(paths).iterdir(),
    ):
        os.utime(path, ns=(when, when), follow_symlinks=False)


@pytest.mark.slow
def test_lanes_are_run_up_to_the_cap_and_let_go_when_they_are_done(root: Root) -> None:
    for lane in ("l1", "l2", "l3"):
        in_lane(root, lane)

    async def story(it: Story) -> None:
        ran: list[str] = []
        for _ in range(12):
            it.poll()
            assert it.broker.roster.held_lanes() <= 2
            ran += await it.finish()
            it.later(1)
        assert sorted(ran) == ["l1", "l2", "l3"]
        assert it.broker.roster.held_lanes() == 0

    assert play(root, story).said == []


@pytest.mark.slow
def test_a_lane_that_has_no_room_is_put_off_until_another_is_let_go(root: Root) -> None:
    for lane in ("l1", "l2"):
        in_lane(root, lane)

    async def story(it: Story) -> None:
        while not any(lane.is_busy for lane in it.broker.roster.lanes.values()):
            it.poll()
            it.later(1)
        held, put_off = sorted(it.broker.roster.lanes.values(), key=lambda lane: lane.is_deferred)
        assert (held.is_deferred, put_off.is_deferred, put_off.is_dirty, put_off.lease) == (False, True, False, None)
        await it.finish()
        it.broker.roster.release(held)
        assert (put_off.is_deferred, put_off.is_dirty) == (False, True)

    play(root, story, cap=1)


@pytest.mark.slow
def test_what_is_wrong_with_a_lane_is_reported_with_its_name(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    in_lane(root, "l1")

    def fails(*_: object, **__: object) -> None:
        raise DiskError("can't read it")

    async def story(it: Story) -> None:
        monkeypatch.setattr(duty, "step", fails)
        for _ in range(3):
            it.poll()
            it.later(1)

    assert sorted(play(root, story).said) == ["worker (once l1): can't read it", "worker: can't read it"]


@pytest.mark.slow
def test_a_bug_in_the_step_of_one_agent_is_reported_whole_and_the_others_go_on(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.put("worker")
    root.put("other")
    real = duty.step

    def step(lease: Any, **fields: Any) -> duty.DueWork:
        if lease.log.paths.agent == "other":
            raise ZeroDivisionError("in a step")
        return real(lease, **fields)

    async def story(it: Story) -> None:
        monkeypatch.setattr(duty, "step", step)
        it.poll()
        assert await it.finish() == ["worker"]

    trace, line = play(root, story).said
    assert trace.startswith("Traceback (most recent call last):\n") and trace.endswith("ZeroDivisionError: in a step\n")
    assert line == "other: in a step"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "said"), [(DiskError("no space"), ["worker: no space"]), (ZeroDivisionError("a bug"), None)]
)
def test_an_error_in_a_turn_stops_its_agent_only_and_it_is_tried_again(
    root: Root, monkeypatch: pytest.MonkeyPatch, error: Exception, said: list[str] | None
) -> None:
    root.put("worker")

    async def fails(*_: object, **__: object) -> None:
        raise error

    async def story(it: Story) -> None:
        monkeypatch.setattr(duty, "run_first", fails)
        it.poll()
        served = it.agent()
        assert await it.finish() == ["worker"]
        assert (served.lease, served.stop, served.is_dirty, served.not_before) == (None, None, True, 5.0)

    found = play(root, story).said
    assert found == said if said is not None else found[1] == "worker: a bug"


@pytest.mark.slow
def test_a_turn_whose_step_is_of_an_earlier_poll_takes_a_step_of_its_own(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    for agent in ("worker", "other"):
        root.put(agent)
    ways: list[str] = []
    first, following = duty.run_first, duty.run_next

    async def run_first(*args: Any, **fields: Any) -> bool:
        ways.append("with the step of this poll")
        return await first(*args, **fields)

    async def run_next(*args: Any, **fields: Any) -> bool:
        ways.append("with a step of its own")
        return await following(*args, **fields)

    async def story(it: Story) -> None:
        monkeypatch.setattr(duty, "run_first", run_first)
        monkeypatch.setattr(duty, "run_next", run_next)
        it.poll()
        await it.finish()
        it.broker.poll = 100.0
        it.poll()
        await it.finish()

    play(root, story, cap=1)
    assert ways[0] == "with the step of this poll"
    assert "with a step of its own" in ways
    assert root.boxes("other") == root.boxes("worker") == {}


class Kept:
    """Stands in for the lease's end of a kept process."""

    def __init__(self, it: Story, name: str, *, since: float = 0.0, why: str = "") -> None:
        self.ended: list[tuple[str, bool]] = []
        served = it.agent(name)
        assert served.lease is not None
        self.lease = cast(Any, served.lease)
        self.lease.keeper.process = cast(Any, self)
        self.lease.keeper._since = since
        self.lease.keeper._seconds = math.inf
        self.lease.why_kept_ends = lambda: why
        self.lease.end_kept_process = self.end
        self.error: Exception | None = None

    async def end(self, why: str, *, hard: Callable[[], bool]) -> None:
        self.ended.append((why, hard()))
        self.lease.keeper.process = None
        self.lease.why_kept_ends = lambda: ""
        if self.error is not None:
            raise self.error

    def drop(self) -> None:
        pass


def test_a_kept_process_whose_time_is_over_is_ended(root: Root) -> None:
    root.place("worker")

    async def story(it: Story) -> None:
        it.poll()
        kept = Kept(it, "worker", why="its time is over")
        it.poll()
        assert it.agent().is_busy
        assert await it.finish() == ["worker"]
        assert kept.ended == [("its time is over", False)]
        assert it.agent().is_dirty

    play(root, story)


@pytest.mark.parametrize(("error", "lines"), [(DiskError("no space"), 1), (OSError("no"), 1), (ValueError("bug"), 2)])
def test_a_kept_process_that_can_not_be_ended_is_reported(root: Root, error: Exception, lines: int) -> None:
    root.place("worker")

    async def story(it: Story) -> None:
        it.poll()
        Kept(it, "worker", why="its time is over").error = error
        it.poll()
        await it.finish()

    said = play(root, story).said
    assert (said[-1], len(said)) == (f"worker: {error}", lines)


def test_the_kept_processes_over_the_limit_end_those_first_that_were_used_longest_ago(tmp_path: Path) -> None:
    root = Root(tmp_path, limits="{kept: 1}")
    root.place("worker")
    root.place("other")

    async def story(it: Story) -> None:
        it.poll()
        old, new = Kept(it, "worker", since=1.0), Kept(it, "other", since=2.0)
        it.poll()
        await it.finish()
        assert old.ended == [("the broker keeps no more than 1 processes", False)]
        assert new.ended == []
        it.poll()
        await it.finish()
        assert new.ended == []

    play(root, story)


def test_a_changed_configuration_is_read_again_and_every_agent_looked_at(root: Root) -> None:
    root.place("worker")

    async def story(it: Story) -> None:
        it.poll()
        assert not it.agent().is_dirty
        (root.base / "beam.yaml").write_text("agents: {worker: {command: [cat, -u]}}\n")
        it.broker._read_config(retry=False)
        assert it.agent().is_dirty
        assert it.broker.context.config.resolve("worker").settings.command == ("cat", "-u")
        it.broker.context = msgspec.structs.replace(it.broker.context, recordings=Recordings())
        it.poll()
        lease = it.agent().lease
        assert lease is not None and lease.log.context is it.broker.context

    assert play(root, story).said == ["read the configuration again"]


@pytest.mark.slow
def test_a_root_that_is_lost_is_reported_and_nothing_more_is_claimed(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.put("worker")
    ensured: list[object] = []
    monkeypatch.setattr(launch, "ensure_worker", lambda *args: ensured.append(args))

    async def story(it: Story) -> None:
        it.broker.why_lost = lambda: "the root is gone"
        it.poll()
        assert (it.broker.stopping, it.broker.forced, it.broker.roster.all()) == (True, False, [])
        it.broker.why_lost = lambda: ""
        it.broker.stopping = False
        it.poll()
        await it.finish()
        root.put("worker")
        it.broker.lost = "the root is gone"
        it.broker._release_all()
        assert it.agent().lease is None

    assert play(root, story).said == ["the root is gone: nothing more is claimed"]
    assert ensured == []
    root.hold("worker").close()


def test_a_second_request_to_stop_forces_the_turns_to_end(root: Root) -> None:
    async def story(it: Story) -> None:
        it.broker.ask_to_stop()
        assert (it.broker.stopping, it.broker.forced) == (True, False)
        it.broker.ask_to_stop()
        assert (it.broker.stopping, it.broker.forced) == (True, True)

    play(root, story)


@pytest.mark.parametrize("is_forced", [False, True])
def test_turns_that_run_when_a_broker_stops_have_a_time_of_grace_and_are_then_interrupted(
    root: Root, monkeypatch: pytest.MonkeyPatch, is_forced: bool
) -> None:
    root.put("worker")
    stops: list[Any] = []

    async def until_stopped(lease: Any, due: Any, stop: Any, **_: Any) -> None:
        stops.append(stop)
        while stop.reason is None or (is_forced and not stop.hard):
            await asyncio.sleep(0)

    async def story(it: Story) -> None:
        monkeypatch.setattr(duty, "run_first", until_stopped)
        waits: list[float] = []

        async def wait(seconds: float) -> None:
            waits.append(seconds)
            it.later(seconds)
            await asyncio.sleep(0)

        assert it.broker._wake is not None
        monkeypatch.setattr(it.broker._wake, "wait", wait)
        it.poll()
        it.broker.forced = is_forced
        await it.broker._finish(5)
        assert waits[0] == (0.2 if is_forced else 5.0)
        assert (stops[0].reason, stops[0].by, stops[0].hard) == ("interrupted", "the broker's stop", is_forced)
        assert it.agent().lease is not None and it.agent().lease.keeper.keeps is False  # type: ignore[union-attr]

    assert play(root, story).said == ["stopping; 1 turns have 5 s"]


def test_a_broker_that_stops_without_turns_says_nothing_and_ends_what_is_kept(root: Root) -> None:
    root.place("worker")

    async def story(it: Story) -> None:
        it.poll()
        kept = Kept(it, "worker")
        await it.broker._finish(5)
        assert kept.ended == [("the broker stops", False)]

    assert play(root, story).said == []


@pytest.mark.slow
def test_what_waits_when_a_broker_leaves_is_counted_and_only_what_came_since_gets_a_worker(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensured: list[str] = []
    monkeypatch.setattr(launch, "ensure_worker", lambda context, paths: ensured.append(paths.agent))
    root.put("worker")
    root.place("other")

    async def story(it: Story) -> None:
        it.poll()
        await it.finish()
        root.put("worker")
        it.later(1)
        root.put("other")
        root.put("box")
        it.broker._release_all()
        assert all(served.lease is None for served in it.broker.roster.all())

    said = play(root, story).said
    assert said == ["3 messages wait; beam broker start, or beam wait ID, goes on with them"]
    assert ensured == ["box"]


@pytest.mark.slow
def test_a_broker_keeps_processes_of_agents_and_not_of_lanes(root: Root) -> None:
    in_lane(root, "l1")

    async def story(it: Story) -> None:
        while not any(lane.is_busy for lane in it.broker.roster.lanes.values()):
            it.poll()
            it.later(1)
        (lane,) = it.broker.roster.lanes.values()
        assert lane.lease is not None and lane.lease.keeper.keeps is False
        agent = it.agent().lease
        assert agent is not None and agent.keeper.keeps is True
        await it.finish()
        assert it.broker._lane_began == {"worker": lane.started}
        it.agent().is_dirty = False
        agent.calls.on_answer()
        assert it.agent().is_dirty

    play(root, story)


@pytest.mark.slow
def test_a_queue_that_can_not_be_listed_has_nothing_that_waits(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.put("worker")

    async def story(it: Story) -> None:
        it.poll()
        await it.finish()
        assert it.broker._waiting_positions(it.agent()) == []
        root.put("worker")
        assert len(it.broker._waiting_positions(it.agent())) == 1
        assert it.broker._last_waiting_position(it.agent()) == it.broker._waiting_positions(it.agent())[0]
        from beam.store.queue import Queue

        def fails(*_: object) -> None:
            raise DiskError("no")

        monkeypatch.setattr(Queue, "entries", fails)
        assert (it.broker._waiting_positions(it.agent()), it.broker._last_waiting_position(it.agent())) == ([], 0)

    play(root, story)


def test_an_agent_that_was_archived_or_removed_is_not_looked_at(root: Root) -> None:
    root.place("worker").archived.symlink_to("nowhere")
    root.place("other").archived.write_text("")

    async def story(it: Story) -> None:
        it.poll()
        assert (it.agent("other").lease, it.agent("other").is_dirty) == (None, False)

    play(root, story)


def test_requests_that_come_in_a_turn_are_handled_at_once(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    knocked: list[bool] = []
    root.place("worker")

    async def story(it: Story) -> None:
        it.poll()
        lease = cast(Any, it.agent().lease)
        lease.wake_turn = lambda: knocked.append(True)
        it.agent().is_dirty = False
        it.broker._wake = cast(Any, Wakes({it.agent().directories[1]}))
        it.broker._mark_changed()
        assert (it.agent().is_dirty, knocked) == (True, [True])
        it.agent().is_dirty = False
        it.broker._wake = cast(Any, Wakes(set()))
        it.broker._mark_changed()
        assert (it.agent().is_dirty, knocked) == (False, [True])
        it.broker._wake = cast(Any, Wakes(None))
        it.broker._mark_changed()
        assert (it.agent().is_dirty, knocked) == (True, [True] * 2)

    play(root, story, poll=10.0)


class Wakes:
    """A watcher that tells these directories."""

    can_notify = True

    def __init__(self, changed: set[Path] | None) -> None:
        self._changed = changed

    def take_changed(self) -> set[Path] | None:
        return self._changed

    def watch(self, directory: Path) -> None:
        pass

    def end_wait(self) -> None:
        pass
