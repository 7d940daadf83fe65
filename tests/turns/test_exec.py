"""A headless turn's end: what only the end tells is recorded, and the verdict is the adapter's own."""

from __future__ import annotations

from collections.abc import Sequence

from beam.agents.base import Exit, Launch, Turn, Verdict
from beam.model import events
from beam.model.events import Event
from beam.model.outcome import Status
from beam.process.spawn import Ended
from beam.turns.bookkeeping import Bookkeeping
from beam.turns.engine import Engine
from beam.turns.exec import ExecDriver
from tests.support.turns import Recorded, handle, services, turn_input

TURN = Turn(text="hi", message_id="m", agent="a")


class AtTheEnd:
    """A decoder that tells something only at its end."""

    def line(self, line: bytes) -> Sequence[Event]:
        return []

    def end(self, exit: Exit) -> tuple[Sequence[Event], Verdict]:
        told = events.Notice(text=f"{exit.code} {exit.stderr_tail} {exit.stopped_by}")
        return [told, events.Text(text="the end")], Verdict(status=Status.COMPLETED, reply="yes")


def test_what_only_the_end_tells_is_recorded_before_the_verdict_is_given() -> None:
    journal, input = Recorded(), turn_input(TURN)
    stopping = handle(journal)
    engine = Engine(input, services(journal), stopping)
    engine.book = Bookkeeping(journal, engine.clock, 1)
    driver = ExecDriver(Launch(argv=("x",)), AtTheEnd(), input, engine)
    stopping.stop.ask("timeout")
    verdict = driver.finish(Ended(code=3, stderr_tail="oh"))
    assert (verdict.status, verdict.reply) == (Status.COMPLETED, "yes")
    assert journal.kinds() == ["Notice", "Text"]
    assert journal.of(events.Notice)[0].text == "3 oh timeout"
