"""The holder: what it makes of every message file, by what the journal says of it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from beam.base.errors import DiskError
from beam.broker.holder import duty, turn
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import failure
from beam.model import events
from beam.model.message import decode, digest, encode
from beam.model.outcome import Status
from beam.process import tree
from beam.process.owned import owner_text
from beam.store.lock import try_lock
from beam.store.queue import Entry
from beam.turns.handle import Stop
from tests.support.context import Root


def last(root: Root, kind: type[events.Event], agent: str = "worker") -> events.Event:
    return [event for event in root.events(agent) if isinstance(event, kind)][-1]


def test_an_id_that_comes_again_with_other_content_is_a_dead_letter_and_the_first_one_goes_on(root: Root) -> None:
    message = root.put("worker", "first")
    root.hold("worker").close()
    root.put("worker", "second", id=message.id)
    lease = root.hold("worker")
    waiting = lease.waiting.scan()
    assert [each.id for each in waiting] == [message.id]
    assert lease.log.queue.read(waiting[0]).text == "first"
    assert root.boxes("worker") == {"new": [message.id], "dead": [message.id]}
    assert last(root, events.MessageDead).reason == "id_reused"  # type: ignore[attr-defined]
    assert lease.waiting.claim(waiting[0]) is not None


@pytest.mark.slow
def test_one_message_in_two_files_is_run_once(root: Root) -> None:
    message = root.put("worker")
    root.put("worker", id=message.id)
    lease = root.hold("worker")
    first, second = lease.waiting.scan()
    outcome = asyncio.run(run(lease, first))
    assert outcome == (message.id, Status.COMPLETED)
    assert lease.waiting.claim(second) is None
    assert root.boxes("worker") == {}
    lease.close()


async def run(lease: AgentLease, entry: Entry) -> tuple[str, Status]:
    claimed = lease.waiting.claim(entry)
    assert claimed is not None
    outcome = await turn.run(lease, *claimed, Stop())
    return outcome.message_id, outcome.status


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[1]", b'{"id":"worker-1"}'])
def test_a_corrupt_file_becomes_a_dead_letter_with_the_reason_and_the_rest_goes_on(root: Root, data: bytes) -> None:
    good = root.put("worker")
    queue = root.queue("worker")
    (queue.directory / "new" / f"{1:020d}-worker-bad.json").write_bytes(data)
    (queue.directory / "new" / f"{2:020d}-worker-dir.json").mkdir()
    lease = root.hold("worker")
    assert [entry.id for entry in lease.waiting.scan()] == [good.id]
    assert root.boxes("worker")["dead"] == ["worker-bad", "worker-dir"]
    dead = [event for event in root.events("worker") if isinstance(event, events.MessageDead)]
    assert [(event.message_id, event.reason) for event in dead] == [
        ("worker-bad", "corrupt"),
        ("worker-dir", "corrupt"),
    ]
    assert all(event.detail for event in dead)


@pytest.mark.parametrize("fields", [{"deadline": "soon"}, {"deadline": ""}, {"to": "other"}])
def test_a_file_with_a_deadline_that_is_no_time_or_of_another_agent_is_corrupt(
    root: Root, fields: dict[str, str]
) -> None:
    message = root.message("worker")
    plain = encode(msgspec.structs.replace(message, **fields))
    (root.queue("worker").directory / "new" / f"{1:020d}-{message.id}.json").write_bytes(plain)
    assert root.hold("worker").waiting.scan() == []
    assert root.boxes("worker") == {"dead": [message.id]}


def test_unknown_fields_survive_the_queue_the_claim_and_the_way_back(root: Root) -> None:
    message = root.message("worker")
    data = encode(message)[:-2] + b',"color":"red"}\n'
    (root.queue("worker").directory / "new" / f"{1:020d}-{message.id}.json").write_bytes(data)
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    assert lease.waiting.claim(entry) is not None
    lease.close()
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    assert b'"color":"red"' in lease.log.queue.path(entry).read_bytes()


def test_a_lock_is_free_after_a_failed_recovery(root: Root) -> None:
    root.hold("worker").close()
    segment = next(root.place("worker").journal.iterdir())
    segment.write_bytes(b"#" + segment.read_bytes())
    with pytest.raises(DiskError, match=segment.name):
        root.hold("worker")
    lock = try_lock(root.place("worker").lock)
    assert lock is not None
    lock.release()


# -- what may not run --------------------------------------------------------------------------------------------------


def refused(root: Root, agent: str = "worker") -> events.MessageDead:
    lease = root.hold(agent)
    (entry,) = lease.waiting.scan()
    assert lease.waiting.claim(entry) is None
    assert root.boxes(agent) == {"dead": [entry.id]}
    dead = last(root, events.MessageDead, agent)
    assert isinstance(dead, events.MessageDead)
    lease.close()
    return dead


def test_a_deadline_counts_while_nothing_is_claimed(root: Root) -> None:
    kept = root.put("worker", "kept")
    late = root.put("worker", "late", deadline="2023-11-14T22:13:21Z")
    lease = root.hold("worker")
    lease.waiting.expire()
    assert root.boxes("worker") == {"new": [kept.id, late.id]}
    root.clock.sleep(2)
    lease.waiting.expire()
    lease.waiting.expire()
    assert root.boxes("worker") == {"new": [kept.id], "dead": [late.id]}
    assert lease.log.state.known[late.id].status is Status.TIMEOUT
    lease.close()


@pytest.mark.slow
def test_a_message_is_run_until_its_deadline_and_not_after(root: Root) -> None:
    root.put("worker", deadline="2023-11-14T22:13:20Z")  # now, to the second
    lease = root.hold("worker")
    assert lease.waiting.claim(lease.waiting.scan()[0]) is not None
    lease.close()
    root.put("other", deadline="2023-11-14T22:13:19Z", sender="asker", reply="queue")
    dead = refused(root, "other")
    assert (dead.reason, dead.status) == ("expired", Status.TIMEOUT)
    (told,) = (root.place("asker").queue / "new").iterdir()
    assert "its deadline passed" in decode(told.read_bytes()).text


@pytest.mark.slow
def test_a_message_of_too_many_hops_says_why_and_tells_nobody(root: Root) -> None:
    root.put("worker", hops=20)
    lease = root.hold("worker")
    assert lease.waiting.claim(lease.waiting.scan()[0]) is not None
    lease.close()
    root.put("other", hops=21, sender="asker", reply="queue")
    dead = refused(root, "other")
    assert (dead.reason, dead.status, dead.detail) == (
        "hops",
        Status.LIMIT,
        "21 hops in thread t: over the limit of 20",
    )
    assert root.boxes("asker") == {}


def test_a_reply_to_a_session_that_was_put_aside_is_a_dead_letter(root: Root) -> None:
    lease = root.hold("worker")
    lease.log.record(events.SessionArchived(session_id="s1"))
    lease.close()
    root.put("worker", type="reply", for_session="s1")
    dead = refused(root)
    assert (dead.reason, "s1" in dead.detail) == ("no_such_session", True)


def test_what_a_run_left_when_it_was_killed_is_run_by_nobody_else(root: Root) -> None:
    me = tree.this_process()
    gone = msgspec.structs.replace(me, start_ticks=me.start_ticks - 1)
    for agent, only_by in (("worker", owner_text(me)), ("other", ""), ("asker", "no process")):
        root.put(agent, only_by=only_by)
        lease = root.hold(agent)
        assert lease.waiting.claim(lease.waiting.scan()[0]) is not None
        lease.close()
    root.put("box", only_by=owner_text(gone))
    dead = refused(root, "box")
    assert (dead.reason, dead.status, "nothing ran" in dead.detail) == ("holder_died", Status.CANCELLED, True)


def test_a_message_whose_file_goes_while_it_is_claimed_is_nobodys(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.put("worker")
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    monkeypatch.setattr(failure, "find_refusal", lambda *_: lease.log.queue.path(entry).unlink())
    assert lease.waiting.claim(entry) is None


# -- turns that can't begin --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_message_to_an_agent_that_was_removed_ends_and_is_a_dead_letter(root: Root) -> None:
    message = root.put("worker", sender="asker", reply="queue")
    (root.base / "beam.yaml").write_text("agents:\n  asker: {adapter: mailbox}\n")
    root.reload()
    lease = root.hold("worker")
    (entry,) = lease.waiting.scan()
    assert asyncio.run(run(lease, entry)) == (message.id, Status.FAILED)
    finished = last(root, events.TurnFinished)
    assert isinstance(finished, events.TurnFinished)
    assert (finished.turn, "worker" in (finished.reason or "")) == (None, True)
    assert root.boxes("worker") == {"dead": [message.id]}
    assert len(root.boxes("asker")["new"]) == 1
    assert asyncio.run(duty.run_next(lease, Stop())) is False
    lease.close()


def test_a_mailbox_is_never_run(root: Root) -> None:
    message = root.put("box")
    lease = root.hold("box")
    assert asyncio.run(duty.run_next(lease, Stop())) is False
    assert root.boxes("box") == {"new": [message.id]}
    assert lease.has_waiting_work() is False
    lease.close()


def test_the_known_digest_is_that_of_the_message(root: Root) -> None:
    message = root.put("worker")
    lease = root.hold("worker")
    lease.waiting.scan()
    assert lease.log.state.known[message.id].digest == digest(message)
