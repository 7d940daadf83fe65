"""The lock goes from holder to holder: with many that come and go, no message is stranded and two never hold at once.

Threads stand for processes: a flock belongs to the opened file, so two of one process exclude each other just as well.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from beam.broker import closing
from beam.broker.hold import Holder
from beam.broker.world import World
from beam.clock import SystemClock
from beam.home import Place
from beam.message import new_id
from beam.store.journal import read_state
from beam.store.queue import Entry
from tests.support.world import Root

HOLDERS = 3
ROUNDS = 30  # in `make test`; `make soak` tries SOAK_ROUNDS
SOAK_ROUNDS = 10_000


class Relay:
    """Each one does what every sender does: publish first, lock second; and on leaving look again."""

    def __init__(self, root: Root, agent: str) -> None:
        clock = SystemClock()
        self.root = root
        self.world = World(home=root.world.home, config=root.world.config, clock=clock, environ=root.environ)
        self.place: Place = root.place(agent)
        self.inside = 0
        self.takes = 0
        self.errors: list[BaseException] = []
        self._counting = threading.Lock()

    def round(self) -> None:
        """Publishes one message, and drains the queue if nobody holds it."""
        clock = self.world.clock
        message = self.root.message(self.place.agent, id=new_id(self.place.agent, clock.now_ns(), clock.random(4)))
        self.root.queue(self.place.agent).put(message, clock, self.world.limits)
        while (holder := Holder.take(self.world, self.place)) is not None:
            with self._counting:
                self.inside += 1
                self.takes += 1
                assert self.inside == 1, "two hold the agent"
            for entry in holder.look_at_queue():
                waiting = holder.read(entry)
                assert waiting is not None
                closing.bury(holder, entry, waiting, "dropped", "by the test")
                holder.queue.remove(Entry(entry.position, entry.id, "dead"))
            with self._counting:
                self.inside -= 1
            if not holder.leave(start_worker=False):
                return

    def run(self, rounds: int) -> None:
        try:
            for _ in range(rounds):
                self.round()
        except BaseException as error:
            self.errors.append(error)


@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(SOAK_ROUNDS, marks=pytest.mark.soak)])
def test_no_message_is_stranded_however_often_the_lock_changes_hands(tmp_path: Path, rounds: int) -> None:
    root = Root(tmp_path, limits="{segment_bytes: 50000, waiting: 100000}")
    relay = Relay(root, "worker")
    threads = [threading.Thread(target=relay.run, args=(rounds // HOLDERS,)) for _ in range(HOLDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert relay.errors == []
    assert root.boxes("worker") == {}
    state = read_state(relay.place.journal)
    assert len(state.known) == rounds // HOLDERS * HOLDERS
    assert {known.phase for known in state.known.values()} == {"dead"}
    print(f"{rounds} rounds, {relay.takes} times the lock was taken")
