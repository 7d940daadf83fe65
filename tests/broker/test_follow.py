"""Waiting for an outcome by reading, whoever writes."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from beam.base.errors import CorruptError, DiskError, NotFoundError, UnfinishedError
from beam.broker.asking import mailbox
from beam.broker.asking.follow import (
    follow,
    held_briefly,
    is_just_sent,
    not_found_if_removed,
    outcome_in,
    replay_outcome,
)
from beam.model import events
from beam.model.events import Event
from beam.model.message import Message
from beam.model.outcome import Status
from beam.process import tree
from beam.root.paths import AgentPaths
from beam.store import control
from beam.store.control import ControlRequest
from beam.store.journal import read_state
from beam.store.lock import try_lock
from beam.store.queue import Entry
from beam.store.segment import GONE_KIND
from tests.support.context import Root, ended
from tests.support.journals import ELSEWHERE, record, started


def following(root: Root, message: Message, seen: list[Event], **options: Any) -> Generator[float, None, Any]:
    return follow(root.context, root.place("box"), message.id, seen=seen.append, **options)


def answer(root: Root, message: Message) -> None:
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    mailbox.reply(root.context, root.place("box"), message.id, "yes", failed=False)


@pytest.mark.slow
def test_an_outcome_that_is_there_is_given_at_once_and_its_event_told(root: Root) -> None:
    message = root.put("box", reply="wait")
    answer(root, message)
    seen: list[Event] = []
    outcome = ended(following(root, message, seen))
    assert outcome.reply == "yes"
    assert [type(event).__name__ for event in seen] == ["TurnFinished"]


@pytest.mark.slow
@pytest.mark.parametrize("holder", ["lives", "died"])
def test_whose_waiting_is_over_finds_the_message_in_no_list_of_running_ones(root: Root, holder: str) -> None:
    message = root.put("box", reply="wait")
    (path,) = root.place("box").queue.glob("new/*.json")
    answer(root, message)
    left = root.place("box").queue / "cur" / path.name
    left.write_bytes(b"{}")  # its end is in the journal, and the file is about to be moved
    steps = following(root, message, [])
    next(steps)
    next(steps)
    if holder == "lives":
        left.unlink()
    assert ended(steps).reply == "yes"
    assert left.exists() is (holder == "died"), "the next holder archives it"


@pytest.mark.slow
def test_who_reads_an_outcome_as_the_agent_is_removed_is_told_so(root: Root) -> None:
    message = root.put("box", reply="wait")
    answer(root, message)
    state = read_state(root.place("box").journal)
    shutil.rmtree(root.place("box").dir)
    with pytest.raises(NotFoundError, match="box was removed with all its messages"):
        outcome_in(root.place("box"), state, message.id)


@pytest.mark.slow
def test_who_waits_sees_the_events_of_this_message_as_they_come(root: Root) -> None:
    other, message = root.put("box", "other", reply="wait"), root.put("box", reply="wait")
    seen: list[Event] = []
    steps = following(root, message, seen)
    next(steps)
    answer(root, other)
    answer(root, message)
    assert ended(steps).reply == "yes"
    assert {event.message_id for event in seen} == {message.id}
    assert [type(event).__name__ for event in seen][-2:] == ["TurnFinished", "TurnClosed"]


def test_the_waiting_ends_in_time_and_stops_nothing(root: Root) -> None:
    message = root.put("box", reply="wait")
    steps = following(root, message, [], timeout=2.0)
    next(steps)
    root.clock.sleep(3)
    with pytest.raises(UnfinishedError, match="nothing was stopped"):
        next(steps)
    assert root.boxes("box") == {"new": [message.id]}


def test_who_does_not_want_to_wait_any_more_gets_nothing(root: Root) -> None:
    message = root.put("box", reply="wait")
    wanted = [True]
    steps = following(root, message, [], is_wanted=lambda: wanted[0])
    next(steps)
    wanted[0] = False
    assert ended(steps) is None


def test_a_message_without_outcome_has_none(root: Root) -> None:
    message = root.put("box")
    state = read_state(root.place("box").journal)
    assert outcome_in(root.place("box"), state, message.id) is None
    assert replay_outcome(root.place("box"), state, message.id, lambda event: pytest.fail("nothing to tell")) is None


@pytest.mark.slow
def test_workers_that_end_without_a_word_are_started_less_and_less_often_and_given_up_on(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = root.put("worker", reply="wait")
    started: list[float] = []
    monkeypatch.setattr(
        "beam.broker.inbox.launch.start_worker", lambda context, place: started.append(root.clock.elapsed)
    )
    steps = follow(root.context, root.place("worker"), message.id, seen=lambda event: None)
    with pytest.raises(UnfinishedError, match="ended without running a message") as given_up:
        for pause in steps:
            root.clock.sleep(max(pause, 0.25))
    assert "worker.log" in given_up.value.hint
    pauses = [later - earlier for earlier, later in itertools.pairwise(started)]
    assert pauses == sorted(pauses)
    assert 20 < started[-1] < 60
    assert root.boxes("worker") == {"new": [message.id]}


def test_who_only_waits_leaves_what_was_just_sent_to_its_senders_worker_and_an_old_message_to_nobody(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.broker.holder import duty

    looked: list[str | None] = []
    monkeypatch.setattr(duty, "ensure_running", lambda context, paths, message_id=None: looked.append(message_id))
    message = root.put("claude", reply="wait")
    (path,) = root.place("claude").queue.glob("new/*.json")
    came_ns = root.clock.now_ns()
    os.utime(path, ns=(came_ns, came_ns))
    steps = follow(root.context, root.place("claude"), message.id, seen=lambda event: None, is_sender=False)
    next(steps)
    root.clock.sleep(4)
    next(steps)
    assert looked == []
    root.clock.sleep(2)
    next(steps)
    assert looked == [message.id]


def over(root: Root, *finished: Event) -> Message:
    """A message of `worker` whose turn is over, with these events after its start."""
    message = root.put("worker", reply="wait")
    lease = root.hold("worker")
    lease.waiting.claim(lease.waiting.scan()[0])
    bodies = [events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter="command", via="exec"), *finished]
    for body in bodies:
        lease.log.record(body, turn=1, message_id=message.id, sync=True)
    lease.close()
    return message


def test_an_outcome_that_was_removed_with_its_part_of_the_journal_is_reported(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = over(root, events.TurnFinished(status=Status.COMPLETED, reply="x"), events.TurnClosed())
    state = read_state(root.place("worker").journal)

    def gone(journal: Path, seq: int) -> None:
        raise DiskError("it is gone", kind=GONE_KIND)

    monkeypatch.setattr("beam.broker.asking.follow.read_event", gone)
    with pytest.raises(NotFoundError) as error:
        outcome_in(root.place("worker"), state, message.id)
    assert (error.value.message, error.value.hint, error.value.subject) == (
        f"{message.id} ended (completed), but its outcome was removed with old parts of the journal",
        "beam doctor --gc keeps what is younger than --older-than",
        message.id,
    )


def test_an_outcome_that_can_not_be_read_or_is_none_is_an_error(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    message = over(root, events.TurnFinished(status=Status.COMPLETED, reply="x"), events.TurnClosed())
    paths = root.place("worker")
    state = read_state(paths.journal)
    seq = state.known[message.id].outcome_seq
    monkeypatch.setattr("beam.broker.asking.follow.read_event", lambda journal, seq: events.TurnClosed())
    with pytest.raises(CorruptError, match=f"event {seq} of {paths.journal} is not an outcome"):
        outcome_in(paths, state, message.id)

    def unreadable(journal: Path, seq: int) -> None:
        raise DiskError("can't read")

    monkeypatch.setattr("beam.broker.asking.follow.read_event", unreadable)
    with pytest.raises(DiskError, match="can't read"):
        outcome_in(paths, state, message.id)


def test_a_turn_that_is_finished_and_not_closed_has_no_outcome_yet(root: Root) -> None:
    message = root.put("worker", reply="wait")
    lease = root.hold("worker")
    lease.waiting.claim(lease.waiting.scan()[0])
    started = events.TurnStarted(owner=tree.this_process(), turn_key="k", adapter="command", via="exec")
    for body in (started, events.TurnFinished(status=Status.COMPLETED, reply="x")):
        lease.log.record(body, turn=1, message_id=message.id, sync=True)
    assert outcome_in(root.place("worker"), lease.log.state, message.id) is None
    lease.log.record(events.TurnClosed(), turn=1, message_id=message.id, sync=True)
    outcome = outcome_in(root.place("worker"), lease.log.state, message.id)
    assert outcome is not None and outcome.reply == "x"
    lease.close()


def test_who_goes_on_from_an_event_sees_those_after_it_also_of_a_turn_that_is_over(root: Root) -> None:
    message = over(
        root, events.Text(text="x"), events.TurnFinished(status=Status.COMPLETED, reply="x"), events.TurnClosed()
    )
    (text,) = [event for event in root.events("worker") if isinstance(event, events.Text)]
    seen: list[Event] = []
    steps = follow(root.context, root.place("worker"), message.id, seen=seen.append, after_seq=text.seq)
    assert ended(steps).reply == "x"
    assert [type(event).__name__ for event in seen] == ["TurnFinished", "TurnClosed"]


def test_who_only_looks_starts_nothing_and_waits_for_the_time_that_was_given(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.broker.holder import duty

    monkeypatch.setattr(duty, "ensure_running", lambda *_: pytest.fail("it only looks"))
    message = root.put("worker", reply="wait")
    steps = follow(
        root.context, root.place("worker"), message.id, seen=lambda event: None, timeout=2.5, looks_only=True
    )
    assert next(steps) == 0.02
    root.clock.sleep(2.4)
    next(steps)
    root.clock.sleep(0.1)
    with pytest.raises(UnfinishedError) as error:
        next(steps)
    assert (error.value.message, error.value.hint, error.value.subject) == (
        f"{message.id} is not finished after 2.5 s; nothing was stopped",
        f"beam wait {message.id}",
        message.id,
    )


def test_the_holder_is_looked_for_every_half_second_and_workers_ever_more_rarely(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beam.broker.holder import duty

    looks: list[float] = []
    starts = [False]

    def ensure(*_: object) -> bool:
        looks.append(round(root.clock.elapsed, 2))
        return starts[0]

    monkeypatch.setattr(duty, "ensure_running", ensure)
    message = root.put("worker", reply="wait")
    steps = follow(root.context, root.place("worker"), message.id, seen=lambda event: None)
    for _ in range(6):
        next(steps)
        root.clock.sleep(0.25)
    assert looks == [0.0, 0.5, 1.0]
    starts[0] = True
    looks.clear()
    with pytest.raises(UnfinishedError) as error:
        for pause in steps:
            assert pause == 0.02
            root.clock.sleep(0.25)
    assert looks == [1.5, 2.5, 4.5, 8.5, 16.5, 24.5, 32.5, 40.5]
    assert (error.value.message, error.value.hint, error.value.kind, error.value.subject) == (
        "8 workers of worker ended without running a message",
        f"see {root.place('worker').log}",
        "stalled",
        message.id,
    )


def test_events_that_come_begin_the_patience_anew(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    from beam.broker.holder import duty

    looks: list[float] = []

    def ensure(*_: object) -> bool:
        looks.append(round(root.clock.elapsed, 2))
        return True

    monkeypatch.setattr(duty, "ensure_running", ensure)
    message = root.put("worker", reply="wait")
    steps = follow(root.context, root.place("worker"), message.id, seen=lambda event: None)
    for _ in range(12):
        next(steps)
        root.clock.sleep(0.5)
    assert looks == [0.0, 1.0, 3.0]
    root.hold("worker").waiting.scan()
    for _ in range(5):
        next(steps)
        root.clock.sleep(0.25)
    assert looks == [0.0, 1.0, 3.0, 6.0, 7.0]


def test_who_waits_for_a_message_that_is_gone_with_its_agent_is_told(root: Root) -> None:
    message = root.put("worker", reply="wait")
    steps = follow(root.context, root.place("worker"), message.id, seen=lambda event: None)
    queue = root.queue("worker")
    queue.remove(queue.entries("new")[0])
    with pytest.raises(NotFoundError) as error:
        next(steps)
    assert (error.value.message, error.value.hint, error.value.subject) == (
        f"{message.id} is gone: worker was removed with all its messages",
        "nothing will answer it; if it was not begun, send it to another agent",
        message.id,
    )


def test_who_only_looks_is_told_that_the_agent_was_removed_while_it_waited(root: Root) -> None:
    message = root.put("worker", reply="wait")
    steps = follow(root.context, root.place("worker"), message.id, seen=lambda event: None, looks_only=True)
    next(steps)
    shutil.rmtree(root.place("worker").dir)
    root.clock.sleep(0.4)
    next(steps)
    root.clock.sleep(0.1)
    with pytest.raises(NotFoundError, match="worker was removed with all its messages"):
        next(steps)


def test_nobody_waits_for_a_dead_letter_that_the_journal_forgot(root: Root) -> None:
    message = root.put("worker", reply="wait")
    queue = root.queue("worker")
    queue.move(queue.entries("new")[0], "dead")
    with pytest.raises(NotFoundError, match=f"{message.id} is a dead letter; .* no longer known") as error:
        next(follow(root.context, root.place("worker"), message.id, seen=lambda event: None))
    assert f"beam queue retry {message.id}" in error.value.hint


@pytest.mark.parametrize("is_there", [True, False])
def test_a_disk_error_means_that_the_message_is_gone_only_where_it_is(root: Root, is_there: bool) -> None:
    message = root.put("worker")
    if not is_there:
        queue = root.queue("worker")
        queue.remove(queue.entries("new")[0])
    with (
        pytest.raises(DiskError if is_there else NotFoundError) as error,
        not_found_if_removed(root.place("worker"), message.id),
    ):
        raise DiskError("can't read")
    assert error.value.message == (
        "can't read" if is_there else f"{message.id} is gone: worker was removed with all its messages"
    )


@pytest.mark.parametrize(("age_s", "is_just"), [(0.0, True), (4.9, True), (5.0, False), (-1.0, False)])
def test_a_message_came_just_now_for_five_seconds(root: Root, age_s: float, is_just: bool) -> None:
    root.put("worker")
    (path,) = (root.place("worker").queue / "new").iterdir()
    when = root.clock.now_ns() - int(age_s * 1e9)
    os.utime(path, ns=(when, when))
    (entry,) = root.queue("worker").entries("new")
    assert is_just_sent(root.context, root.place("worker"), entry) is is_just
    path.unlink()
    assert is_just_sent(root.context, root.place("worker"), entry)
    assert not is_just_sent(root.context, root.place("worker"), Entry(entry.position, entry.id, "cur"))
    assert not is_just_sent(root.context, root.place("box"), entry)


def put_before(root: Root, seconds: float, agent: str = "worker") -> None:
    """A message waits that was put that long ago."""
    message = root.put(agent)
    (path,) = root.place(agent).queue.glob(f"new/*-{message.id}.json")
    when = root.clock.now_ns() - int(seconds * 1e9)
    os.utime(path, ns=(when, when))


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[AgentPaths]:
    """The agents for which a worker was started; their locks are free by then."""
    started: list[AgentPaths] = []

    def start(context: object, paths: AgentPaths) -> None:
        lock = try_lock(paths.lock)
        assert lock is not None
        lock.release()
        started.append(paths)

    monkeypatch.setattr("beam.broker.inbox.launch.start_worker", start)
    return started


def hold_briefly(root: Root, *, meanwhile: Callable[[], object] = int, agent: str = "worker") -> None:
    paths = root.place(agent)
    lock = try_lock(paths.lock)
    assert lock is not None
    with held_briefly(root.context, paths, lock):
        meanwhile()
        root.clock.sleep(60)


@pytest.mark.parametrize(("ages_s", "is_started"), [([], False), ([5.0], False), ([4.0], True), ([60.0, 1.0], True)])
def test_who_held_an_agent_starts_the_worker_that_gave_up_meanwhile(
    ages_s: list[float], is_started: bool, root: Root, workers: list[AgentPaths]
) -> None:
    for seconds in ages_s:
        put_before(root, seconds)
    hold_briefly(root)
    assert workers == [root.place("worker")] * is_started


def test_who_held_an_agent_starts_a_worker_for_what_came_meanwhile(root: Root, workers: list[AgentPaths]) -> None:
    put_before(root, 60)
    hold_briefly(root, meanwhile=lambda: root.put("worker"))
    assert workers == [root.place("worker")]
    put_before(root, 0, "box")
    hold_briefly(root, meanwhile=lambda: root.put("box"), agent="box")
    assert workers == [root.place("worker")]


def test_who_held_an_agent_starts_a_worker_also_after_an_error(root: Root, workers: list[AgentPaths]) -> None:
    put_before(root, 1)
    with pytest.raises(ZeroDivisionError):
        hold_briefly(root, meanwhile=lambda: 1 / 0)
    assert workers == [root.place("worker")]


@pytest.mark.parametrize(
    "body",
    [events.QueuePaused(by="ann"), events.Notice(code="blocked", text="who knows", turn=1)],
    ids=["paused", "blocked"],
)
def test_who_held_an_agent_that_may_run_nothing_starts_a_worker_only_for_requests(
    body: Event, root: Root, workers: list[AgentPaths]
) -> None:
    record(root, "worker", started(1, owner=ELSEWHERE), body)
    put_before(root, 1)
    hold_briefly(root)
    assert workers == []
    wish = ControlRequest(
        id="worker-1", verb="resume", timestamp="2026-01-01T00:00:00Z", expires="2030-01-01T00:00:00Z"
    )
    hold_briefly(root, meanwhile=lambda: control.publish(root.place("worker").control, wish))
    assert workers == [root.place("worker")]
