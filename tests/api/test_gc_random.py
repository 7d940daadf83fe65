"""`doctor --gc` on roots in which anything may have happened: nothing that waits, runs, is unread or dead goes."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam.api.gc import collect
from beam.base.errors import NotFoundError, UnfinishedError
from beam.broker.asking import mailbox
from beam.broker.holder.control import answer_requests
from beam.broker.holder.lease import AgentLease
from beam.model import events
from beam.model.message import decode
from beam.model.state import CLOSED, DEAD
from beam.root import directories
from beam.root.paths import AgentPaths
from beam.store import control
from beam.store.journal import Reader, read_event, read_state
from beam.store.queue import Queue
from beam.store.thread import ThreadUsage, file_name
from tests.support.context import SECOND_NS, Root

DAY_S = 86400
BOXES = ("box", "asker")
LIVES = 20
THINGS_IN_A_LIFE = 25


class Life:
    """What happens in a root, by chance; each name without an underscore is one thing that may."""

    def __init__(self, root: Root, chance: random.Random) -> None:
        self.root, self.chance = root, chance
        self.held: AgentLease | None = None

    def _agent(self) -> str:
        free = [name for name in BOXES if self.held is None or self.held.log.paths.agent != name]
        return self.chance.choice(free)

    def put(self) -> None:
        hops, thread = self.chance.choice(((0, "t"), (1, "t"), (2, "u")))
        waits = self.chance.choice(("queue", "none"))
        sender = self.chance.choice(("human", *BOXES))
        self.root.put(self._agent(), hops=hops, thread=thread, reply=waits, sender=sender)

    def take(self) -> None:
        lease = self.chance.choice((1.0, 10 * DAY_S))
        with contextlib.suppress(UnfinishedError):  # one is out already
            mailbox.recv(self.root.context, self.root.place(self._agent()), lease)

    def answer(self) -> None:
        place = self.root.place(self._agent())
        turn = read_state(place.journal).open_turn
        if turn is not None and turn.message_id is not None:
            with contextlib.suppress(NotFoundError):  # its lease ran out
                mailbox.reply(self.root.context, place, turn.message_id, "yes", failed=self.chance.random() < 0.4)

    def exchange(self) -> None:
        self.put()
        self.take()
        self.answer()

    def exchange_more(self) -> None:
        for _ in range(4):
            self.exchange()

    def ask(self) -> None:
        place = self.root.place(self._agent())
        verb = self.chance.choice(("drop", "retry", "pause", "resume"))
        ids = [entry.id for box in ("new", "dead") for entry in Queue(place.queue, place.put_lock).entries(box)]
        request = control.ControlRequest(
            id=f"{place.agent}-{self.root.clock.random(4).hex()}",
            verb=verb,
            timestamp="t",
            expires="2030-01-01T00:00:00Z",
            target=self.chance.choice(ids) if ids and verb in ("drop", "retry") else None,
        )
        control.publish(place.control, request)

    def serve(self) -> None:
        lease = self.root.hold(self._agent())
        answer_requests(lease)
        lease.waiting.scan()
        lease.log.journal.rotate_if_due()
        lease.close()

    def lane(self) -> None:
        """A `--once` message, at any point of its way."""
        place = self.root.context.agent_paths("worker", f"l{self.chance.randrange(4)}")
        directories.create(self.root.context.home, place)
        queue = Queue(place.queue, place.put_lock)
        step = self.chance.randrange(3)
        if step == 0 and not read_state(place.journal).known:
            queue.put(self.root.message("worker"), self.root.clock, self.root.context.config.limits)
        lease = AgentLease.acquire(self.root.context, place) if step else None
        if lease is None:
            return
        for entry in lease.waiting.scan():
            message = lease.waiting.read(entry)
            if message is None:
                continue
            dead = events.MessageDead(reason="dropped", detail="why")
            lease.log.record(dead, message_id=message.id, sync=True)
            lease.log.queue.move(entry, "dead") if step == 1 else lease.log.queue.remove(entry)
        lease.close()

    def tear(self) -> None:
        journal = self.root.place(self._agent()).journal
        if newest := sorted(journal.glob("*.jsonl"))[-1:]:
            with newest[0].open("ab") as file:
                file.write(self.chance.choice((b'{"type":"te', b"\0\0\0")))

    def leave_things(self) -> None:
        place = self.root.place(self._agent())
        for path in (
            place.log,
            self.root.context.home.turns_of(place) / "key" / "file",
            place.queue / "tmp" / "x.json",
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"left")

    def later(self) -> None:
        self.root.clock.sleep(self.chance.choice((10.0, DAY_S, 40 * DAY_S)))

    def hold(self) -> None:
        if self.held is None:
            self.held = self.root.hold(self._agent())


THINGS = sorted(name for name in vars(Life) if not name.startswith("_"))


class Kept:
    """What must be as it was: by path, and by what it means."""

    def __init__(self, root: Root, *, dead: bool, held: AgentPaths | None) -> None:
        top = root.context.home.root
        self.places = [
            place
            for name in root.context.home.agents()
            for place in (root.context.agent_paths(name), *root.context.agent_paths(name).lanes())
        ]
        boxes = ("queue/new", "queue/cur", "control/new", *(() if dead else ("queue/dead",)))
        kept = [path for place in self.places for box in boxes for path in (place.dir / box).glob("*")]
        kept += [path for path in held.dir.rglob("*") if path.is_file()] if held is not None else []
        self.files = {path: path.read_bytes() for path in kept}
        self.states = {place: read_state(place.journal) for place in self.places if self._is_needed(place)}
        self.threads = self._threads(top)
        self.outcomes = {
            (place, known.outcome_seq): self._outcome(place, known.outcome_seq)
            for place, state in self.states.items()
            for message_id, known in state.known.items()
            if known.outcome_seq is not None
            and (known.phase not in (CLOSED, DEAD) or self._lies(place, message_id, dead))
        }

    @staticmethod
    def _is_needed(place: AgentPaths) -> bool:
        return place.lane is None or any(any((place.queue / box).iterdir()) for box in ("new", "cur", "dead"))

    @staticmethod
    def _lies(place: AgentPaths, message_id: str, dead: bool) -> bool:
        boxes = ("new", "cur") if dead else ("new", "cur", "dead")
        return any(path.name.endswith(f"-{message_id}.json") for box in boxes for path in (place.queue / box).iterdir())

    @staticmethod
    def _outcome(place: AgentPaths, seq: int | None) -> Any:
        return read_event(place.journal, seq or 0)

    def _threads(self, top: Path) -> dict[str, int]:
        named = {
            decode(data).thread
            for path, data in self.files.items()
            if path.parent.parent.name == "queue" and path.parent.name != "tmp"
        }
        return {
            name: ThreadUsage(top / "threads", name).spent().turns
            for name in named
            if (top / "threads" / file_name(name)).exists()
        }

    def check(self, root: Root) -> None:
        """All of it is."""
        for path, data in self.files.items():
            assert path.read_bytes() == data
        for place, state in self.states.items():
            assert read_state(place.journal) == state, place
        for (place, seq), outcome in self.outcomes.items():
            assert read_event(place.journal, seq or 0) == outcome
        for name, turns in self.threads.items():
            assert ThreadUsage(root.context.home.threads, name).spent().turns == turns


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(LIVES))
def test_nothing_that_waits_runs_is_unread_or_dead_is_ever_removed(tmp_path: Path, seed: int) -> None:
    root, chance = Root(tmp_path, limits="{segment_bytes: 1}"), random.Random(seed)
    life = Life(root, chance)
    for thing in chance.choices(THINGS, k=THINGS_IN_A_LIFE):
        happen: Callable[[], None] = getattr(life, thing)
        happen()
    root.place("box")
    for path in sorted(root.context.home.root.rglob("*")):
        then = (root.clock.now_ns() - chance.randrange(60 * DAY_S) * SECOND_NS) / 1e9
        os.utime(path, (then, then))
    dead, keep_bytes, days = chance.random() < 0.3, chance.choice((None, 0, 4096)), chance.choice((0, 1, 30))
    held = life.held.log.paths if life.held is not None else None
    before = Kept(root, dead=dead, held=held)
    collected = collect(root.context, older_than=days * DAY_S, keep_bytes=keep_bytes, dead=dead)
    before.check(root)
    assert collected.held == ((held.agent,) if held is not None else ())
    assert not any((root.context.home.root / each.path).exists() for each in collected.removed if each.what != "lane")
    if life.held is not None:
        life.held.close()
    for name in BOXES:
        if name in root.context.home.agents():
            root.hold(name).close()
            said = Reader(root.context.agent_paths(name).journal).poll()
            assert [event.seq for event in said] == list(range(said[0].seq, said[-1].seq + 1)) if said else True
