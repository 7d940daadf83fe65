"""The broker's loop: whom it looks at, and in which order agents get their turns."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beam.base.clock import SystemClock, rfc3339
from beam.base.errors import DiskError
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import launch, standing
from beam.broker.inbox.context import RootContext
from beam.broker.serving.broker import run
from beam.broker.serving.kind import BROKER
from beam.broker.serving.roster import Roster, ServedAgent
from beam.broker.serving.server import Server
from beam.broker.serving.wake import Wake
from beam.model.events import MessageClaimed, QueuePaused, TurnFinished
from beam.model.message import Options
from beam.model.outcome import Status
from beam.process.inotify import Inotify
from beam.root import discovery
from beam.root.discovery import create
from beam.root.paths import AgentPaths, RootPaths
from beam.store import lanes
from beam.store.lock import try_lock
from beam.store.queue import Queue
from tests.support.context import SECOND_NS, Root
from tests.support.counted import operations


def real_time(root: Root) -> RootContext:
    """The root with a clock that goes, as an event loop needs."""
    context = root.context
    return msgspec.structs.replace(context, clock=SystemClock())


def serve(root: Root, done: list[str], *, cap: int, poll_only: bool = False) -> list[str]:
    """A broker that is stopped once those agents have nothing left; what it said."""
    said: list[str] = []

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=cap, poll=0.05, poll_only=poll_only, say=said.append)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while any(root.boxes(agent) for agent in done):
                await asyncio.sleep(0.01)
        broker.ask_to_stop()
        await serving

    asyncio.run(story())
    return said


@pytest.mark.slow
def test_a_long_queue_keeps_no_other_agent_waiting(tmp_path: Path) -> None:
    root = Root(tmp_path)
    for _ in range(3):
        root.put("worker", options=Options())
    root.clock.sleep(1)
    root.put("other")
    serve(root, ["worker", "other"], cap=1)
    claims = sorted(
        (event.ts, agent)
        for agent in ("worker", "other")
        for event in root.events(agent)
        if isinstance(event, MessageClaimed)
    )
    assert [agent for _, agent in claims] == ["worker", "other", "worker", "worker"]


@pytest.mark.slow
def test_what_came_too_late_for_a_broker_gets_a_worker_when_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    held = try_lock(root.place("worker").lock)
    started: list[str] = []
    monkeypatch.setattr(launch, "start_worker_process", lambda _root, place, _environ: started.append(place.agent))

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=1, poll=0.05, say=lambda _: None)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while "worker" not in broker.roster.agents or not broker.roster.agents["worker"].missed:
                await asyncio.sleep(0.01)
        root.put("worker")  # somebody else has it, and the broker knows that
        broker.ask_to_stop()
        root.put("other")  # it never saw this one
        assert held is not None
        held.release()
        await serving

    asyncio.run(story())
    assert sorted(started) == ["other", "worker"]
    assert launch.served_roots == set()


@pytest.mark.slow
def test_an_agent_that_somebody_had_for_a_moment_is_taken_right_after_it(tmp_path: Path) -> None:
    root = Root(tmp_path)
    held = try_lock(root.place("worker").lock)
    missed: list[int] = []

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=1, poll=60, say=lambda _: None)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while not broker.roster.agents or not broker.roster.agents["worker"].missed:
                await asyncio.sleep(0.001)
            assert held is not None
            held.release()
            missed.append(broker.roster.agents["worker"].missed)
            while broker.roster.agents["worker"].lease is None:
                await asyncio.sleep(0.001)
        broker.ask_to_stop()
        await serving

    asyncio.run(story())
    assert missed[0] <= 5, "later it would have looked once a minute only"


def soon(seconds: float = 0.5) -> str:
    """A deadline that passes while a broker serves."""
    return rfc3339(SystemClock().now_ns() + int(seconds * SECOND_NS))


@pytest.mark.slow
def test_a_broker_gives_up_what_expires_while_the_queue_is_paused(tmp_path: Path) -> None:
    root = Root(tmp_path)
    lease = root.hold("worker")
    lease.log.record(QueuePaused(by="human"))
    lease.close()
    late = root.put("worker", deadline=soon(2.5))  # a directory that changed a second ago is looked at again anyway

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=1, poll=0.05, say=lambda _: None)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while root.boxes("worker") != {"dead": [late.id]}:
                await asyncio.sleep(0.01)
        broker.ask_to_stop()
        await serving

    asyncio.run(story())


@pytest.mark.slow
def test_a_broker_gives_up_what_expires_while_other_agents_have_all_its_turns(tmp_path: Path) -> None:
    root = Root(tmp_path)

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=1, poll=0.05, say=lambda _: None)
        root.place("worker")
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while "worker" not in broker.roster.agents:
                await asyncio.sleep(0.01)
            busy = broker.roster.agents["worker"]
            busy.task = asyncio.get_running_loop().create_task(asyncio.sleep(60))
            late = root.put("other", deadline=soon())
            while root.boxes("other") != {"dead": [late.id]}:
                await asyncio.sleep(0.01)
            busy.task.cancel()
        broker.ask_to_stop()
        await serving

    asyncio.run(story())


@pytest.mark.slow
def test_a_broker_that_only_polls_sees_everything_too(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.put("worker")
    serve(root, ["worker"], cap=2, poll_only=True)
    assert root.boxes("worker") == {}


@pytest.mark.slow
def test_a_link_in_place_of_an_agent_is_reported_and_the_others_are_served(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.put("worker")
    root.put("other")
    place = root.place("other").dir
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")

    async def story() -> list[str]:
        said: list[str] = []
        broker = Server(real_time(root), BROKER, cap=2, poll=0.05, say=said.append)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while root.boxes("worker") or not any("symbolic link" in line for line in said):
                await asyncio.sleep(0.01)
        broker.ask_to_stop()
        await serving
        return said

    assert any(line.startswith("other: ") for line in asyncio.run(story()))


def test_an_agent_is_looked_at_again_when_its_directories_changed_or_may_have(tmp_path: Path) -> None:
    root = Root(tmp_path)
    served = ServedAgent(root.place("worker"))
    long_ago = root.clock.now - 100 * SECOND_NS
    for directory in served.directories:
        os.utime(directory, ns=(long_ago, long_ago))

    def looked(now_ns: int) -> bool:
        served.is_dirty = False
        served.compare_stamps(now_ns)
        return served.is_dirty

    assert looked(root.clock.now)  # the first time
    assert not looked(root.clock.now)
    os.utime(served.directories[0], ns=(root.clock.now, root.clock.now))
    assert looked(root.clock.now + 1)
    assert looked(root.clock.now + 2)  # it changed just now: the next change may bear the same time
    assert looked(root.clock.now + 2 * SECOND_NS)
    assert not looked(root.clock.now + 2 * SECOND_NS)


def test_an_agents_lanes_are_listed_again_only_when_their_directory_changed_or_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    lane = root.place("worker").lane_of("one")
    create(root.context.home, lane)
    lanes.add_to_index(lane)
    served = ServedAgent(root.place("worker"))
    listed: list[AgentPaths] = []
    entered = lanes.indexed_lanes
    monkeypatch.setattr(lanes, "indexed_lanes", lambda place: listed.append(place) or entered(place))
    long_ago = root.clock.now - 100 * SECOND_NS
    for directory in (lanes.index_folder(lane), lane.dir.parent):
        os.utime(directory, ns=(long_ago, long_ago))
    watched: list[Path] = []
    assert [served.unfinished_lanes(root.clock.now, watched.append) for _ in range(3)] == [[lane]] * 3
    assert len(listed) == 1
    assert watched == [lanes.index_folder(lane)]
    (lanes.index_folder(lane) / "one").unlink()
    os.utime(lanes.index_folder(lane), ns=(root.clock.now, root.clock.now))
    assert [served.unfinished_lanes(root.clock.now + 1, watched.append) for _ in range(2)] == [[]] * 2
    assert len(listed) == 3, "the next change may bear the same time"


def test_an_agent_without_lanes_costs_one_look_until_it_has_one(tmp_path: Path) -> None:
    root = Root(tmp_path)
    place = root.place("worker")
    served = ServedAgent(place)
    long_ago = root.clock.now - 100 * SECOND_NS
    os.utime(place.dir, ns=(long_ago, long_ago))
    found: list[list[AgentPaths]] = []

    def look() -> None:
        found.append(served.unfinished_lanes(root.clock.now, lambda path: None))

    look()
    assert operations(look) == {"stat": 1}
    lane = place.lane_of("one")
    create(root.context.home, lane)
    lanes.add_to_index(lane)
    look()
    assert found == [[], [], [lane]]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of changes")
def test_a_broker_that_has_nothing_to_do_asks_to_be_told_of_each_directory_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    root.place("worker")
    asked: list[Path] = []
    add = Inotify.add

    def counted(self: Inotify, path: Path, mask: int) -> int:
        asked.append(path)
        return add(self, path, mask)

    monkeypatch.setattr(Inotify, "add", counted)

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=1, poll=0.02, say=lambda line: None)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while root.context.home.root / "agents" not in asked:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)  # it looks again and again
        broker.ask_to_stop()
        await serving

    asyncio.run(story())
    assert max(Counter(asked).values()) == 1


class Circle:
    """What only the collector of garbage can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.slow
