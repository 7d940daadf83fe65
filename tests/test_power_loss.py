"""A power cut at any moment: whatever part of the unsynced changes is on disk, the next holder keeps every promise.

A promise is what the outside has seen: `put` returned, the prompt left, the outcome was told.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from beam.agents import registry
from beam.base.clock import rfc3339
from beam.base.errors import CorruptError
from beam.broker.asking import mailbox
from beam.broker.asking.agent_requests import carry_out
from beam.broker.holder import turn
from beam.broker.holder.control import answer_requests
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox.context import RootContext
from beam.config.resolve import Config, load
from beam.model import events
from beam.model.message import Message, Options, Payload, decode, new_id
from beam.model.state import CLOSED
from beam.root import directories
from beam.root.paths import RootPaths
from beam.store import control
from beam.store.journal import Journal, Reader
from beam.store.queue import Queue
from beam.turns.handle import Stop
from tests.support.context import SECOND_NS, FakeClock
from tests.support.power import Disk, Mark, Tree, lay

pytestmark = pytest.mark.slow

CONFIG = """
agents:
  worker: {command: [cat]}
  broken: {command: ["false"]}
  box: {adapter: mailbox}
  asker: {adapter: mailbox}
limits: {segment_bytes: 1, deaths_before_prompt: 9}
"""
AGENTS = ("worker", "broken", "box", "asker")
OUTCOMES = (events.TurnFinished, events.MessageDead)
SEED = 3
DRAWN = 80  # disks of each scene that are checked always
MAX_OUTSTANDING = 12  # of so many changes every subset is tried
MEMORY = "/dev/shm"  # a real disk would take most of the time


def placed(base: Path) -> RootPaths:
    """A root on the disk that fails; its project folder is on another."""
    return RootPaths(base / "root", base.parent / "work")


def configured(base: Path) -> Config:
    """The configuration of a root there, with its beam.yaml."""
    here = placed(base)
    for folder in (base, here.project):
        folder.mkdir(parents=True, exist_ok=True)
    here.config_file.write_text(CONFIG)
    return load(here, environ={"HOME": str(base.parent)}, adapters=tuple(registry.ADAPTERS))


class Scene:
    """A recorded root, and what is done in it. Each step that the outside sees is marked."""

    def __init__(self, base: Path, config: Config | None = None) -> None:
        self.clock = FakeClock()
        environ = {"HOME": str(base.parent), "PATH": "/usr/bin:/bin", "BEAM_TRUST": "1"}
        self.context = RootContext(
            home=placed(base),
            config=config or configured(base),
            clock=self.clock,
            environ=environ,
            carry_out=carry_out,
            exposed=None,
        )
        self.disk = Disk(base)
        self._claimed: tuple[str, int] | None = None

    def record(self, patch: pytest.MonkeyPatch) -> None:
        """From now on everything is recorded."""
        self.disk.record(patch)
        for module in ("beam.turns.engine", "beam.broker.asking.mailbox"):
            patch.setattr(f"{module}.crash_point", self._reached)
        real = Journal._sync

        def sync(journal: Journal) -> None:
            real(journal)
            self.disk.mark("synced", (journal.agent, journal.state.seq))

        patch.setattr(Journal, "_sync", sync)

    def _reached(self, point: str) -> None:
        if point == "prompt.sent":
            self.disk.mark("ran", self._claimed)

    def put(self, to: str, text: str = "hi", *, waits: bool = True) -> Message:
        """A message in the asker's name; `put` has returned."""
        place = self.context.agent_paths(to)
        directories.create(self.context.home, place)
        message = Message(
            id=new_id(to, self.clock.now_ns(), self.clock.random(4)),
            timestamp=rfc3339(self.clock.now_ns()),
            sender="asker",
            to=to,
            payload=Payload(text=text),
            thread="t",
            reply="queue" if waits else "none",
            options=Options(),
        )
        self._claimed = (message.id, 1)
        Queue(place.queue, place.put_lock).put(message, self.clock, self.context.config.limits)
        self.disk.mark("put", message.id)
        return message

    def hold(self, agent: str) -> AgentLease:
        """The agent's lease, after recovery."""
        place = self.context.agent_paths(agent)
        directories.create(self.context.home, place)
        lease = AgentLease.acquire(self.context, place)
        assert lease is not None
        return lease

    def run(self, agent: str, *, attempt: int = 1) -> None:
        """Runs all that waits; each outcome is told."""
        lease = self.hold(agent)
        answer_requests(lease)
        for entry in lease.waiting.scan():
            self._claimed = (entry.id, attempt)
            claimed = lease.waiting.claim(entry)
            assert claimed is not None
            outcome = asyncio.run(turn.run(lease, *claimed, Stop()))
            assert outcome is not None
            self.disk.mark("told", (entry.id, attempt, outcome.status.value, outcome.reply))
        lease.close()

    def ask(self, agent: str, verb: str, target: str, **fields: object) -> None:
        """A request to the lease, and its answer."""
        wish = control.ControlRequest(
            id=f"{agent}-{self.clock.random(4).hex()}",
            verb=verb,  # type: ignore[arg-type]
            timestamp="t",
            expires=rfc3339(self.clock.now_ns() + 60 * SECOND_NS),
            target=target,
            **fields,  # type: ignore[arg-type]
        )
        control.publish(self.context.agent_paths(agent).control, wish)
        lease = self.hold(agent)
        answer_requests(lease)
        lease.close()
        self.disk.mark("asked", (agent, target, verb, fields.get("text")))


