"""A worker's process: its arguments, its lanes, and what it says where something is wrong."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec
import pytest

from beam.base import files, own_program
from beam.base.clock import SystemClock
from beam.base.errors import DiskError, UsageError
from beam.broker.inbox import launch
from beam.broker.inbox.context import RootContext
from beam.broker.inbox.put import put
from beam.broker.serving import worker
from beam.root.paths import AgentPaths
from beam.store.lock import try_lock
from beam.store.segment import read_state
from tests.support.context import Root


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RootContext, AgentPaths]]:
    found: list[tuple[RootContext, AgentPaths]] = []

    async def serve(context: RootContext, paths: AgentPaths) -> None:
        found.append((context, paths))

    monkeypatch.setattr(worker, "drain_with_lanes", serve)
    monkeypatch.setattr(own_program, "prepare_long_run", lambda: None)  # this process goes on
    return found


@pytest.mark.slow
@pytest.mark.parametrize("lane", [None, "l1"])
def test_a_worker_serves_the_agent_or_lane_that_its_arguments_name(
    root: Root, served: list[tuple[RootContext, AgentPaths]], monkeypatch: pytest.MonkeyPatch, lane: str | None
) -> None:
    root.place("worker")
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in root.environ.items():
        monkeypatch.setenv(name, value)
    arguments = [str(root.context.home.root), "worker", *([lane] if lane is not None else [])]
    assert worker.main(arguments) == 0
    ((context, paths),) = served
    assert (paths.agent, paths.lane, paths.dir.is_relative_to(root.context.home.root)) == ("worker", lane, True)
    assert (context.home.root, context.environ) == (root.context.home.root, root.environ)
    assert context.carry_out.__name__ == "carry_out"


def test_what_is_wrong_is_reported_with_the_arguments_and_its_exit_code(
    root: Root, served: list[object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root.place("worker")

    def short(count: int) -> None:
        raise DiskError(f"no {count} descriptors", "raise the limit")

    monkeypatch.setattr(files, "check_descriptors", short)
    monkeypatch.setenv("BEAM_TRUST", "1")
    argv = [str(root.context.home.root), "worker"]
    assert worker.main(argv) == 74
    said = capsys.readouterr().err
    assert said.startswith(f"beam worker {argv[0]} worker: no {files.TURN_DESCRIPTORS} descriptors")
    assert said.endswith("\n")
    assert served == []


class Lanes:
    """Stranded lanes of `worker`; each is drained once, in order."""

    def __init__(self, root: Root, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.root = root
        self.drained: list[str | None] = []
        self.own_s: dict[str, list[float]] = {}
        self.ends: dict[str | None, Any] = {}
        self.slept: list[float] = []
        self.lanes = [root.context.agent_paths("worker", name) for name in names]
        monkeypatch.setattr(launch, "stranded_lanes", lambda paths: iter(self.lanes))
        monkeypatch.setattr(
            launch, "own_worker_seconds", lambda lane, now_ns: (self.own_s.get(lane.lane) or [0.0]).pop(0)
        )
        monkeypatch.setattr(worker, "drain", self.drain)
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    async def drain(self, context: RootContext, paths: AgentPaths) -> bool:
        self.drained.append(paths.lane)
        end = self.ends.get(paths.lane, True)
        if isinstance(end, Exception):
            raise end
        return bool(end)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def serve(self) -> list[str | None]:
        asyncio.run(worker.drain_with_lanes(self.root.context, self.root.place("worker")))
        return self.drained


def test_after_its_queue_a_worker_drains_each_stranded_lane_once(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Lanes(root, monkeypatch, "l1", "l2").serve() == [None, "l1", "l2"]


def test_a_lane_is_left_to_its_own_worker_for_its_time(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = Lanes(root, monkeypatch, "l1")
    lanes.own_s = {"l1": [1.5, 0.5, 0.0]}
    assert (lanes.serve(), lanes.slept) == ([None, "l1"], [1.5, 0.5])


@pytest.mark.parametrize(("stops", "drained"), [(None, [None]), ("l1", [None, "l1"])])
def test_a_worker_that_was_asked_to_stop_drains_no_more_lanes(
    root: Root, monkeypatch: pytest.MonkeyPatch, stops: str | None, drained: list[str | None]
) -> None:
    lanes = Lanes(root, monkeypatch, "l1", "l2")
    lanes.ends = {stops: False}
    assert lanes.serve() == drained


def test_a_lane_that_can_not_be_drained_is_reported_and_the_next_one_is(
    root: Root, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lanes = Lanes(root, monkeypatch, "l1", "l2")
    lanes.ends = {"l1": DiskError("can't read x")}
    assert lanes.serve() == [None, "l1", "l2"]
    assert capsys.readouterr().err == "beam worker: lane l1 of worker: can't read x\n"


def test_an_error_of_the_queue_itself_ends_the_worker(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = Lanes(root, monkeypatch, "l1")
    lanes.ends = {None: UsageError("no")}
    with pytest.raises(UsageError):
        lanes.serve()


@pytest.mark.slow
@pytest.mark.parametrize(("lane", "is_run"), [("l1", True), (None, False)])
def test_the_lock_of_a_lane_is_tried_a_few_times_because_a_check_may_hold_it(
    root: Root, lane: str | None, is_run: bool
) -> None:
    root.place("worker")
    paths = root.context.agent_paths("worker", lane)
    put(root.context, paths, root.message("worker"))
    other = try_lock(paths.lock)
    assert other is not None
    context = msgspec.structs.replace(root.context, clock=SystemClock())

    async def drained() -> None:
        asyncio.get_running_loop().call_later(0.03, other.release)
        assert await worker.drain(context, paths)

    asyncio.run(drained())
    other.release()
    assert read_state(paths.journal).turn == int(is_run)
