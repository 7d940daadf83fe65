"""Workers: they drain a queue, leave nothing stranded, and stop when asked to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from beam.base import files
from beam.base.errors import DiskError
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import closing, launch
from beam.broker.inbox.waiting import WaitingMessages
from beam.broker.serving import worker
from beam.model.message import Message
from beam.model.outcome import Outcome
from beam.process import tree
from beam.root.paths import AgentPaths
from beam.store.lock import try_lock
from beam.store.queue import Entry
from beam.turns.handle import Stop
from tests.support.cli import eventually
from tests.support.context import Root

Run = Callable[[AgentLease, Entry, Message, Stop], None]


def drain(root: Root, monkeypatch: pytest.MonkeyPatch, run: Run) -> list[str]:
    """Drains `worker` with this in place of turns; the ids of the messages that were run."""
    ran: list[str] = []

    async def instead(lease: AgentLease, entry: Entry, message: Message, stop: Stop) -> Outcome | None:
        ran.append(message.id)
        run(lease, entry, message, stop)
        return None

    monkeypatch.setattr("beam.broker.holder.turn.run", instead)
    asyncio.run(worker.drain(root.context, root.place("worker")))
    return ran


def done(lease: AgentLease, entry: Entry, message: Message, stop: Stop) -> None:
    closing.dead_letter(lease.log, entry, message, "gone", "done")


@pytest.mark.slow
def test_all_that_waits_is_run_in_order(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [root.put("worker", str(number)).id for number in range(3)]
    assert drain(root, monkeypatch, done) == ids
    assert try_lock(root.place("worker").lock) is not None


@pytest.mark.slow
def test_a_message_that_comes_while_the_worker_leaves_is_run(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    first, late = root.put("worker", "1"), root.message("worker", "late")
    real = AgentLease.close

    def closed_then_put(lease: AgentLease) -> None:
        if root.queue("worker").find(late.id) is None and late.id not in lease.log.state.known:
            root.queue("worker").put(late, root.clock, root.context.config.limits)  # its sender sees the lock held
            assert try_lock(lease.log.paths.lock) is None
        real(lease)

    monkeypatch.setattr(AgentLease, "close", closed_then_put)
    assert drain(root, monkeypatch, done) == [first.id, late.id]


def test_a_worker_does_not_wait_for_a_queue_that_somebody_else_holds(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.put("worker")
    with root.hold("worker")._lock:
        assert drain(root, monkeypatch, done) == []


@pytest.mark.slow
def test_a_signal_stops_the_worker_and_what_waits_goes_on_waiting(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = root.put("worker", "1"), root.put("worker", "2")

    def told_to_stop(lease: AgentLease, entry: Entry, message: Message, stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        done(lease, entry, message, stop)

    assert drain(root, monkeypatch, told_to_stop) == [first.id]
    assert root.boxes("worker")["new"] == [second.id]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
def test_a_bug_in_one_turn_is_printed_and_the_rest_goes_on(
    root: Root, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = root.put("worker", "1"), root.put("worker", "2")

    def buggy(lease: AgentLease, entry: Entry, message: Message, stop: Stop) -> None:
        if message.id == first.id:
            raise ZeroDivisionError("in a turn")
        done(lease, entry, message, stop)

    assert drain(root, monkeypatch, buggy) == [first.id] * 3 + [second.id]
    assert capsys.readouterr().err.count("ZeroDivisionError: in a turn") == 3
    assert root.boxes("worker") == {"dead": [first.id, second.id]}


@pytest.mark.slow
def test_a_bug_that_stands_in_the_way_of_everything_ends_the_worker(
    root: Root, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root.put("worker")

    def broken(waiting: WaitingMessages) -> list[Entry]:
        raise ZeroDivisionError("in the queue")

    monkeypatch.setattr(WaitingMessages, "scan", broken)
    with pytest.raises(ZeroDivisionError):
        drain(root, monkeypatch, done)
    assert capsys.readouterr().err.count("ZeroDivisionError: in the queue") == 3
    assert try_lock(root.place("worker").lock) is not None


@pytest.mark.slow
def test_a_disk_error_ends_the_worker(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.put("worker")

    def full(lease: AgentLease, entry: Entry, message: Message, stop: Stop) -> None:
        raise DiskError("can't write: No space left on device")

    with pytest.raises(DiskError):
        drain(root, monkeypatch, full)
    assert try_lock(root.place("worker").lock) is not None


def test_a_worker_is_started_only_where_nobody_holds_the_agent_and_never_for_a_mailbox(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[AgentPaths] = []
    monkeypatch.setattr(launch, "start_worker", lambda context, place: started.append(place))
    lock = try_lock(root.place("worker").lock)
    assert lock is not None
    launch.ensure_worker(root.context, root.place("worker"))
    launch.ensure_worker(root.context, root.place("box"))
    assert started == []
    lock.release()
    launch.ensure_worker(root.context, root.place("worker"))
    assert started == [root.place("worker")]
    assert try_lock(root.place("worker").lock) is not None


@pytest.mark.slow
def test_a_worker_that_can_not_be_started_is_reported(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(root.base / "none"))
    before = sorted(Path("/dev/fd").iterdir())
    with pytest.raises(DiskError, match="can't start a process"):
        launch.start_worker(root.context, root.place("worker"))
    assert sorted(Path("/dev/fd").iterdir()) == before
    assert files.names(root.place("worker").dir).count("worker.log") == 1


@pytest.mark.slow
def test_a_worker_that_ends_first_leaves_nothing_in_the_table_of_processes(root: Root) -> None:
    launch.start_worker(root.context, root.place("worker"))
    (pid,) = tree.spared_pids
    eventually(lambda: not tree.spared_pids)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_a_worker_that_could_not_open_the_files_of_a_turn_begins_none(root: Root) -> None:
    message = root.put("worker")
    argv = [sys.executable, "-m", "beam.broker.serving.worker", str(root.place("worker").dir.parents[1]), "worker"]
    limited = ["bash", "-c", 'ulimit -n "$1"; shift; exec "$@"', "bash", "16", *argv]
    ended = subprocess.run(limited, env={**os.environ, **root.environ}, capture_output=True, check=False, timeout=30)
    assert (ended.returncode, root.boxes("worker")) == (74, {"new": [message.id]}), ended
    assert b"Too many open files" in ended.stderr
    assert root.events("worker") == []
