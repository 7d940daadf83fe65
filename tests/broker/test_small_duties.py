"""What a lease, the waiting messages, a mailbox and the roster do where something is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beam.base.errors import CorruptError, DiskError, LimitError, NotFoundError, UnfinishedError, UsageError
from beam.broker.asking import mailbox
from beam.broker.holder import recovery, registry
from beam.broker.holder.lease import AgentLease, session_lock
from beam.broker.holder.registry import BrokerFile
from beam.broker.inbox import closing, failure, launch
from beam.broker.inbox.context import RootContext
from beam.broker.serving.roster import Roster
from beam.model import events
from beam.model.message import Spent
from beam.model.outcome import Class, Status
from beam.process import tree
from beam.root import directories
from beam.root.paths import AgentPaths
from beam.store import control, lanes
from beam.store.journal import Journal
from beam.store.lock import try_lock
from beam.store.queue import Entry, Queue
from tests.broker.test_broker_control import ask
from tests.support.context import Root


def told(root: Root, kind: type[events.Event], agent: str = "worker") -> list[Any]:
    return [event for event in root.events(agent) if isinstance(event, kind)]


# -- the lease ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["journal", "recovery"])
def test_a_lease_that_can_not_begin_leaves_the_agent_free(
    root: Root, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise DiskError("can't read")

    paths = root.place("worker")
    with monkeypatch.context() as broken:
        if where == "journal":
            broken.setattr(Journal, "open", fails)
        else:
            broken.setattr(recovery, "recover", fails)
        with pytest.raises(DiskError, match="can't read"):
            AgentLease.acquire(root.context, paths)
    lock = try_lock(paths.lock)
    assert lock is not None
    lock.release()


def test_a_lease_that_is_closed_ends_what_it_kept(root: Root) -> None:
    lease = root.hold("worker")
    dropped: list[bool] = []
    lease.keeper.process = cast(Any, SimpleNamespace(drop=lambda: dropped.append(True)))
    held = session_lock(root.context, "command", "s")
    with contextlib.ExitStack() as stack:
        stack.enter_context(held)
        lease.kept_session.keep("command", "s", stack.pop_all())
    lease.close()
    assert dropped == [True]
    with session_lock(root.context, "command", "s"):
        pass


@pytest.mark.slow
def test_a_lease_that_is_handed_over_starts_a_worker_for_what_waits(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    rescued: list[str] = []
    monkeypatch.setattr(launch, "start_worker", lambda context, paths: started.append(paths.agent))
    monkeypatch.setattr(launch, "start_lane_workers", lambda context, paths: rescued.append(paths.agent))
    assert root.hold("worker").hand_over() is False
    root.put("worker")
    lease = root.hold("worker")
    lease.close()
    assert lease.has_runnable_work()
    assert (started, rescued) == ([], ["worker"])
    assert root.hold("worker").hand_over() is True
    lease = root.hold("worker")
    lease.blocked = "why"
    assert lease.hand_over() is False
    assert (started, rescued) == (["worker"], ["worker"] * 3)


@pytest.mark.slow
def test_a_turn_that_is_over_keeps_its_outcome_if_no_worker_can_be_started_for_the_next(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def start(context: RootContext, paths: AgentPaths) -> None:
        tried.append(paths.agent)
        raise DiskError("no process can be started")

    monkeypatch.setattr(launch, "start_worker", start)
    root.put("worker")
    with pytest.raises(DiskError):
        root.hold("worker").hand_over()
    root.hold("worker").hand_over_after_turn()
    assert tried == ["worker", "worker"]
    assert root.hold("worker").has_waiting_work()


@pytest.mark.slow
def test_what_waits_for_a_holder_is_a_request_or_a_message_that_may_run(root: Root) -> None:
    lease = root.hold("worker")
    assert not lease.has_waiting_work()
    root.put("worker")
    assert lease.has_waiting_work()
    lease.log.record(events.QueuePaused())
    assert not lease.has_waiting_work()
    wish = ask(root, "worker", "resume")
    assert lease.has_waiting_work()
    control.remove(root.place("worker").control, f"{wish.id}.json")
    lease.log.record(events.QueueResumed())
    assert lease.has_waiting_work()
    lease.close()
    root.put("box")
    box = root.hold("box")
    assert not box.has_waiting_work()
    box.close()


class Kept:
    """A kept process."""

    def __init__(self, *, why: str = "") -> None:
        self.why, self.asked, self.ended = why, list[Any](), list[Any]()
        self.process: Any = self

    def reason_to_end(self, session_id: str | None) -> str:
        self.asked.append(session_id)
        return self.why

    async def end(self, why: str, *, hard: Any) -> None:
        self.ended.append((why, hard()))
        raise DiskError("full")

    def drop(self) -> None:
        pass


@pytest.mark.slow
def test_a_kept_process_ends_when_its_queue_is_paused_its_agent_is_gone_or_it_says_so(root: Root) -> None:
    lease = root.hold("worker")
    assert lease.why_kept_ends() == ""
    kept = Kept(why="its time is over")
    lease.keeper = cast(Any, kept)
    assert (lease.why_kept_ends(), kept.asked) == ("its time is over", [None])
    lease.log.record(events.SessionStarted(session_id="s-1"))
    assert (lease.why_kept_ends(), kept.asked) == ("its time is over", [None, "s-1"])
    lease.log.record(events.QueuePaused())
    assert lease.why_kept_ends() == "its queue was paused"
    lease.log.record(events.QueueResumed())
    (root.base / "beam.yaml").write_text("agents: {other: {command: [cat]}}\n")
    lease.log.context = root.reload()
    assert lease.why_kept_ends() == "the agent is not declared any more"
    with pytest.raises(DiskError):
        asyncio.run(lease.end_kept_process("why", hard=lambda: True))
    assert kept.ended == [("why", True)]
    lease.close()


def test_a_lease_whose_lock_file_can_not_be_looked_at_is_over(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = root.hold("worker")
    assert lease.is_in_place()

    def fails() -> bool:
        raise OSError(5, "no")

    monkeypatch.setattr(lease._lock, "is_in_place", fails)
    assert not lease.is_in_place()
    lease.close()


# -- waiting messages --------------------------------------------------------------------------------------------------


def test_a_message_that_can_not_be_read_is_a_dead_letter_and_one_that_is_gone_is_none(root: Root) -> None:
    message = root.put("worker")
    lease = root.hold("worker")
    (entry,) = lease.log.queue.entries("new")
    path = lease.log.queue.path(entry)
    data = path.read_bytes()
    path.unlink()
    assert lease.waiting.read(entry) is None
    assert root.boxes("worker") == {}
    path.mkdir()
    assert lease.waiting.read(entry) is None
    path = lease.log.queue.path(Entry(entry.position, entry.id, "dead"))
    assert path.is_dir()
    (dead,) = told(root, events.MessageDead)
    assert (dead.reason, dead.status, dead.class_, dead.attempt, dead.file) == (
        "corrupt", Status.FAILED, Class.BAD_REQUEST, 1, entry.name,
    )  # fmt: skip
    assert (data != b"", dead.message_id) == (True, message.id)
    path.rmdir()
    lease.close()


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"to": "other"}, "the file of {id} holds {id} to other"),
        ({"deadline": "soon"}, None),
    ],
)
def test_a_message_that_says_what_can_not_be_is_a_dead_letter(
    root: Root, fields: dict[str, Any], detail: str | None
) -> None:
    message = msgspec.structs.replace(root.message("worker"), **fields)
    root.queue("worker").put(message, root.clock, root.context.config.limits)
    lease = root.hold("worker")
    assert lease.waiting.scan() == []
    (dead,) = told(root, events.MessageDead)
    if detail is None:
        assert dead.detail.startswith("its deadline is no time: ")
    else:
        assert dead.detail == detail.format(id=message.id)
    lease.close()


def test_a_disk_that_fails_makes_no_dead_letter(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.put("worker")
    lease = root.hold("worker")
    (entry,) = lease.log.queue.entries("new")

    def fails(*_: Any) -> None:
        raise DiskError("can't read") from OSError(5, "Input/output error")

    monkeypatch.setattr(Queue, "read", fails)
    with pytest.raises(DiskError, match="can't read"):
        lease.waiting.read(entry)
    assert told(root, events.MessageDead) == []
    lease.close()


def test_an_id_that_was_used_for_another_text_is_a_dead_letter_and_an_older_attempt_goes(root: Root) -> None:
    message = root.put("worker", "one")
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    closing.dead_letter(lease.log, entry, message, "failed", "why")
    other = msgspec.structs.replace(message, payload=msgspec.structs.replace(message.payload, text="two"))
    root.queue("worker").put(other, root.clock, root.context.config.limits)
    assert lease.waiting.scan() == []
    dead = told(root, events.MessageDead)[-1]
    assert (dead.reason, dead.detail, dead.class_) == (
        "id_reused",
        f"{message.id} was used before, for another text",
        Class.BAD_REQUEST,
    )
    lease.close()


# -- mailboxes, registries, budgets ------------------------------------------------------------------------------------


def test_a_mailbox_that_another_process_holds_is_waited_for_and_then_refused(root: Root) -> None:
    other = root.hold("box")
    steps = mailbox._acquire_lease(root.context, root.place("box"))
    with pytest.raises(UnfinishedError) as error:
        for pause in steps:
            root.clock.sleep(max(pause, 0.5))
    assert (error.value.message, error.value.hint, error.value.subject) == (
        "box is held by another process",
        "try again",
        "box",
    )
    assert root.clock.elapsed > 2
    other.close()


@pytest.mark.parametrize("is_blocked", [True, False])
def test_a_mailbox_that_can_not_be_used_is_let_go(
    root: Root, monkeypatch: pytest.MonkeyPatch, is_blocked: bool
) -> None:
    from beam.broker.holder import duty

    def step(lease: Any, **_: Any) -> duty.DueWork:
        if is_blocked:
            return duty.DueWork(blocked="why")
        raise DiskError("can't read")

    monkeypatch.setattr(duty, "step", step)
    with pytest.raises(UnfinishedError if is_blocked else DiskError) as error:
        for _ in mailbox._acquire_lease(root.context, root.place("box")):
            pass
    assert error.value.message == ("box is blocked: why" if is_blocked else "can't read")
    root.hold("box").close()


def test_an_answer_to_a_message_whose_file_is_gone_is_refused(root: Root) -> None:
    message = root.put("box")
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    lease = root.hold("box")
    for entry in lease.log.queue.entries("cur"):
        lease.log.queue.remove(entry)
    lease.close()
    with pytest.raises(NotFoundError):
        mailbox.reply(root.context, root.place("box"), message.id, "x", failed=False)


def test_a_broker_that_can_not_be_told_of_releases_the_root(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    home = root.context.home
    directories.create(home)
    entry = BrokerFile(owner=tree.this_process(), version="1", started_at="t", poll=1.0, cap=4)

    def fails(*_: Any) -> None:
        raise DiskError("full")

    with monkeypatch.context() as broken:
        broken.setattr(registry.files, "replace", fails)
        with pytest.raises(DiskError):
            registry.claim_root(home, entry)
    with monkeypatch.context() as broken:
        broken.setattr(registry, "Claim", fails)
        with pytest.raises(DiskError):
            registry.claim_root(home, entry)
    claimed = registry.claim_root(home, entry)
    assert registry.read_broker_file(home) == entry
    assert (registry.broker_file_path(home).name, registry.log_path(home).name) == ("broker.json", "broker.log")
    with pytest.raises(UsageError) as taken:
        registry.claim_root(home, entry)
    assert (taken.value.message, taken.value.hint) == (
        f"a broker already serves {home.root} (pid {os.getpid()})",
        "beam broker status; beam broker stop",
    )
    registry.release_root(home, claimed)
    assert registry.read_broker_file(home) is None


@pytest.mark.parametrize("data", [b"{", b"{}", b"[1]"])
def test_a_damaged_broker_file_is_reported(root: Root, data: bytes) -> None:
    directories.create(root.context.home)
    registry.broker_file_path(root.context.home).write_bytes(data)
    with pytest.raises(CorruptError) as error:
        registry.read_broker_file(root.context.home)
    assert error.value.message.startswith(f"{registry.broker_file_path(root.context.home)} is damaged: ")
    assert error.value.hint == "remove it"


def test_a_root_that_is_gone_is_lost(root: Root) -> None:
    home = root.context.home
    directories.create(home)
    entry = BrokerFile(owner=tree.this_process(), version="1", started_at="t", poll=1.0, cap=4)
    claimed = registry.claim_root(home, entry)
    assert claimed.why_lost() == ""
    (home.root / "broker.lock").unlink()
    assert claimed.why_lost() == f"{home.root / 'broker.lock'} was removed or replaced"
    home.root.rename(home.root.with_name("moved"))
    assert claimed.why_lost() == f"{home.root} is gone"
    directories.create(home)
    assert claimed.why_lost() == f"{home.root} is another directory now"
    claimed.release()


def test_a_message_over_its_budget_is_refused_before_its_turn(root: Root) -> None:
    (root.base / "beam.yaml").write_text("agents: {worker: {command: [cat]}}\npolicy: {thread_turns: 2}\n")
    root.reload()
    state = root.hold("worker").log.state
    message = root.message("worker", hops=1, sender="asker", spent=Spent(turns=2))
    found = failure.find_refusal(message, state, root.context)
    assert found is not None and (found[0], found[2]) == ("budget", Status.LIMIT)
    assert found[1].startswith("the budget is used up: ")
    with pytest.raises(LimitError):
        failure.check_budget(root.context, message)
    many = root.message("worker", hops=21)
    assert failure.find_refusal(many, state, root.context) == (
        "hops", "21 hops in thread t: over the limit of 20", Status.LIMIT,
    )  # fmt: skip
    late = root.message("worker", deadline="2001-01-01T00:00:00Z")
    assert failure.find_refusal(late, state, root.context) == (
        "expired", "its deadline passed before its turn came; nothing ran", Status.TIMEOUT,
    )  # fmt: skip
    assert failure.find_refusal(root.message("worker"), state, root.context) is None


# -- the roster --------------------------------------------------------------------------------------------------------


class Watched:
    """Directories that are watched."""

    def __init__(self) -> None:
        self.now: list[Path] = []

    def watch(self, directory: Path) -> None:
        if directory not in self.now:
            self.now.append(directory)

    def forget(self, directory: Path) -> None:
        if directory in self.now:
            self.now.remove(directory)


def test_agents_that_have_files_are_served_and_those_without_are_let_go(root: Root) -> None:
    paths = root.place("worker")
    roster, wake = Roster(), Watched()
    roster.adopt_agents(root.context, cast(Any, wake))
    served = roster.agents["worker"]
    assert wake.now == [
        root.context.home.root / "agents",
        lanes.index_folder(paths),
        paths.queue / "new",
        paths.control / "new",
    ]
    served.lease = root.hold("worker")
    gone = paths.dir.with_name(".gone")
    paths.dir.rename(gone)
    served.task = cast(Any, SimpleNamespace(done=lambda: False))
    roster.adopt_agents(root.context, cast(Any, wake))
    assert "worker" in roster.agents
    served.task = None
    roster.adopt_agents(root.context, cast(Any, wake))
    assert (roster.agents, wake.now) == ({}, [root.context.home.root / "agents"])
    lock = try_lock(gone / paths.lock.name)
    assert lock is not None
    lock.release()


def test_new_lanes_are_seen_by_the_folder_that_lists_them(root: Root) -> None:
    paths = root.place("worker")
    roster = Roster()
    roster.adopt_agents(root.context, cast(Any, Watched()))
    assert roster.has_new_lanes({lanes.index_folder(paths)})
    assert not roster.has_new_lanes({paths.queue / "new"})
    assert not Roster().has_new_lanes({lanes.index_folder(paths)})


def test_a_message_that_is_taken_out_of_a_mailbox_is_a_turn_of_that_mode(root: Root) -> None:
    message = root.put("box")
    assert mailbox.recv(root.context, root.place("box"), 60.0) is not None
    (started,) = told(root, events.TurnStarted, "box")
    assert (started.via, started.adapter, started.message_id, started.turn) == ("mailbox", "mailbox", message.id, 1)
    mailbox.reply(root.context, root.place("box"), message.id, "yes", failed=False)
    (finished,) = told(root, events.TurnFinished, "box")
    assert (finished.via, finished.reply) == ("mailbox", "yes")