def test_garbage_does_not_lie_for_long_in_a_broker_although_a_command_lets_it(tmp_path: Path) -> None:
    root = Root(tmp_path)
    said: list[str] = []
    made: list[weakref.ref[Circle]] = []

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("serving"):
            made.extend(weakref.ref(Circle()) for _ in range(10_000))
            os.kill(os.getpid(), signal.SIGTERM)

    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 100)  # as `beam` begins
    try:
        asyncio.run(run(real_time(root), cap=1, poll=0.05, poll_only=True, grace=1, say=say))
        lying = sum(each() is not None for each in made)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    assert said[-1] == "stopped"
    assert lying < 5_000


@pytest.mark.slow
def test_a_bug_with_one_agents_files_ends_no_broker_and_no_other_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    root.put("worker")
    root.put("other")
    acquire = AgentLease.acquire.__func__  # type: ignore[attr-defined]

    def taken(cls: type[AgentLease], context: RootContext, place: AgentPaths) -> AgentLease | None:
        if place.agent == "worker":
            raise RecursionError("deeper than anybody thought")
        found: AgentLease | None = acquire(cls, context, place)
        return found

    monkeypatch.setattr(AgentLease, "acquire", classmethod(taken))
    said = serve(root, ["other"], cap=2)
    assert any("deeper than anybody thought" in line for line in said)
    assert root.boxes("worker")["new"]


