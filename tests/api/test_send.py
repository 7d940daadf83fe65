"""Sending and waiting in one."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from beam.api import Beam
from beam.api.send import _acquire_lease, _each_once
from beam.broker.holder.lease import AgentLease
from beam.broker.inbox import standing
from beam.model import events
from beam.store.segment import Fold
from beam.turns.handle import Stop
from tests.support.context import Root


@pytest.mark.slow
def test_who_is_cancelled_before_anything_was_put_puts_nothing(tmp_path: Path) -> None:
    root = Root(tmp_path)
    beam = Beam(root.context.home.root, cwd=root.base, environ=root.environ)

    async def inside() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await beam.send.aio("box", "hi")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(inside())
    assert beam.queue() == []


def test_only_the_events_of_the_own_message_are_seen(root: Root) -> None:
    message, paths = root.message("worker"), root.place("worker")
    seen: list[events.Event] = []

    async def acquired() -> AgentLease | None:
        return await _acquire_lease(root.context, paths, message, Stop(), seen=seen.append, fold=Fold(paths.journal))

    lease = asyncio.run(acquired())
    assert lease is not None
    with contextlib.closing(lease):
        lease.log.record(events.Notice(text="mine"), message_id=message.id)
        lease.log.record(events.Notice(text="another's"), message_id="worker-2")
        lease.log.record(events.Notice(text="nobody's"))
    assert [event.text for event in seen if isinstance(event, events.Notice)] == ["mine"]


def test_each_event_is_passed_on_once_and_what_is_in_no_journal_always() -> None:
    seen: list[events.Event] = []
    once = _each_once(seen.append)
    for seq in (0, 3, 0, 3, 2, 4, 3, 0):
        once(events.Notice(seq=seq, text="x"))
    assert [event.seq for event in seen] == [0, 3, 0, 4, 0]


@pytest.mark.slow
def test_the_events_of_an_attempt_that_is_retried_are_seen_once(tmp_path: Path) -> None:
    (tmp_path / "beam.yaml").write_text(
        "policy: {attempts: 2, retry: [crashed], backoff: 50ms}\n"
        "agents:\n  flaky: {command: [sh, -c, 'test -e again && echo yes || { touch again; exit 1; }']}\n"
    )
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "BEAM_TRUST": "1"}
    beam = Beam(cwd=tmp_path, environ=environ)
    seen: list[events.Event] = []
    outcome = beam.send("flaky", "hi", seen=seen.append)
    assert (outcome.reply, outcome.attempt) == ("yes", 2)
    numbers = [event.seq for event in seen if event.seq]
    assert numbers == sorted(set(numbers))
    assert [type(event) for event in seen].count(events.TurnFinished) == 2


@pytest.mark.slow
def test_a_send_reads_each_line_of_the_journal_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command line sends: it asks before whether anybody will run the message."""
    beam = Beam(cwd=tmp_path, environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    for number in range(3):
        assert beam.send("scripted", f"{number}").reply == f"You said: {number}"
    seen: list[bytes] = []
    decode_lines = events.decode_lines

    def noted(lines: bytes) -> list[events.AnyEvent] | None:
        seen.extend(lines.splitlines())
        return decode_lines(lines)

    monkeypatch.setattr(events, "decode_lines", noted)
    message = beam.message("scripted", "last")
    assert beam.notes(message) == []
    assert beam.deliver(message).reply == "You said: last"
    assert len(seen) == len(set(seen)) > 20


@pytest.mark.slow
@pytest.mark.parametrize(("waits_s", "looks"), [(0.0, 2), (5.0, 3)])
def test_the_folder_is_looked_at_by_the_sender_and_before_the_turn_and_again_where_time_passed(
    waits_s: float, looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beam = Beam(cwd=tmp_path, environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    looked: list[str] = []
    stands = standing.check_folder

    def how(*args: Any) -> standing.FolderStanding:
        looked.append("the folder")
        return stands(*args)

    monkeypatch.setattr(standing, "check_folder", how)
    monkeypatch.setattr(standing, "_MOMENT_S", 0.0)  # as if the turn began long after its message was claimed
    message = beam.message("scripted", "hi")
    beam._receivers[message.id] = structs.replace(
        beam._receivers[message.id], looked_at=beam._receivers[message.id].looked_at - waits_s
    )
    assert beam.deliver(message).reply == "You said: hi"
    assert len(looked) == looks
