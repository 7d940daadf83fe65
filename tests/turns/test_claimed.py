"""Figures that no turn can have are not taken, from whichever agent they come."""

from __future__ import annotations

import math

import pytest

from beam.model import events
from beam.model.events import TurnFinished
from beam.model.outcome import ModelUsage, Status, Total, Usage
from beam.turns.record import FigureFilter, PieceRecorder
from tests.support.context import FakeClock
from tests.support.turns import Recorded


@pytest.mark.parametrize("cost_usd", [1e308, -1.0, math.inf, -math.inf, math.nan, 1e6 + 1])
def test_a_cost_that_no_turn_has_is_unknown_and_told(cost_usd: float) -> None:
    journal = Recorded()
    body = FigureFilter(journal)(events.UsageSeen(usage=Usage(input_tokens=3), cost_usd=cost_usd))
    assert body == events.UsageSeen(usage=Usage(input_tokens=3))
    assert [notice.code for notice in journal.of(events.Notice)] == ["figures"]


@pytest.mark.parametrize("tokens", [-1, 10**12 + 1, 10**300])
def test_tokens_that_no_turn_has_are_unknown_in_each_figure_and_told_once(tokens: int) -> None:
    journal = Recorded()
    record = PieceRecorder(journal, FakeClock(), [FigureFilter(journal)])
    usage = Usage(input_tokens=tokens, output_tokens=5)
    share = ModelUsage(model="m", usage=usage, cost_usd=math.inf)
    record(events.UsageSeen(usage=usage, total=Total(cached_tokens=tokens, models=(share,), cost_usd=0.5)))
    record(events.ContextUsed(used=tokens, size=9))
    record(TurnFinished(status=Status.COMPLETED, usage=usage, models=(share,), lines_added=tokens, reply="yes"))
    sane, one = Usage(output_tokens=5), ModelUsage(model="m", usage=Usage(output_tokens=5))
    assert journal.of(events.UsageSeen) == [events.UsageSeen(usage=sane, total=Total(models=(one,), cost_usd=0.5))]
    assert journal.of(events.ContextUsed) == [events.ContextUsed(size=9)]
    assert journal.of(TurnFinished) == [
        TurnFinished(status=Status.COMPLETED, usage=sane, models=(one,), reply="yes"),
    ]
    told = [name for notice in journal.of(events.Notice) for name in notice.text.partition(": ")[2].split(", ")]
    assert sorted(told) == ["cached_tokens", "cost_usd", "input_tokens", "lines_added", "used"]


def test_figures_within_their_range_are_taken_as_they_are() -> None:
    journal = Recorded()
    seen = events.UsageSeen(usage=Usage(input_tokens=0, output_tokens=10**12), cost_usd=1e6)
    assert PieceRecorder(journal, FakeClock(), [FigureFilter(journal)])(seen) is seen
    assert journal.events == [seen]