# -- what is done ------------------------------------------------------------------------------------------------------


def two_turns(scene: Scene) -> None:
    scene.put("worker", "one")
    scene.run("worker")
    scene.put("worker", "two")
    scene.run("worker")


def an_answer_of_many_pages(scene: Scene) -> None:
    scene.put("worker", "page " * 2500)
    scene.run("worker")


def a_failure_tried_again(scene: Scene) -> None:
    message = scene.put("broken")
    scene.run("broken")
    scene.ask("broken", "retry", message.id)
    scene.run("broken", attempt=2)


def a_mailbox(scene: Scene) -> None:
    message = scene.put("box")
    assert mailbox.recv(scene.context, scene.context.agent_paths("box"), 1.0) is not None
    outcome = mailbox.reply(scene.context, scene.context.agent_paths("box"), message.id, "yes", failed=False)
    scene.disk.mark("told", (message.id, 1, outcome.status.value, outcome.reply))


def a_lease_that_ran_out(scene: Scene) -> None:
    scene.put("box")
    assert mailbox.recv(scene.context, scene.context.agent_paths("box"), 1.0) is not None
    scene.clock.sleep(2)
    scene._claimed = (scene._claimed or ("", 0))[0], 2
    assert mailbox.recv(scene.context, scene.context.agent_paths("box"), 1.0) is not None


def a_reply_that_is_taken(scene: Scene) -> None:
    a_mailbox(scene)
    place = scene.context.agent_paths("asker")
    (reply,) = Queue(place.queue, place.put_lock).entries("new")
    scene._claimed = reply.id, 1
    assert mailbox.recv(scene.context, place, 1.0) is not None


def people_who_change_their_mind(scene: Scene) -> None:
    first, second = scene.put("box", "1"), scene.put("box", "2")
    scene.ask("box", "edit", first.id, text="other")
    scene.ask("box", "drop", second.id)


def a_holder_that_died_after_the_prompt(scene: Scene) -> None:
    scene.put("worker")
    died(scene, "agent.exited")
    scene.hold("worker").close()


def a_holder_that_died_before_the_prompt(scene: Scene) -> None:
    scene.put("worker")
    died(scene, "turn.started")
    scene.run("worker")


def a_holder_that_died_before_a_sync(scene: Scene) -> None:
    """Its last line is there to read, and not on disk: the next holder must not act on it before it is."""
    scene.put("worker")
    lease = scene.hold("worker")
    real = lease.log.journal._sync

    def sync() -> None:
        if any(known.phase == CLOSED for known in lease.log.state.known.values()):
            raise Died
        real()

    lease.log.journal._sync = sync  # type: ignore[method-assign]
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    with pytest.raises(Died):
        asyncio.run(turn.run(lease, *claimed, Stop()))
    lease.close()
    scene.run("worker")


class Died(BaseException):
    """The holder's end."""


def died(scene: Scene, at: str) -> None:
    """A holder that takes the next message and ends at that event, as if killed there."""
    lease = scene.hold("worker")

    def watch(event: events.Event) -> None:
        if type(event) is KINDS[at]:
            raise Died

    lease.log.watcher = watch
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    with pytest.raises(Died):
        asyncio.run(turn.run(lease, *claimed, Stop()))
    lease.close()


