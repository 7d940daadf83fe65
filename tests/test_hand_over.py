"""The lock goes from holder to holder: with many that come and go, no message is stranded and no two hold at once."""

from __future__ import annotations

import multiprocessing
import os
import threading
from itertools import pairwise
from multiprocessing.context import BaseContext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from beam.base.clock import SystemClock
from beam.broker.asking.agent_requests import carry_out
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import closing
from beam.broker.inbox.context import RootContext
from beam.model.events import MessageDead, Notice
from beam.model.message import new_id
from beam.store.queue import Entry
from tests.support.cli import eventually
from tests.support.context import Root

SENDERS = 3
WAITING = 6  # more are not published: then the queue is often empty, and its last holder about to leave
ROUNDS = 60  # in `make test`; `make soak` tries SOAK_ROUNDS
SOAK_ROUNDS = 10_000
AGENT = "worker"
HOLDS = "holds"
STRANDED = "a message is stranded"
_CLOCK = SystemClock()


class Relay:
    """Senders that do as every sender does (publish first, lock second), and as many workers.

    A holder runs one message, releases the lock and checks the queue again. If anything waits, it wakes a worker, but
    never the last holder, so that the lock changes hands as often as possible. `kind`: what has threads or processes (a
    flock belongs to the opened file, so two threads exclude each other as two processes do).
    """

    def __init__(self, root: Root, kind: ModuleType | BaseContext) -> None:
        self.kind: Any = kind
        self.root = root
        self.context = RootContext(
            home=root.context.home,
            config=root.context.config,
            clock=_CLOCK,
            environ=root.environ,
            carry_out=carry_out,
            exposed=None,
        )
        self.place = root.place(AGENT)
        self.inside = self.place.dir / "inside"
        self.told = [self.kind.Semaphore(0) for _ in range(SENDERS)]
        self.is_over = self.kind.Event()
        self.failed = self.kind.Event()

    def run(self, rounds: int) -> None:
        """Sends so many messages, and returns when all were run."""
        begin = getattr(self.kind, "Process", None) or threading.Thread
        senders = [begin(target=self._caught, args=(self._send, number, rounds)) for number in range(SENDERS)]
        workers = [begin(target=self._caught, args=(self._work, number)) for number in range(SENDERS)]
        for each in (*workers, *senders):
            each.daemon = True  # one that waits for ever holds up this test alone
            each.start()
        try:
            for each in senders:
                each.join()
            queue = self.root.queue(AGENT)
            eventually(lambda: self.failed.is_set() or not (queue.entries("new") or queue.entries("cur")), 60, STRANDED)
        finally:
            self.is_over.set()
            for told in self.told:
                told.release()
        for each in workers:
            each.join()
        assert not self.failed.is_set()

    def _caught(self, run: Any, *args: int) -> None:
        try:
            run(*args)
        except BaseException:
            self.failed.set()
            raise

    def _send(self, number: int, rounds: int) -> None:
        queue = self.root.queue(AGENT)
        for _ in range(rounds // SENDERS):
            eventually(lambda: self.failed.is_set() or len(queue.entries("new")) < WAITING, 60, STRANDED)
            ident = new_id(AGENT, _CLOCK.now_ns(), _CLOCK.random(4))
            queue.put(self.root.message(AGENT, id=ident), _CLOCK, self.context.config.limits)
            if self._hold(f"sender {number}"):
                self.told[number].release()

    def _work(self, number: int) -> None:
        while self.told[number].acquire() and not self.is_over.is_set():
            if self._hold(f"worker {number}"):
                self.told[(number + 1) % SENDERS].release()

    def _hold(self, name: str) -> bool:
        """Archive the first waiting message if nobody holds the agent; return whether another one waits.

        It says in the journal who it is, and makes a file that must not be there yet.
        """
        lease = AgentLease.acquire(self.context, self.place)
        if lease is None:
            return False
        os.close(os.open(self.inside, os.O_CREAT | os.O_EXCL))
        lease.log.record(Notice(code=HOLDS, text=name))
        for entry in lease.waiting.scan()[:1]:
            waiting = lease.waiting.read(entry)
            assert waiting is not None
            closing.dead_letter(lease.log, entry, waiting, "dropped", "by the test")
            lease.log.queue.remove(Entry(entry.position, entry.id, "dead"))
        lease.log.journal.rotate_if_due()
        self.inside.unlink()
        lease.close()
        return lease.has_runnable_work()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [threading, multiprocessing.get_context("fork")], ids=["threads", "processes"])
@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(SOAK_ROUNDS, marks=pytest.mark.soak)])
def test_no_message_is_stranded_however_often_the_lock_changes_hands(
    tmp_path: Path, kind: ModuleType | BaseContext, rounds: int
) -> None:
    root = Root(tmp_path, limits="{segment_bytes: 5000, known_ids_days: 0}")
    Relay(root, kind).run(rounds)
    assert root.boxes(AGENT) == {}
    events = root.events(AGENT)
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), "two wrote at once"
    ids = [event.message_id for event in events if isinstance(event, MessageDead)]
    assert len(ids) == len(set(ids)) == rounds // SENDERS * SENDERS
    holders = [event.text for event in events if isinstance(event, Notice) and event.code == HOLDS]
    changes = sum(before != after for before, after in pairwise(holders))
    print(f"{len(ids)} messages; the lock was taken {len(holders)} times, {changes} times after somebody else")
    assert changes > rounds / 2
