"""All journals of a root as one stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from beam.api import Beam
from beam.api.watch import Placed, since, watch_root, watch_roots
from beam.base.errors import CorruptError, NotFoundError
from beam.model.events import AnyEvent, Notice
from beam.store.journal import Journal
from tests.support.context import SMALL, Root
from tests.support.journals import record


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


@pytest.mark.slow
def test_history_comes_as_one_batch_in_the_order_of_time(root: Root) -> None:
    (batch,) = batches(root)
    queued = [event for event in batch if event.message_id]
    assert [event.agent for event in queued] == ["box", "asker", "box"]
    assert [event.ts for event in batch] == sorted(event.ts for event in batch)


@pytest.mark.slow
def test_only_those_who_are_named(root: Root) -> None:
    (batch,) = batches(root, "asker")
    assert {event.agent for event in batch} == {"asker"}


@pytest.mark.slow
def test_a_damaged_journal_is_raised_after_the_events_of_the_others(root: Root) -> None:
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


@pytest.mark.slow
def test_a_program_watches_all_agents_or_those_that_it_names(root: Root) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    queued = [event for event in beam.watch(follow=False, history=True) if event.message_id]
    assert [event.agent for event in queued] == ["box", "asker", "box"]
    assert {event.agent for event in beam.watch(["asker"], follow=False, history=True)} == {"asker"}
    assert list(beam.watch(follow=False)) == []
    with pytest.raises(NotFoundError):
        next(beam.watch(["nobody"]))


@pytest.mark.slow
def test_a_program_that_watches_gets_what_comes_later(root: Root) -> None:
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)
    events = beam.watch(["worker"], history=True)
    root.put("worker", "later")
    lease = root.hold("worker")
    lease.waiting.scan()
    lease.close()
    assert next(event for event in events if event.message_id).agent == "worker"


class Teams:
    """Stands in for the teams of a person."""

    def __init__(self) -> None:
        self.did: list[object] = []

    def poll(self) -> list[object]:
        self.did.append("polled")
        return [Notice(text="team", ts="2000")]

    def take_held_events(self) -> list[object]:
        self.did.append("rest")
        return [Notice(text="rest", ts="1999")]

    def watch_also(self, path: Path) -> None:
        self.did.append(("also", path.name))

    def wait(self, seconds: float) -> None:
        self.did.append(("waited", seconds))


class Foreign:
    """Stands in for the sessions that beam did not start."""

    def __init__(self) -> None:
        self.did: list[object] = []

    def begin(self, name: str, journal: Path) -> None:
        self.did.append(("begin", Path(name).name, journal.name))

    def record_own_events(self, name: str, events: list[AnyEvent]) -> None:
        self.did.append(("take", Path(name).name, len(events)))

    def poll(self, teams: Teams) -> list[object]:
        return [SimpleNamespace(event=Notice(text="foreign", ts="1998"), session="session")]


@pytest.mark.slow
def test_teams_and_foreign_sessions_are_in_the_batch_with_their_sources(root: Root) -> None:
    teams, foreign = Teams(), Foreign()
    homes = [root.context.home]
    found = watch_roots(lambda: homes, root.context, follow=False, history=True, teams=teams, foreign=foreign)  # type: ignore[arg-type]
    (batch,) = found
    texts = [getattr(one.event, "text", "") for one in batch[:3]]
    assert texts == ["foreign", "rest", "team"]
    assert [(one.home, one.session) for one in batch[:3]] == [(None, "session"), (None, None), (None, None)]
    assert {one.home for one in batch[3:]} == {root.context.home} and len(batch) == 6
    assert {one.agent_dir for one in batch[3:]} == {root.place("box").dir, root.place("asker").dir}
    assert teams.did == ["polled", "rest", ("also", "agents")]
    counts = {name: len(root.events(name)) for name in ("asker", "box")}
    assert foreign.did == [
        ("begin", "asker", "journal"),
        ("take", "asker", counts["asker"]),
        ("begin", "box", "journal"),
        ("take", "box", counts["box"]),
    ]


@pytest.mark.slow
def test_what_comes_while_roots_are_followed_is_told_once(root: Root) -> None:
    teams = Teams()
    homes = [root.context.home]
    found = watch_roots(lambda: homes, root.context, follow=True, history=False, teams=teams)  # type: ignore[arg-type]
    assert [getattr(one.event, "text", "") for one in next(found)] == ["team"]
    record(root, "box", Notice(text="new"))
    record(root, "worker", Notice(text="of a new agent"), lane="aaaa")
    later = [(getattr(one.event, "text", ""), one.lane) for one in next(found)]
    assert later == [("team", None), ("new", None), ("of a new agent", "aaaa")]
    assert teams.did[-3:] == [("waited", 1.0), "polled", ("also", "agents")]


def test_a_time_ago_is_written_as_events_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000_000)
    assert since(0.5) == "1970-01-01T00:16:39.500000Z"


@pytest.mark.slow
def test_the_newest_events_of_each_agent_come_first_where_those_are_wanted(root: Root) -> None:
    journal = Journal.open(root.place("box").journal, "box", root.clock, SMALL)
    journal.append(Notice(text="old " * 500))
    journal.rotate_if_due()
    journal.append(Notice(text="new"))
    journal.close()
    homes = [root.context.home]
    found = watch_roots(lambda: homes, root.context, follow=True, history=False, recent=True, teams=Teams())  # type: ignore[arg-type]
    own = [one.event for one in next(found) if one.home is not None]
    assert [event.text for event in own if event.agent == "box" and isinstance(event, Notice)] == ["new"]
    assert [event for event in own if event.agent == "asker"] == root.events("asker")
    record(root, "box", Notice(text="later"))
    assert [getattr(one.event, "text", "") for one in next(found) if one.home is not None] == ["later"]
