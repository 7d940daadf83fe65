"""A headless turn's end: what only the end tells is recorded, and the verdict is the adapter's own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from beam.agents.base import Exit, Launch, Turn, Verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status
from beam.model.settings import Limits
from beam.process.spawn import ProcessEnd
from beam.turns.engine import Engine
from beam.turns.exec import ExecDriver
from beam.turns.record import Bookkeeping
from tests.support.turns import Recorded, handle, services, turn_input

TURN = Turn(text="hi", message_id="m", agent="a")


class AtTheEnd:
    """A decoder that tells something only at its end."""

    def line(self, line: bytes) -> Sequence[Event]:
        return []

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        told = events.Notice(text=f"{exit.code} {exit.stderr_tail} {exit.stopped_by}")
        return [told, events.Text(text="the end")], Verdict(status=Status.COMPLETED, reply="yes")


class Says:
    """A decoder whose verdict is this."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def line(self, line: bytes) -> Sequence[Event]:
        return []

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        return [], self._verdict


@pytest.mark.parametrize(
    ("said", "size", "status"),
    [
        (Status.COMPLETED, 101, Status.TRUNCATED),
        (Status.COMPLETED, 100, Status.TRUNCATED),
        (Status.COMPLETED, 99, Status.COMPLETED),  # the line was a tool's, not the answer's
        (Status.FAILED, 100, Status.FAILED),
    ],
)
def test_an_answer_with_a_line_that_was_cut_is_truncated(said: Status, size: int, status: Status) -> None:
    journal, input = Recorded(), turn_input(TURN, limits=Limits(line_bytes=100))
    engine = Engine(input, services(journal), handle(journal))
    engine.book = Bookkeeping(journal, engine.clock, 1)
    driver = ExecDriver(Launch(argv=("x",)), Says(Verdict(status=said, reply="x" * size)), input, engine)
    assert driver.finish(ProcessEnd(code=0)).status is said
    driver._on_long_line()
    verdict = driver.finish(ProcessEnd(code=0))
    assert (verdict.status, verdict.reply) == (status, "x" * size)
    assert (verdict.reason is not None) == (status is Status.TRUNCATED)


def test_what_only_the_end_tells_is_recorded_before_the_verdict_is_given() -> None:
    journal, input = Recorded(), turn_input(TURN)
    stopping = handle(journal)
    engine = Engine(input, services(journal), stopping)
    engine.book = Bookkeeping(journal, engine.clock, 1)
    driver = ExecDriver(Launch(argv=("x",)), AtTheEnd(), input, engine)
    stopping.stop.request("timeout")
    verdict = driver.finish(ProcessEnd(code=3, stderr_tail="oh"))
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "yes")
    assert journal.kinds() == ["Notice", "Text"]
    assert journal.of(events.Notice)[0].text == "3 oh timeout"
