"""A session that is a file is proven lost where the file is gone, before anything is run in its name."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import UNSET, UnsetType

from beam.agents.base import Decoder, Exit, Host, Launch, Turn, Verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status
from beam.model.settings import Limits
from beam.turns.exec import run_turn
from tests.support.turns import Recorded, handle, services, turn_input

pytestmark = pytest.mark.usefixtures("memory")  # and as acceptance tests with real processes


class Chat:
    """An agent whose session is a file in its folder; it prints the session that it was started for."""

    def launch(self, turn: Turn, host: Host) -> Launch:
        file = None if turn.session_id is None else f"{turn.cwd}/{turn.session_id}.md"
        asked = turn.session_id or turn.fresh_session_id
        return Launch(argv=(host.python, "-c", f"print({asked!r})"), session_file=file)

    def decoder(self, turn: Turn) -> Decoder:
        return Lines()


class Lines:
    """Every line is the reply, and the session's id."""

    def __init__(self) -> None:
        self.said: str | None = None

    def line(self, line: bytes) -> Sequence[Event]:
        self.said = line.decode()
        return (events.SessionStarted(session_id=self.said),)

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        return (), Verdict(status=Status.COMPLETED, reply=self.said, session_id=self.said, session="resumed")


def run(tmp_path: Path, *, fork: bool = False) -> tuple[list[Event], Verdict]:
    record = Recorded()
    turn = Turn(
        text="hi",
        message_id="a-1",
        agent="a",
        cwd=str(tmp_path),
        scratch=str(tmp_path),
        session_id="old",
        fork=fork,
        fresh_session_id="5b2b7a86-6a2c-5c3f-9d5e-0f6a3a1f2b10",
    )
    input = turn_input(
        turn, host=Host(python=sys.executable), limits=Limits(grace=1), environ=os.environ, idle_timeout=60
    )
    verdict = asyncio.run(run_turn(Chat(), input, services(record), handle(record)))
    return record.events, verdict


def test_the_turn_runs_once_in_a_new_session_with_an_id_of_its_own_and_the_loss_is_reported(tmp_path: Path) -> None:
    found, verdict = run(tmp_path)
    (lost,) = [event for event in found if isinstance(event, events.SessionLost)]
    assert (lost.session_id, "old.md is gone" in lost.reason) == ("old", True)
    assert sum(isinstance(event, events.AgentStarted) for event in found) == 1
    assert (verdict.status, verdict.session) == (Status.COMPLETED, "lost")
    assert verdict.session_id not in (None, "old")


def test_a_session_whose_file_is_there_goes_on(tmp_path: Path) -> None:
    (tmp_path / "old.md").touch()
    found, verdict = run(tmp_path)
    assert not any(isinstance(event, events.SessionLost) for event in found)
    assert (verdict.session, verdict.session_id) == ("resumed", "old")


@pytest.mark.parametrize(("is_there", "forked_from"), [(True, "old"), (False, UNSET)])
def test_only_a_copy_of_a_session_says_what_it_was_made_from(
    tmp_path: Path, is_there: bool, forked_from: str | UnsetType
) -> None:
    if is_there:
        (tmp_path / "old.md").touch()
    found, _ = run(tmp_path, fork=True)
    assert [event.forked_from for event in found if isinstance(event, events.SessionStarted)] == [forked_from]
