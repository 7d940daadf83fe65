"""What was used: by agent and model, from the folds; what no model is known of is not lost, and the sum is of all."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from beam.api import usage
from beam.api.status import status_of
from beam.api.usage import UsageLine
from beam.model import events
from beam.model.outcome import Status, Usage
from beam.model.state import State, Totals, UsageSum, apply
from tests.support.context import Root

A_THOUSAND = Usage(input_tokens=1000, output_tokens=10)


def finished(model: str | None, cost_usd: float | None, turn: int | None) -> events.Event:
    body = events.TurnFinished(status=Status.COMPLETED, model=model, usage=A_THOUSAND, cost_usd=cost_usd)
    return structs.replace(body, seq=turn or 1, ts="t", agent="a", turn=turn, message_id="a-1")


def totals(*turns: tuple[str | None, float | None]) -> Totals:
    state = State()
    for number, (model, cost_usd) in enumerate(turns, 1):
        apply(state, finished(model, cost_usd, number))  # type: ignore[arg-type]
    return state.totals


def test_turns_are_summed_by_model_and_those_without_one_are_not_lost() -> None:
    found = usage.sums_by_model(totals(("opus", 0.5), ("haiku", None), ("opus", 0.25), (None, 0.125)))
    assert {model: (share.turns, share.cost_usd) for model, share in found.items()} == {
        "haiku": (1, None),
        "opus": (2, 0.75),
        None: (1, 0.125),
    }
    assert found["opus"].usage == Usage(input_tokens=2000, output_tokens=20)
    assert found[None].usage == A_THOUSAND


def test_totals_of_a_snapshot_that_knew_no_models_count_without_one() -> None:
    before = Totals(turns=3, usage=A_THOUSAND, cost_usd=1.0)
    assert usage.sums_by_model(before) == {None: UsageSum(turns=3, usage=A_THOUSAND, cost_usd=1.0)}


def test_the_lines_are_of_every_agent_and_lane_and_the_last_is_the_sum(tmp_path: Path) -> None:
    root = Root(tmp_path)
    for agent, model in (("worker", "opus"), ("other", "opus")):
        lease = root.hold(agent)
        body = events.TurnFinished(status=Status.COMPLETED, model=model, usage=A_THOUSAND, cost_usd=0.5)
        lease.log.record(body, turn=1, message_id="m-1")
        lease.close()
    found = usage.usage_lines(root.context, ["worker", "other", "box"])
    assert [(line.agent, line.model, line.turns, line.cost_usd) for line in found] == [
        ("worker", "opus", 1, 0.5),
        ("other", "opus", 1, 0.5),
        (None, None, 2, 1.0),
    ]


def test_a_journal_that_cannot_be_read_is_reported_and_not_counted(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.hold("worker").close()
    (segment,) = root.place("worker").journal.glob("*.jsonl")
    segment.write_bytes(b"junk\n" + segment.read_bytes())
    worker, total = usage.usage_lines(root.context, ["worker"])
    assert isinstance(worker, UsageLine)
    assert "damaged" in (worker.error or "")
    assert total.turns == 0


def test_where_a_cli_names_no_cost_the_dated_table_estimates_one(tmp_path: Path) -> None:
    root = Root(tmp_path)
    lease = root.hold("worker")
    for number, (model, cost_usd) in enumerate((("gpt-5.5", None), ("claude-opus-5", 0.5), ("made-up", None)), 1):
        body = events.TurnFinished(status=Status.COMPLETED, model=model, usage=A_THOUSAND, cost_usd=cost_usd)
        lease.log.record(body, turn=number, message_id=f"m-{number}")
    lease.close()
    found = {line.model: line for line in usage.usage_lines(root.context, ["worker"])}
    assert {model: (line.cost_usd, line.estimated_usd) for model, line in found.items()} == {
        "claude-opus-5": (0.5, None),
        "gpt-5.5": (None, 0.0053),
        "made-up": (None, None),
        None: (0.5, 0.0053),
    }
    assert status_of(root.context, root.place("worker")).estimated_usd == 0.0053


def test_totals_without_an_estimate_have_none() -> None:
    assert usage.estimate(totals(("made-up", None), ("gpt-5.5", 0.5))) is None
