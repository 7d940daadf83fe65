"""All journals of a root as one stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beam.api import Beam
from beam.api.watch import Placed, watch_root
from beam.base.errors import CorruptError, NotFoundError
from beam.model.events import AnyEvent
from tests.support.context import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    found = Root(tmp_path)
    for agent in ("box", "asker", "box"):
        found.clock.sleep(1)
        found.put(agent, f"to {agent}")
        lease = found.hold(agent)
        lease.waiting.scan()
        lease.close()
    return found


def batches(root: Root, *agents: str) -> list[list[AnyEvent]]:
    return [[placed.event for placed in batch] for batch in stream(root, *agents)]


def stream(root: Root, *agents: str) -> Iterator[list[Placed]]:
    return watch_root(root.context, agents=list(agents), follow=False, history=True)


def test_history_comes_as_one_batch_in_the_order_of_time(root: Root) -> None:
    (batch,) = batches(root)
    queued = [event for event in batch if event.message_id]
    assert [event.agent for event in queued] == ["box", "asker", "box"]
    assert [event.ts for event in batch] == sorted(event.ts for event in batch)


def test_only_those_who_are_named(root: Root) -> None:
    (batch,) = batches(root, "asker")
    assert {event.agent for event in batch} == {"asker"}


def test_a_damaged_journal_is_raised_after_the_others_are_told(root: Root) -> None:
    (segment,) = root.place("box").journal.glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'{"type":"message.queued"', b"junk", 1))
    batches = stream(root)
    assert {placed.event.agent for placed in next(batches)} == {"asker"}
    with pytest.raises(CorruptError, match="box"):
        next(batches)


def test_a_root_that_is_not_there_is_an_empty_batch(tmp_path: Path) -> None:
    empty = Root(tmp_path)
    assert batches(empty) == [[]]
    assert not empty.context.home.root.exists()


def test_a_program_watches_all_agents_or_those_that_it_names(root: Root) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    queued = [event for event in beam.watch(follow=False, history=True) if event.message_id]
    assert [event.agent for event in queued] == ["box", "asker", "box"]
    assert {event.agent for event in beam.watch(["asker"], follow=False, history=True)} == {"asker"}
    assert list(beam.watch(follow=False)) == []
    with pytest.raises(NotFoundError):
        next(beam.watch(["nobody"]))


def test_a_program_that_watches_gets_what_comes_later(root: Root) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    events = beam.watch(["worker"], history=True)
    root.put("worker", "later")
    lease = root.hold("worker")
    lease.waiting.scan()
    lease.close()
    assert next(event for event in events if event.message_id).agent == "worker"
