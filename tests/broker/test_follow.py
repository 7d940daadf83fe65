"""Waiting for an outcome by reading, whoever writes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator
from typing import Any

import pytest

from beam.base.errors import UnfinishedError
from beam.broker import mailbox
from beam.broker.follow import follow, outcome_in, replay_outcome
from beam.model.events import Event
from beam.model.message import Message
from beam.store.journal import read_state
from tests.support.context import Root


def following(root: Root, message: Message, seen: list[Event], **options: Any) -> Generator[float, None, Any]:
    return follow(root.context, root.place("box"), message.id, seen=seen.append, **options)


def answer(root: Root, message: Message) -> None:
    assert mailbox.recv(root.context, root.place("box"), None) is not None
    mailbox.reply(root.context, root.place("box"), message.id, "yes", failed=False)


def ended(steps: Generator[float, None, Any]) -> Any:
    with pytest.raises(StopIteration) as done:
        for _ in range(50):
            next(steps)
    return done.value.value


def test_an_outcome_that_is_there_is_given_at_once_and_its_event_told(root: Root) -> None:
    message = root.put("box", reply="wait")
    answer(root, message)
    seen: list[Event] = []
    outcome = ended(following(root, message, seen))
    assert outcome.reply == "yes"
    assert [type(event).__name__ for event in seen] == ["TurnFinished"]


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


def test_workers_that_end_without_a_word_are_started_less_and_less_often_and_given_up_on(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = root.put("worker", reply="wait")
    started: list[float] = []
    monkeypatch.setattr("beam.broker.launch.start", lambda context, place: started.append(root.clock.elapsed))
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
    from beam.broker import duty

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
