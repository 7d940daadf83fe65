"""On a full disk nothing is begun whose outcome would not fit, and what was begun gets its outcome."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from beam.base.errors import DiskError
from beam.broker.asking import mailbox
from beam.broker.holder import turn
from beam.model import events
from beam.model.outcome import Outcome, Status
from beam.store.reserve import BYTES, Reserve
from beam.turns.handle import Stop
from tests.support.context import Root
from tests.support.small_disk import SmallDisk

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the small disk looks into /proc")


@pytest.fixture
def disk(root: Root, monkeypatch: pytest.MonkeyPatch) -> SmallDisk:
    return SmallDisk(root.base.parent, monkeypatch)


def reserve(root: Root, agent: str = "box") -> Path:
    return root.place(agent).reserve


def taken(root: Root, agent: str = "box") -> str:
    root.put(agent, sender="asker", reply="queue")
    message = mailbox.recv(root.context, root.place(agent), None)
    assert message is not None
    return message.id


def answer(root: Root, message_id: str, text: str = "yes") -> Outcome:
    return mailbox.reply(root.context, root.place("box"), message_id, text, failed=False)


def test_the_reserve_takes_its_room_once(tmp_path: Path) -> None:
    kept = Reserve(tmp_path / "reserve")
    kept.make()
    kept.make()
    found = (tmp_path / "reserve").stat()
    assert (found.st_size, found.st_blocks * 512 >= BYTES) == (BYTES, True)
    assert (kept.free(), kept.free()) == (True, False)


def test_a_reserve_that_was_cut_short_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / "reserve").write_bytes(b"x")
    Reserve(tmp_path / "reserve").make()
    assert (tmp_path / "reserve").stat().st_size == BYTES


def test_lanes_share_their_agents_reserve(root: Root) -> None:
    place = root.place("worker")
    assert place.lane_of("aaaa").reserve == place.reserve == place.dir / "reserve"


@pytest.mark.slow
def test_without_room_for_an_outcome_nothing_is_claimed_and_it_goes_on_when_there_is(
    root: Root, disk: SmallDisk
) -> None:
    message = root.put("box")
    root.hold("box").close()
    disk.leave(BYTES - 1)
    with pytest.raises(DiskError, match="No space left") as caught:
        mailbox.recv(root.context, root.place("box"), None)
    assert (caught.value.subject, root.boxes("box")) == (str(reserve(root)), {"new": [message.id]})
    disk.leave(None)
    again = mailbox.recv(root.context, root.place("box"), None)
    assert (again.id if again else None) == message.id


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 1, 200])
def test_an_outcome_and_its_closing_fit_on_a_full_disk(root: Root, disk: SmallDisk, room: int) -> None:
    message_id = taken(root)
    disk.leave(room)
    assert answer(root, message_id).status is Status.COMPLETED
    assert not reserve(root).exists()
    assert root.boxes("box") == {}
    assert len(root.boxes("asker")["new"]) == 1
    said = root.events("box")
    assert [event.seq for event in said] == list(range(1, len(said) + 1))  # type: ignore[attr-defined]
    disk.leave(None)
    assert answer(root, taken(root)).status is Status.COMPLETED
    assert reserve(root).stat().st_size == BYTES


@pytest.mark.slow
def test_an_answer_larger_than_the_reserve_is_refused_and_a_short_one_is_taken(root: Root, disk: SmallDisk) -> None:
    message_id = taken(root)
    disk.leave(100)
    with pytest.raises(DiskError, match="No space left"):
        answer(root, message_id, "x" * BYTES)
    assert reserve(root).exists()
    assert answer(root, message_id).status is Status.COMPLETED
    outcomes = [event for event in root.events("box") if isinstance(event, events.TurnFinished)]
    assert [event.reply for event in outcomes] == ["yes"]


@pytest.mark.acceptance
def test_a_turn_that_the_disk_can_not_hold_is_ended_and_has_an_outcome(root: Root, disk: SmallDisk) -> None:
    message = root.put("worker", "x" * 200_000, sender="asker", reply="queue")
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    disk.leave(8000)
    outcome = asyncio.run(turn.run(lease, *claimed, Stop()))
    lease.close()
    assert outcome is not None
    assert (outcome.status, outcome.exit_code) == (Status.UNKNOWN, 8)
    assert "No space left" in (outcome.reason or "")
    assert root.boxes("worker") == {"dead": [message.id]}
    assert len(root.boxes("asker")["new"]) == 1
    disk.leave(None)
    again = root.hold("worker")
    assert (again.log.state.open_turn, again.waiting.scan()) == (None, [])
    again.close()