KINDS = {"agent.exited": events.AgentExited, "turn.started": events.TurnStarted}
SCENES: tuple[Callable[[Scene], None], ...] = (
    two_turns,
    an_answer_of_many_pages,
    a_failure_tried_again,
    a_mailbox,
    a_reply_that_is_taken,
    a_lease_that_ran_out,
    people_who_change_their_mind,
    a_holder_that_died_after_the_prompt,
    a_holder_that_died_before_the_prompt,
    a_holder_that_died_before_a_sync,
)


# -- what must hold ----------------------------------------------------------------------------------------------------


Said = dict[str, list[events.AnyEvent]]  # by agent


class Recovered:
    """A root after a power cut, and after the next holder of each agent came and went."""

    def __init__(self, base: Path, config: Config) -> None:
        scene = Scene(base, config)
        scene.clock.sleep(3600)
        self.context = scene.context
        self.boxes: dict[str, list[Message]] = {}
        self.events: Said = {}
        for agent in AGENTS:
            self.events[agent] = []
            if agent not in self.context.home.agents():
                continue
            lease = scene.hold(agent)
            answer_requests(lease)
            lease.waiting.scan()
            lease.close()
            place = self.context.agent_paths(agent)
            self.events[agent] = Reader(place.journal).poll()
            for box in ("tmp", "new", "cur", "dead"):
                for path in (place.queue / box).iterdir():
                    self.boxes.setdefault(box, []).append(decode(path.read_bytes()))

    def outcomes(self, message_id: str) -> dict[int, list[events.TurnFinished | events.MessageDead]]:
        """By attempt."""
        found: dict[int, list[events.TurnFinished | events.MessageDead]] = {}
        for said in self.events.values():
            for event in said:
                if isinstance(event, OUTCOMES) and event.message_id == message_id:
                    found.setdefault(event.attempt, []).append(event)
        return found

    def in_box(self, box: str, message_id: str) -> list[Message]:
        return [message for message in self.boxes.get(box, ()) if message.id == message_id]


def check(after: Recovered, marks: list[Mark], recorded: Said) -> None:
    """Every promise that these marks are. `recorded` is what each journal said in the end, had the power not gone."""
    synced = {mark.value[0]: mark.value[1] for mark in marks if mark.what == "synced"}
    for agent, seq in synced.items():
        assert after.events[agent][:seq] == recorded[agent][:seq], f"what {agent}'s journal said was lost"
    for agent, said in after.events.items():
        assert [event.seq for event in said] == list(range(1, len(said) + 1)), f"a gap in {agent}'s journal"
    assert not after.boxes.get("tmp")
    assert not after.boxes.get("cur")
    everywhere = Counter(message.id for box in after.boxes.values() for message in box)
    assert not everywhere or max(everywhere.values()) == 1, "a message in two files"
    for mark in marks:
        if mark.what in CHECKS:
            CHECKS[mark.what](after, mark)
    replies = Counter(message.reply_to for box in after.boxes.values() for message in box if message.reply_to)
    for reply_to, count in replies.items():
        assert count <= len(after.outcomes(reply_to)), "a reply twice"


def check_put(after: Recovered, mark: Mark) -> None:
    waits = after.in_box("new", mark.value)
    assert waits or after.outcomes(mark.value), f"{mark.value} is lost"


def check_ran(after: Recovered, mark: Mark) -> None:
    message_id, attempt = mark.value
    said = [
        event
        for events_of in after.events.values()
        for event in events_of
        if isinstance(event, events.MessageRequeued)
        and (event.message_id, event.reason, event.attempt) == (message_id, "lease_over", attempt + 1)
    ]
    assert said or attempt in after.outcomes(message_id), f"{message_id} ran, and nobody says so"
    assert all(message.attempt > attempt for message in after.in_box("new", message_id)), "it would run again unsaid"


def check_told(after: Recovered, mark: Mark) -> None:
    message_id, attempt, status, reply = mark.value
    finished = [event for event in after.outcomes(message_id)[attempt] if isinstance(event, events.TurnFinished)]
    assert [(event.status.value, event.reply) for event in finished] == [(status, reply)]
    assert [message.attempt for message in after.in_box("new", message_id)] in ([], [attempt + 1])
    closed = [event for said in after.events.values() for event in said if isinstance(event, events.TurnClosed)]
    (one,) = [event for event in closed if (event.message_id, event.attempt) == (message_id, attempt)]
    answers = [message for message in after.boxes.get("new", ()) if message.id == one.reply_id]
    assert len(answers) == (one.reply == "queued")


