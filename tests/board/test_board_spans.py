"""Who worked when, and what it cost."""

from __future__ import annotations

import pytest

from beam import events
from beam.board.spans import Costs, Spans, bar, sparkline_of
from beam.board.words import as_text
from beam.model.outcome import Status, Usage
from tests.board.made import head, ts


def started() -> events.TurnStarted:
    owner = events.Owner(pid=7, start_ticks=1)
    return events.TurnStarted(**head("a", 60), owner=owner, turn_key="k", adapter="claude", via="exec")


def finished(usd: float | None = None, model: str | None = None) -> events.TurnFinished:
    used = Usage(input_tokens=900_000, output_tokens=100_000)
    return events.TurnFinished(**head("a", 0), status=Status.COMPLETED, cost_usd=usd, model=model, usage=used)


def test_work_and_waiting_for_a_person_are_seen_as_they_were() -> None:
    spans = Spans()
    spans.apply("k", started(), 10)
    spans.apply("k", events.PermissionAsked(**head("a", 0), ask_id="x", tool="T", expires=ts(-9)), 20)
    spans.apply("k", events.PermissionDecided(**head("a", 0), ask_id="x", decision="allow"), 30)
    spans.apply("k", finished(), 40)
    spans.apply("k", started(), 90)
    assert as_text(bar(spans.by_key["k"], 0, 100, 20)) == "··██???██·········██"


def test_a_turn_whose_beginning_was_not_seen_begins_when_its_status_says() -> None:
    spans = Spans()
    spans.mark_busy("k", "working", 5)
    spans.mark_busy("k", "working", 50)
    spans.mark_idle("k", 60)
    spans.mark_idle("k", 99)
    assert [(each.begin_s, each.end_s) for each in spans.by_key["k"]] == [(5, 60)]


def test_what_was_before_or_is_after_the_window_is_not_drawn() -> None:
    spans = Spans()
    spans.apply("k", started(), 1)
    spans.apply("k", finished(), 2)
    assert as_text(bar(spans.by_key["k"], 50, 100, 10)) == "·" * 10


@pytest.mark.slow
def test_spans_of_one_row_are_bounded() -> None:
    spans = Spans()
    for at in range(2_000):
        spans.apply("k", started(), at)
    assert len(spans.by_key["k"]) == 500


def test_costs_are_summed_by_row_and_over_time() -> None:
    costs = Costs()
    costs.apply("a", finished(0.25), 10)
    costs.apply("a", finished(0.75), 90)
    costs.apply("b", finished(None, "claude-opus-4-8"), 95)
    sums = costs.by_key(0)
    assert sums["a"] == (1.0, 2_000_000, False)
    assert sums["b"][0] > 0 and sums["b"][2]
    graph, most = costs.sparkline(0, 100, 10)
    assert len(graph) == 10 and graph[5] == " " and graph[9] == "█" and most > 0.75
    assert costs.by_key(50)["a"] == (0.75, 1_000_000, False)


def test_zero_has_no_bar() -> None:
    assert sparkline_of([0.0, 0.0]) == "  " and Costs().sparkline(0, 1, 3) == ("   ", 0.0)
