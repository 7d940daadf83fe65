"""Detached processes: how they are started, and whose log gets what they say."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beam.base.errors import DiskError
from beam.broker.inbox import launch
from beam.process import tree
from tests.support.context import Root


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What processes would be started; each writes a word to its stderr, and is seen off at once."""
    found: list[dict[str, Any]] = []

    def popen(argv: list[str], **fields: Any) -> SimpleNamespace:
        os.write(fields["stderr"], b"said\n")
        found.append({"argv": argv, **fields})
        return SimpleNamespace(pid=2**22 + 1, returncode=None)

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: thread.run())
    return found


def test_a_worker_is_a_process_of_its_own_in_the_project_folder(root: Root, started: list[dict[str, Any]]) -> None:
    paths = root.place("worker")
    launch.start_worker(root.context, paths)
    (call,) = started
    descriptor = call.pop("stderr")
    assert call == {
        "argv": [sys.executable, "-P", "-m", "beam.broker.serving.worker", str(root.context.home.root), "worker"],
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "cwd": root.base,
        "env": root.environ,
        "start_new_session": True,
    }
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert paths.log.read_text() == "said\n"
    assert tree.spared_pids == set()


def test_a_worker_of_a_lane_is_told_which_one(root: Root, started: list[dict[str, Any]]) -> None:
    root.place("worker")
    lane = root.context.agent_paths("worker", "l1")
    lane.log.parent.mkdir(parents=True, exist_ok=True)
    launch.start_worker(root.context, lane)
    assert started[0]["argv"][-3:] == [str(root.context.home.root), "worker", "l1"]


@pytest.mark.parametrize(("size", "kept"), [(256 * 1024, 256 * 1024), (256 * 1024 + 1, 0)])
def test_a_log_is_gone_on_with_until_it_is_large(
    root: Root, started: list[dict[str, Any]], size: int, kept: int
) -> None:
    log = root.place("worker").log
    log.write_bytes(b"x" * size)
    launch.start_worker(root.context, root.place("worker"))
    assert log.read_bytes() == b"x" * kept + b"said\n"


def test_a_process_that_can_not_be_started_is_a_disk_error_and_leaves_nothing_open(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def popen(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    log = root.place("worker").log
    monkeypatch.setattr(subprocess, "Popen", popen)
    before = sorted(Path("/dev/fd").iterdir())
    with pytest.raises(DiskError, match=f"can't start a process in {root.base}"):
        launch.start_module("beam.x", [], root.context.home, {}, log=log)
    assert sorted(Path("/dev/fd").iterdir()) == before
    with pytest.raises(DiskError, match="can't open"):
        launch.start_module("beam.x", [], root.context.home, {}, log=root.base / "none" / "log")


def test_a_process_that_runs_has_been_started_although_no_thread_can_be(
    root: Root, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    launch.start_worker(root.context, root.place("worker"))
    assert len(started) == 1
    tree.spared_pids.clear()


def test_a_process_is_spared_until_it_was_seen_off(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: SimpleNamespace(pid=2**22 + 1, returncode=None))
    monkeypatch.setattr(threading.Thread, "start", lambda thread: threads.append(thread))
    launch.start_worker(root.context, root.place("worker"))
    assert tree.spared_pids == {2**22 + 1}
    (thread,) = threads
    assert thread.daemon
    thread.run()
    assert tree.spared_pids == set()


@pytest.mark.parametrize("is_served", [True, False])
def test_an_agent_that_a_broker_of_this_process_takes_needs_no_worker_and_a_lane_always_gets_one(
    root: Root, monkeypatch: pytest.MonkeyPatch, is_served: bool
) -> None:
    begun: list[str | None] = []
    monkeypatch.setattr(launch, "start_worker", lambda context, paths: begun.append(paths.lane))
    monkeypatch.setattr(launch, "served_roots", {root.context.home.root} if is_served else set())
    launch.ensure_worker(root.context, root.place("worker"))
    launch.ensure_worker(root.context, root.context.agent_paths("worker", "l1"))
    assert begun == (["l1"] if is_served else [None, "l1"])