def check_asked(after: Recovered, mark: Mark) -> None:
    agent, target, verb, text = mark.value
    done = [event for event in after.events[agent] if isinstance(event, events.ControlDone)]
    assert [event.ok for event in done if (event.verb, event.message_id) == (verb, target)] == [True]
    if verb == "edit":
        assert [message.text for message in after.in_box("new", target)] == [text]
    if verb == "drop":
        assert not after.in_box("new", target)


CHECKS = {"put": check_put, "ran": check_ran, "told": check_told, "asked": check_asked}


def play(
    scene_of: Callable[[Scene], None], tmp_path: Path, *, upto: int, drawn: int, limit: int | None, seed: int
) -> str:
    """Records the scene, cuts the power at every moment, and checks what may be left: every disk where at most `upto`
    changes are outstanding, so many that are `drawn` by chance elsewhere; of all these `limit`. What was done."""
    scene = Scene(tmp_path / "recorded" / "project")
    with pytest.MonkeyPatch.context() as patch:
        scene.record(patch)
        scene_of(scene)
    disk, count = scene.disk, 0
    recorded = {agent: Reader(scene.context.agent_paths(agent).journal).poll() for agent in AGENTS}
    left: Iterable[tuple[int, Tree]] = different(disk, upto, drawn, seed)
    if limit is not None:
        every = list(left)
        left = random.Random(seed).sample(every, min(limit, len(every)))
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir=memory) as scratch:
        patch.setattr(os, "fsync", lambda handle: None)
        base = Path(scratch) / "left" / "project"
        config = configured(base)
        for cut, tree in left:
            lay(base, tree)
            try:
                check(Recovered(base, config), [mark for mark in disk.marks if mark.at <= cut], recorded)
            except BaseException as error:
                shutil.copytree(base, tmp_path / "left")
                lay(tmp_path / "before", {"": None} | tree)
                error.add_note(
                    f"seed {seed}, cut {cut} of {disk.now}, in {tmp_path}: before it, and what is left of it"
                )
                raise
            for path in (placed(base).root, placed(base).turns):
                shutil.rmtree(path, ignore_errors=True)
            count += 1
    outstanding = [disk.outstanding(cut) for cut in disk.cuts()]
    few = sum(number <= upto for number in outstanding)
    return (
        f"{scene_of.__name__}: {len(disk.steps)} changes, {len(outstanding)} moments: every subset of what is "
        f"outstanding at {few} (at most {upto} changes), {drawn} drawn at each other (up to {max(outstanding)}); "
        f"{count:,} different disks checked{'' if limit is None else f' of {len(every):,}'} (seed {seed})"
    )


def different(disk: Disk, upto: int, drawn: int, seed: int) -> Iterator[tuple[int, Tree]]:
    """Every disk that may be left, once, with the last moment of the cut that leaves it: by then most was promised."""
    chance = random.Random(seed)
    seen: set[int] = set()
    for cut in reversed(disk.cuts()):
        for tree in disk.states(cut, chance, upto=upto, drawn=drawn):
            key = hash(frozenset(tree.items()))
            if key not in seen:
                seen.add(key)
                yield cut, tree


@pytest.mark.parametrize("scene_of", SCENES)
def test_after_a_power_cut_every_promise_is_kept(
    scene_of: Callable[[Scene], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = play(scene_of, tmp_path, upto=4, drawn=32, limit=DRAWN, seed=SEED)
    with capsys.disabled():
        print(f"\n{told}")


@pytest.mark.soak
@pytest.mark.parametrize("scene_of", SCENES)
def test_after_a_power_cut_every_promise_is_kept_whatever_is_left(
    scene_of: Callable[[Scene], None], tmp_path: Path, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    seed = pytestconfig.getoption("soak_seed") or random.randrange(1, 2**31)
    told = play(scene_of, tmp_path, upto=MAX_OUTSTANDING, drawn=500, limit=None, seed=seed)
    with capsys.disabled():
        print(f"\n{told}")


@pytest.mark.parametrize("sync", ["beam.base.files.sync_directory", "beam.store.journal.Journal._sync"])
def test_a_sync_that_is_missing_is_found(sync: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, lambda of: None)
    with pytest.raises((AssertionError, CorruptError)):
        play(two_turns, tmp_path, upto=4, drawn=32, limit=150, seed=SEED)
