"""A turn whose process was stopped in the middle of it: whatever came meanwhile is heard before silence is judged."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from beam.agents.base import Decoder, Exit, Host, Launch, Turn, Verdict
from beam.agents.claude.screen import profile as CLAUDE
from beam.base.clock import SystemClock
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status
from beam.turns import exec as exec_face
from beam.turns import terminal
from beam.turns.handle import Stop
from tests.support import tui
from tests.support.turns import handle, services, turn_input

pytestmark = pytest.mark.usefixtures("memory")  # and as acceptance tests with real processes
SLEPT_S = 100.0
PROGRAM = "import time\nfor n in range(4):\n    print(n, flush=True)\n    time.sleep(0.35)\n"


class Sleepy(SystemClock):
    """A clock of a process that is stopped for a while when it looks for the second time."""

    def __init__(self) -> None:
        self.slept = 0.0
        self.looks = 0

    def monotonic(self) -> float:
        return super().monotonic() + self.slept

    def look(self) -> None:
        self.looks += 1
        if self.looks == 2:
            self.slept = SLEPT_S


class Counting:
    """An agent that counts, and its decoder."""

    def launch(self, turn: Turn, host: Host) -> Launch:
        return Launch(argv=(sys.executable, "-c", PROGRAM))

    def decoder(self, turn: Turn) -> Decoder:
        return self

    def line(self, line: bytes) -> Sequence[Event]:
        return (events.Text(text=line.decode()),)

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        return (), Verdict(status=Status.FAILED if exit.stopped_by else Status.COMPLETED, reason=exit.stopped_by)


class Face:
    """The agent `tui.py` on its terminal."""

    profile = structs.replace(CLAUDE, columns=100, rows=40, start_seconds=10.0)

    def launch(self, turn: Turn, host: Host) -> Launch:
        return Launch(argv=(sys.executable, tui.__file__, "echo"))


def record(body: Event, *, sync: bool = False) -> Event:
    return body


def a_turn(tmp_path: Path) -> Turn:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    names = {"message_id": "x-1", "agent": "x", "cwd": str(tmp_path), "scratch": str(scratch)}
    return Turn(text="hello", fresh_session_id="f-1", **names)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["timeout", "idle_timeout"])
def test_a_headless_turn_is_not_stopped_for_the_time_in_which_nobody_listened(tmp_path: Path, limit: str) -> None:
    clock, stop = Sleepy(), Stop()
    times = {"timeout": 600.0, "idle_timeout": 600.0, limit: SLEPT_S / 2}
    input = turn_input(a_turn(tmp_path), **times)
    verdict = asyncio.run(
        exec_face.run_turn(Counting(), input, services(record, clock, poll=clock.look), handle(record, stop))
    )
    assert (verdict.status, verdict.reason, clock.slept) == (Status.COMPLETED, None, SLEPT_S)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["timeout", "idle_timeout"])
def test_a_turn_on_a_terminal_is_not_stopped_for_the_time_in_which_nobody_listened(tmp_path: Path, limit: str) -> None:
    clock, stop = Sleepy(), Stop()
    times = {"timeout": 600.0, "idle_timeout": 600.0, limit: SLEPT_S / 2}
    input = turn_input(a_turn(tmp_path), environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, **times)
    verdict = asyncio.run(
        terminal.run_turn(Face(), None, input, services(record, clock, poll=clock.look), handle(record, stop))
    )
    assert (verdict.status, verdict.reply, clock.slept) == (Status.COMPLETED, "ECHO[hello]", SLEPT_S)
