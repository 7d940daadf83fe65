"""What becomes of a headless turn whose agent only says that its model does not answer, or that is stopped before."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from beam.agents.base import Decoder, Exit, Host, Launch, Turn, Verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status
from beam.model.settings import Limits
from beam.turns.exec import run_turn
from beam.turns.handle import Stop
from tests.support.turns import Recorded, handle, services, turn_input

pytestmark = pytest.mark.usefixtures("memory")  # and as acceptance tests with real processes


class Retrying:
    """An agent that says on stderr, again and again, that it tries its model once more."""

    def __init__(self, program: str, retries: int | None) -> None:
        self.program = program
        self.retries = retries

    def launch(self, turn: Turn, host: Host) -> Launch:
        return Launch(argv=(host.python, "-c", self.program), retries=self.retries)

    def decoder(self, turn: Turn) -> Decoder:
        return Lines()


class Lines:
    def line(self, line: bytes) -> Sequence[Event]:
        return (events.Text(text=line.decode()),)

    def error_line(self, line: bytes) -> Sequence[Event]:
        return (events.StatusChanged(state="retrying", attempt=int(line)),) if line.isdigit() else ()

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        return (), Verdict(status=Status.FAILED, reason=exit.stopped_by)


def run(
    tmp_path: Path, program: str, *, retries: int | None = None, idle: float = 60, stop: Stop | None = None
) -> tuple[list[Event], Verdict]:
    record = Recorded()
    turn = Turn(text="hi", message_id="a-1", agent="a", cwd=str(tmp_path), scratch=str(tmp_path))
    input = turn_input(
        turn, host=Host(python=sys.executable), limits=Limits(grace=1), environ=os.environ, idle_timeout=idle
    )
    verdict = asyncio.run(run_turn(Retrying(program, retries), input, services(record), handle(record, stop)))
    return record.events, verdict


COUNT = "import sys, time\nfor n in range(1, 500):\n    print(n, file=sys.stderr, flush=True)\n    time.sleep(0.05)\n"


@pytest.mark.slow
def test_after_its_share_of_retries_the_turn_is_ended_for_them(tmp_path: Path) -> None:
    found, verdict = run(tmp_path, COUNT, retries=2)
    assert verdict.reason == "retries"
    attempts = [event.attempt for event in found if isinstance(event, events.StatusChanged)]
    assert attempts[:3] == [1, 2, 3]


def test_an_agent_is_not_let_go_in_a_turn_that_was_stopped_before(tmp_path: Path) -> None:
    stop = Stop()
    stop.request("interrupted", by="ann")
    found, verdict = run(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')", stop=stop)
    assert verdict.reason == "interrupted"
    assert not [event for event in found if isinstance(event, events.PromptSent)]
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_retries_are_no_sign_of_life(tmp_path: Path) -> None:
    _, verdict = run(tmp_path, COUNT, idle=0.5)
    assert verdict.reason == "idle"


@pytest.mark.slow
def test_what_the_agent_says_after_its_retries_is_one(tmp_path: Path) -> None:
    program = COUNT.replace("500", "2") + "for _ in range(8):\n    print('x', flush=True)\n    time.sleep(0.5)\n"
    found, verdict = run(tmp_path, program, retries=2, idle=3)
    assert verdict.reason is None
    assert sum(isinstance(event, events.Text) for event in found) == 8