def watched(root: Root, *steps: tuple[Callable[[], object], str]) -> list[str]:
    """What a broker says while each step is done and it has said those words; anything is an end of it."""
    said: list[str] = []

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=1, poll=0.02, poll_only=True, say=said.append)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            for step, words in steps:
                before = len(said)
                step()
                while not any(words in line for line in said[before:]):
                    await asyncio.sleep(0.01)
        broker.ask_to_stop()
        await serving

    asyncio.run(story())
    return said


def test_a_beam_yaml_that_others_may_write_is_seen_also_where_only_that_changed(tmp_path: Path) -> None:
    root = Root(tmp_path)
    config = root.base / "beam.yaml"
    config.write_text("agents: {a: {command: [cat]}}\n")
    config.chmod(0o600)
    said = watched(
        root,
        (lambda: config.chmod(0o666), "the old configuration stays"),
        (lambda: config.chmod(0o600), "read the configuration again"),
    )
    assert sum("the old configuration stays" in line for line in said) == 1


@pytest.mark.slow
def test_a_configuration_that_could_not_be_read_is_read_once_nothing_is_wrong_any_more(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.put("worker")
    folder = root.context.home.root

    def changed_in_a_folder_that_others_may_write() -> None:
        folder.chmod(0o777)
        (root.base / "beam.yaml").write_text("agents: {a: {command: [cat, '-']}}\n")

    watched(
        root,
        (changed_in_a_folder_that_others_may_write, "the old configuration stays"),
        (lambda: folder.chmod(0o700), "read the configuration again"),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("moment_s", "times"), [(60.0, 1), (0.0, 2)])
def test_whether_a_message_may_run_is_looked_at_before_the_claim_and_again_if_its_turn_begins_later(
    moment_s: float, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    is_exposed, stands = discovery.exposing_folder, standing.check_folder

    def where(*args: Any) -> Path | None:
        looked.append("the root's place")
        return is_exposed(*args)

    def how(*args: Any) -> standing.FolderStanding:
        looked.append("the folder")
        return stands(*args)

    monkeypatch.setattr(discovery, "exposing_folder", where)
    monkeypatch.setattr(standing, "check_folder", how)
    monkeypatch.setattr(standing, "_MOMENT_S", moment_s)
    root = Root(tmp_path)
    root.put("worker")
    serve(root, ["worker"], cap=1)
    # Before the claim, so that it can go on waiting; for the turn, so that this is refused.
    assert Counter(looked) == {"the root's place": times, "the folder": times}


@pytest.mark.slow
def test_a_message_that_waits_for_another_agents_turn_stays_waiting_when_trust_lapses_meanwhile(tmp_path: Path) -> None:
    root = Root(tmp_path)
    until_go = "while [ ! -e go ]; do sleep 0.05; done"
    (root.base / "beam.yaml").write_text(
        f"agents: {{first: {{command: [sh, -c, '{until_go}']}}, second: {{command: [cat]}}}}\n"
    )
    root.reload()
    root.put("first")
    waiting = root.put("second")

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=1, poll=0.05, say=lambda _: None)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while not (served := broker.roster.agents.get("second")) or served.next is None or served.stamps is None:
                await asyncio.sleep(0.01)
            root.environ.pop("BEAM_TRUST")  # by now nothing else would have the second looked at again
            (root.base / "go").touch()
            while root.boxes("first"):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
        broker.ask_to_stop()
        await serving

    asyncio.run(story())
    assert root.boxes("second") == {"new": [waiting.id]}


class Unlisted:
    """The directory of the agents, which can't be listed while `is_on`. `asked` counts how often it was then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_on, self.asked = False, 0
        agents = RootPaths.agents

        def listed(home: RootPaths) -> list[str]:
            if not self.is_on:
                return agents(home)
            self.asked += 1
            raise DiskError("can't read agents: Too many open files", "raise `ulimit -n`")

        monkeypatch.setattr(RootPaths, "agents", listed)


@pytest.mark.slow
@pytest.mark.parametrize("poll_only", [True, False])
def test_a_listing_that_fails_ends_no_turn_is_said_once_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poll_only: bool
) -> None:
    root = Root(tmp_path)
    until_go = "while [ ! -e go ]; do sleep 0.05; done; echo done"
    (root.base / "beam.yaml").write_text(
        f"agents: {{first: {{command: [sh, -c, '{until_go}']}}, second: {{command: [cat]}}, third: {{command: [cat]}}}}"
    )
    root.reload()
    root.put("first")
    root.place("second")
    unlisted = Unlisted(monkeypatch)
    said: list[str] = []

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=2, poll=0.05, poll_only=poll_only, say=said.append)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while not (served := broker.roster.agents.get("first")) or not served.is_busy:
                await asyncio.sleep(0.01)
            unlisted.is_on = True
            root.put("second")
            while unlisted.asked < 3 or root.boxes("second"):
                await asyncio.sleep(0.01)
            unlisted.is_on = False
            root.put("third")
            (root.base / "go").touch()
            while root.boxes("first") or root.boxes("third"):
                await asyncio.sleep(0.01)
        broker.ask_to_stop()
        await serving

    asyncio.run(story())
    statuses = [event.status for event in root.events("first") if isinstance(event, TurnFinished)]
    assert statuses == [Status.COMPLETED]
    said_about = [line for line in said if "Too many open files" in line]
    assert said_about == [
        "can't look for new agents and lanes: can't read agents: Too many open files (raise `ulimit -n`)"
    ]


@pytest.mark.slow
def test_a_broker_that_can_not_list_the_agents_when_it_stops_releases_those_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    unlisted = Unlisted(monkeypatch)
    said: list[str] = []
    root.place("worker")
    root.place("other")
    started: list[str] = []

    def start(_: RootContext, place: AgentPaths) -> None:
        started.append(place.agent)
        raise DiskError(f"can't start a process for {place.agent}")

    let_go = Roster.release

    def let_go_and_send(self: Roster, served: ServedAgent) -> None:
        let_go(self, served)
        root.put(served.paths.agent)  # by who saw the lock taken

    monkeypatch.setattr(launch, "start_worker", start)
    monkeypatch.setattr(Roster, "release", let_go_and_send)

    async def story() -> None:
        broker = Server(real_time(root), BROKER, cap=1, poll=0.05, say=said.append)
        serving = asyncio.get_running_loop().create_task(broker.serve(grace=5))
        async with asyncio.timeout(30):
            while not broker.roster.agents or not all(served.lease for served in broker.roster.agents.values()):
                await asyncio.sleep(0.01)
        unlisted.is_on = True
        broker.ask_to_stop()
        await serving

    asyncio.run(story())
    for name in ("worker", "other"):
        lock = try_lock(root.place(name).lock)
        assert lock is not None
        lock.release()
    assert sorted(started) == ["other", "worker"]
    assert said == [
        "can't look for new agents: can't read agents: Too many open files (raise `ulimit -n`)",
        "other: no process could be started for what waits: can't start a process for other",
        "worker: no process could be started for what waits: can't start a process for worker",
        "2 messages wait; beam broker start, or beam wait ID, goes on with them",
    ]


@pytest.mark.slow
def test_a_lane_whose_messages_can_not_be_listed_keeps_no_other_lane_from_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    places = [root.place("worker").lane_of(name) for name in ("one", "two")]
    for lane in places:
        create(root.context.home, lane)
        lanes.add_to_index(lane)
        lane_queue = Queue(lane.queue, lane.put_lock)
        assert lane_queue.put(root.message("worker"), root.clock, root.context.config.limits)
    own_s = launch.own_worker_seconds

    def seconds(lane: AgentPaths, now_ns: int) -> float:
        if lane.lane == "one":
            raise DiskError("can't list one")
        return own_s(lane, now_ns)

    monkeypatch.setattr(launch, "own_worker_seconds", seconds)

    async def story() -> tuple[dict[str | None, float], float]:
        roster, wake, context = Roster(), Wake(poll_only=True), real_time(root)
        roster.adopt_agents(context, wake)
        roster.adopt_lanes(context, wake, {})
        wake.close()
        return {lane.lane: served.not_before for lane, served in roster.lanes.items()}, context.clock.monotonic()

    found, now = asyncio.run(story())
    assert sorted(map(str, found)) == ["one", "two"]
    assert found["one"] > now, "its own worker may be starting"
